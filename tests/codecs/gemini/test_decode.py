"""Every shape of a Gemini body, as the vendor documents it and as it was met."""

import json

import pytest
from tests.codecs.gemini.bodies import array, call, chunk, deltas, events, read, text, whole
from tests.corpus import byte_by_byte

from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.gemini.decode import GeminiDecoder
from holdfast.codecs.gemini.errors import classify
from holdfast.core.deltas import (
    ErrorReceived,
    NoChoices,
    NotAReply,
    ReplyFinished,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
    UsageReceived,
)
from holdfast.core.errors import ErrorCategory, NoCandidatesError
from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Reasoning,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
)

USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 4, "totalTokenCount": 14}
STREAM = (
    chunk(text("Hel")),
    chunk(text("lo")),
    chunk(text("!"), finish="STOP", usageMetadata=USAGE),
)


def test_a_whole_reply() -> None:
    reply = read(whole(chunk(text("Hello!"), finish="STOP", usageMetadata=USAGE))).reply
    assert (reply.kind, reply.text, reply.finish) == (
        ReplyKind.COMPLETE,
        "Hello!",
        FinishReason.STOP,
    )
    assert (reply.id, reply.model, reply.raw_finish) == ("r1", "gemini-2.5-flash", "STOP")
    assert reply.usage == Usage(input=10, output=4)


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_a_stream_whatever_its_line_ends(end: str) -> None:
    body = events(*STREAM, end=end)
    reply = read(body, "text/event-stream").reply
    assert (reply.kind, reply.text, reply.usage.total) == (ReplyKind.COMPLETE, "Hello!", 14)
    assert read(byte_by_byte(body)).reply == reply


def test_a_stream_that_lacks_its_last_blank_line() -> None:
    assert read(events(*STREAM).rstrip()).reply.text == "Hello!"


def test_events_that_lack_the_blank_line_between_them() -> None:
    reply = read(events(*STREAM, end="\n")).reply
    assert (reply.kind, reply.text) == (ReplyKind.COMPLETE, "Hello!")


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", ""])
def test_the_first_bytes_say_what_a_body_is(content_type: str) -> None:
    for body in (events(*STREAM), array(*STREAM), b"\xef\xbb\xbf" + array(*STREAM)):
        assert read(body, content_type).reply.text == "Hello!"


def test_an_array_is_read_as_it_comes() -> None:
    decoder = GeminiDecoder("application/json", classify)
    body = array(*STREAM)
    cut = body.index(b",\r\n") + 1
    first = decoder.feed(body[:cut])
    assert TextDelta("Hel", 0) in first
    assert TextDelta("!", 0) in decoder.feed(body[cut:])
    assert decoder.close() == []


def test_an_array_byte_by_byte_and_with_brackets_in_its_texts() -> None:
    body = array(chunk(text('a "}]" \\')), chunk(text("{[b"), finish="STOP"))
    reply = read(byte_by_byte(body)).reply
    assert (reply.kind, reply.text) == (ReplyKind.COMPLETE, 'a "}]" \\{[b')


def test_an_array_that_was_cut_is_not_whole() -> None:
    body = array(*STREAM)
    reply = read(body[: body.rindex(b"finishReason")]).reply
    assert (reply.kind, reply.text) == (ReplyKind.UNTERMINATED, "Hello")


def test_one_object_a_line() -> None:
    body = b"\n".join(whole(value) for value in STREAM)
    assert read(body, "application/x-ndjson").reply.text == "Hello!"


def test_a_stream_without_a_finish_reason_is_not_whole() -> None:
    for body in (events(*STREAM[:2]), array(*STREAM[:2])):
        assembled = read(body)
        assert assembled.reply.kind is ReplyKind.UNTERMINATED
        assert assembled.reply.text == "Hello"
        assert assembled.error is not None


def test_a_whole_body_without_a_finish_reason_is_whole() -> None:
    assert read(whole(chunk(text("Hi")))).reply.kind is ReplyKind.COMPLETE


def test_no_done_marker_is_needed_and_one_is_ignored() -> None:
    assert not any(isinstance(delta, StreamEnded) for delta in deltas(events(*STREAM))[:-1])
    assert read(events(*STREAM) + b"data: [DONE]\n\n").reply.text == "Hello!"


@pytest.mark.parametrize(
    ("number", "provider", "reason", "word"),
    [
        (1, "gemini", FinishReason.STOP, "STOP"),
        (2, "vertex", FinishReason.LENGTH, "MAX_TOKENS"),
        (3, "", FinishReason.CONTENT_FILTER, "SAFETY"),
        (10, "gemini", FinishReason.ERROR, "MALFORMED_FUNCTION_CALL"),
        (10, "vertex", FinishReason.CONTENT_FILTER, "MODEL_ARMOR"),
        (9, "vertex", FinishReason.ERROR, "MALFORMED_FUNCTION_CALL"),
        (77, "gemini", FinishReason.UNKNOWN, "77"),
    ],
)
def test_enums_as_numbers(number: int, provider: str, reason: FinishReason, word: str) -> None:
    reply = read(whole(chunk(text("x"), finish=number)), provider=provider).reply
    assert (reply.finish, reply.raw_finish) == (reason, word)


@pytest.mark.parametrize("unset", [0, None, "", True, [], {}])
def test_a_finish_reason_that_says_nothing(unset: object) -> None:
    body = chunk(text("x"))
    body["candidates"][0]["finishReason"] = unset  # type: ignore[index]
    assert read(events(body)).reply.kind is ReplyKind.UNTERMINATED


@pytest.mark.parametrize(
    "word",
    ["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
     "MODEL_ARMOR", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION"],
)  # fmt: skip
@pytest.mark.parametrize("frame", [whole, events, array])
def test_what_a_filter_withheld(word: str, frame: object) -> None:
    assembled = read(frame(chunk(text("half"), finish=word)))  # type: ignore[operator]
    assert assembled.reply.kind is ReplyKind.FILTERED
    assert assembled.reply.raw_finish == word
    assert assembled.reply.text == "half"
    assert assembled.error is not None
    assert assembled.error.info.category is ErrorCategory.CONTENT_FILTERED


@pytest.mark.parametrize(
    "word",
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "NO_IMAGE",
     "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"],
)  # fmt: skip
def test_what_the_model_did_wrong_can_be_tried_again(word: str) -> None:
    body = chunk(finish=word)
    body["candidates"][0]["finishMessage"] = "wanted key=sk-abcdefgh12345678"  # type: ignore[index]
    assembled = read(whole(body))
    assert assembled.reply.kind is ReplyKind.ERROR_REPLY
    assert assembled.error is not None
    info = assembled.error.info
    assert (info.category, info.code) == (ErrorCategory.INVALID_RESPONSE, word.lower())
    assert word in info.safe
    assert "sk-abc" not in info.safe


def test_an_undeclared_call_is_not_run() -> None:
    body = chunk(call("wipe", {"path": "/"}), finish="UNEXPECTED_TOOL_CALL")
    assert read(whole(body)).reply.kind is ReplyKind.ERROR_REPLY


def test_other_and_unknown_words() -> None:
    assert read(whole(chunk(text("x"), finish="OTHER"))).reply.kind is ReplyKind.ERROR_REPLY
    odd = read(whole(chunk(text("x"), finish="MOON_PHASE"))).reply
    assert (odd.finish, odd.raw_finish) == (FinishReason.UNKNOWN, "MOON_PHASE")


def test_cut_at_the_output_limit() -> None:
    assert read(events(chunk(text("x"), finish="MAX_TOKENS"))).reply.kind is ReplyKind.TRUNCATED
    assert read(whole(chunk(text("x"), finish="CONTINUATION"))).reply.kind is ReplyKind.TRUNCATED


@pytest.mark.parametrize("frame", [whole, events, array])
@pytest.mark.parametrize("reason", ["SAFETY", "MODEL_ARMOR", "OTHER", "NEW_REASON", 1, 4, 99])
def test_a_blocked_prompt(frame: object, reason: object) -> None:
    body = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}}
    assembled = read(frame(body))  # type: ignore[operator]
    assert assembled.reply.kind is ReplyKind.FILTERED
    assert assembled.reply.usage.input == 3


@pytest.mark.parametrize("reason", [None, "", 0, "BLOCK_REASON_UNSPECIFIED"])
def test_a_prompt_that_was_not_blocked(reason: object) -> None:
    body = {**chunk(text("x"), finish="STOP"), "promptFeedback": {"blockReason": reason}}
    assert read(whole(body)).reply.kind is ReplyKind.COMPLETE


@pytest.mark.parametrize("frame", [whole, events, array])
@pytest.mark.parametrize("candidates", [{"candidates": []}, {"candidates": None}, {}])
def test_no_candidates(frame: object, candidates: dict[str, object]) -> None:
    body = frame({**candidates, "modelVersion": "g", "usageMetadata": USAGE})  # type: ignore[operator]
    assert NoChoices() in deltas(body)
    assert isinstance(read(body).error, NoCandidatesError)


@pytest.mark.parametrize("content", [{}, {"role": "model"}, {"parts": []}, {"parts": None}])
def test_content_without_parts(content: object) -> None:
    candidate = {"content": content, "finishReason": "STOP"}
    assert read(whole({"candidates": [candidate]})).reply.kind is ReplyKind.EMPTY


def test_a_candidate_without_content() -> None:
    assert NotAReply("content attribute", "missing") in deltas(whole({"candidates": [{}]}))
    stopped = read(whole({"candidates": [{"finishReason": "SAFETY"}]})).reply
    assert stopped.kind is ReplyKind.FILTERED


def test_only_the_first_candidate_counts() -> None:
    first, second = chunk(text("one"), finish="STOP"), chunk(text("two"), finish="SAFETY")
    second["candidates"][0]["index"] = 1  # type: ignore[index]
    both = {"candidates": [*first["candidates"], *second["candidates"]]}  # type: ignore[misc]
    assert read(whole(both)).reply.text == "one"
    assert read(events(first, second)).reply.kind is ReplyKind.COMPLETE
    decoder = GeminiDecoder("", classify)
    decoder.feed(events(first, second))
    assert decoder.other_candidates == 1


def test_thoughts_and_their_signature() -> None:
    reply = read(
        events(
            chunk(text("Let me", thought=True)),
            chunk(text(" see", thought=True)),
            chunk(text("signed", thought=True, thoughtSignature="S1")),
            chunk(text("Yes")),
            chunk(text("", thoughtSignature="S2"), finish="STOP"),
        )
    ).reply
    assert reply.parts == (
        Reasoning("Let me see"),
        Reasoning("signed", "S1", "gemini"),
        Text("Yes"),
        Text("", {"thoughtSignature": "S2"}),
    )
    assert reply.text == "Yes"


def test_a_signed_text_is_streamed_and_keeps_its_signature() -> None:
    body = whole(chunk(text("a"), text("b", thoughtSignature="S"), text("c"), finish="STOP"))
    assert [delta.text for delta in deltas(body) if isinstance(delta, TextDelta)] == ["a", "b", "c"]
    reply = read(body).reply
    assert reply.text == "abc"
    assert Text("", {"thoughtSignature": "S", "joined": True}) in reply.parts


def test_a_call_and_its_signature() -> None:
    part = {**call("pay", {"amount": 5.0, "to": "bob"}, id="c1"), "thoughtSignature": "S"}
    reply = read(whole(chunk(part, finish="STOP"))).reply
    assert reply.calls == (
        ToolCall("c1", "pay", '{"amount":5.0,"to":"bob"}', "gemini", {"thoughtSignature": "S"}),
    )
    assert (reply.finish, reply.raw_finish) == (FinishReason.TOOL_CALLS, "STOP")


def test_calls_without_id_and_without_arguments() -> None:
    reply = read(whole(chunk(call("a"), call("a", {}), call("b", {"x": 1}), finish="STOP"))).reply
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [
        ("", "a", "{}"),
        ("", "a", "{}"),
        ("", "b", '{"x":1}'),
    ]


def test_a_call_after_the_finish_reason() -> None:
    chunks = (chunk(text("x"), finish="STOP"), chunk(call("a")))
    assert read(events(*chunks)).reply.kind is ReplyKind.UNTERMINATED
    reply = read(events(*chunks, chunk(finish="STOP"))).reply
    assert (reply.kind, reply.finish) == (ReplyKind.COMPLETE, FinishReason.TOOL_CALLS)


@pytest.mark.parametrize("args", [[1], 5, "no json", True])
def test_arguments_that_are_not_an_object_do_not_run(args: object) -> None:
    assert read(whole(chunk(call("a", args), finish="STOP"))).reply.kind is ReplyKind.MALFORMED_CALL


def test_a_call_without_a_name_is_not_run() -> None:
    body = chunk({"functionCall": {}}, finish="STOP")
    assert read(whole(body)).reply.kind is ReplyKind.MALFORMED_CALL


def test_unknown_fields_of_a_call_are_stored() -> None:
    reply = read(whole(chunk(call("a", {}, scheduling="SILENT"), finish="STOP"))).reply
    assert reply.calls[0].extra == {"functionCall": {"scheduling": "SILENT"}}


def streamed(*entries: dict[str, object], more: bool = True) -> dict[str, object]:
    function: dict[str, object] = {"willContinue": True} if more else {}
    return chunk({"functionCall": {"partialArgs": list(entries), **function}})


def test_arguments_that_come_value_by_value() -> None:
    body = events(
        chunk({**call("pay", willContinue=True, id="c"), "thoughtSignature": "S"}),
        streamed({"jsonPath": "$.to.name", "stringValue": "Bo", "willContinue": True}),
        streamed({"jsonPath": "$.to.name", "stringValue": "b\n"}),
        streamed(
            {"jsonPath": "$.amount", "numberValue": 5}, {"jsonPath": "$.now", "boolValue": False}
        ),
        streamed(
            {"jsonPath": "$.tags[0]", "stringValue": "x"},
            {"jsonPath": "$.note", "nullValue": "NULL_VALUE"},
        ),
        chunk({"functionCall": {}}),
        chunk(call("other", {"q": 1})),
        chunk(finish="STOP"),
    )
    for pieces in (body, byte_by_byte(body)):
        pay, other = read(pieces).reply.calls
        assert (pay.id, pay.name) == ("c", "pay")
        assert json.loads(pay.arguments) == {
            "to": {"name": "Bob\n"}, "amount": 5, "now": False, "tags": ["x"], "note": None,
        }  # fmt: skip
        assert pay.extra == {"thoughtSignature": "S"}
        assert (other.name, other.arguments) == ("other", '{"q":1}')


@pytest.mark.parametrize("finish", ["STOP", "MAX_TOKENS"])
def test_a_streamed_call_that_was_cut_cannot_be_run(finish: str) -> None:
    reply = read(
        events(
            chunk(call("wipe", willContinue=True)),
            streamed({"jsonPath": "$.path", "stringValue": "/tmp/sa", "willContinue": True}),
            chunk(finish=finish),
        )
    ).reply
    assert reply.kind in (ReplyKind.MALFORMED_CALL, ReplyKind.TRUNCATED)
    with pytest.raises(json.JSONDecodeError):
        json.loads(reply.calls[0].arguments)


def test_a_streamed_call_with_no_value_at_all_cannot_be_run_when_cut() -> None:
    reply = read(events(chunk(call("wipe", willContinue=True)), chunk(finish="STOP"))).reply
    assert reply.kind is ReplyKind.MALFORMED_CALL


def test_another_call_cuts_the_one_under_way() -> None:
    body = events(
        chunk(call("a", willContinue=True)), chunk(call("b", willContinue=True)),
        chunk({"functionCall": {}}), chunk(finish="STOP"),
    )  # fmt: skip
    assert [c.arguments for c in read(body).reply.calls] == ["{", "{}"]


def test_parts_without_a_neutral_form_are_stored_unchanged() -> None:
    parts = (
        {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "S"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH", "args": {}}},
        {"toolResponse": {"id": "t", "response": {"n": 1}}},
        {"holographicData": {"x": 1}},
        {"inlineData": {"mimeType": "image/png", "data": "iVA="}, "thought": True},
    )
    reply = read(whole(chunk(*parts, text("2"), finish="STOP"))).reply
    assert reply.parts == (*(Opaque("gemini", part) for part in parts), Text("2"))


def test_media() -> None:
    parts = (
        {"inlineData": {"mimeType": "image/png", "data": "iVA="}, "thoughtSignature": "S"},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.org/v"}},
        {"inlineData": {"mimeType": "image/png", "data": "!"}},
    )
    reply = read(whole(chunk(*parts, finish="STOP"))).reply
    assert reply.parts == (
        Media("image/png", data=b"\x89P", extra={"thoughtSignature": "S"}),
        Media("video/mp4", url="https://example.org/v"),
        Opaque("gemini", parts[2]),
    )
    assert reply.kind is ReplyKind.COMPLETE


def test_metadata_of_a_reply_is_stored_once_as_a_note() -> None:
    first, last = chunk(text("a")), chunk(text("b"), finish="STOP")
    first["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["old"]}  # type: ignore[index]
    last["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["q"]}  # type: ignore[index]
    last["candidates"][0]["citationMetadata"] = {"citations": []}  # type: ignore[index]
    reply = read(events(first, last)).reply
    about = {
        "groundingMetadata": {"webSearchQueries": ["q"]},
        "citationMetadata": {"citations": []},
    }
    assert reply.parts == (Text("ab"), Opaque("gemini.metadata", about))


def test_usage_adds_up_to_the_total_of_the_wire() -> None:
    usage = {
        "promptTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 40,
        "toolUsePromptTokenCount": 7, "cachedContentTokenCount": 60, "totalTokenCount": 152,
    }  # fmt: skip
    seen = read(whole(chunk(text("x"), finish="STOP", usageMetadata=usage))).reply.usage
    assert seen == Usage(input=107, output=45, cached_input=60, reasoning=40)
    assert seen.total == 152


def test_the_last_usage_counts_and_one_without_counts_does_not() -> None:
    body = events(
        chunk(text("a"), usageMetadata={"trafficType": "ON_DEMAND"}),
        chunk(text("b"), usageMetadata={"promptTokenCount": 9}),
        chunk(text("c"), usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 2}),
        chunk(text("d"), finish="STOP", usageMetadata={"trafficType": "ON_DEMAND"}),
        {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}},
    )
    assert read(body).reply.usage == Usage(input=9, output=3)
    told = [delta for delta in deltas(body) if isinstance(delta, UsageReceived)]
    assert len(told) == 2


def test_a_stream_that_was_cut_still_says_what_it_cost() -> None:
    assert (
        read(events(chunk(text("a")), chunk(text("b"), usageMetadata=USAGE))).reply.usage.total
        == 14
    )


@pytest.mark.parametrize("count", [None, -1, "7", True, 1.5, [], 10**30])
def test_strange_counts(count: object) -> None:
    usage = read(
        whole(chunk(text("x"), finish="STOP", usageMetadata={"promptTokenCount": count}))
    ).reply.usage
    assert usage.input in (0, 2**53)


ERROR = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}}


@pytest.mark.parametrize(
    "body",
    [whole(ERROR), whole([ERROR]), events(ERROR), array(ERROR), events([ERROR]),
     events(chunk(text("Hel")), ERROR), array(chunk(text("Hel")), ERROR)],
)  # fmt: skip
def test_an_error_inside_a_200(body: bytes) -> None:
    assembled = read(body)
    assert assembled.reply.kind is ReplyKind.ERROR_REPLY
    assert assembled.error is not None
    assert assembled.error.info.category.is_retryable
    assert "overloaded" in assembled.error.info.safe
    assert sum(isinstance(delta, ErrorReceived) for delta in deltas(body)) == 1


@pytest.mark.parametrize(
    ("body", "expected", "got"),
    [
        (b"<html>502</html>", "response object", "HTML page"),
        (b"upstream connect error", "response object", "plain text"),
        (b"", "response object", "empty body"),
        (b"  \n ", "response object", "empty body"),
        (b'{"candidates": [', "response object", "cut or malformed JSON"),
        (b'"text"', "response object", "string"),
        (b'{"choices": []}', "candidates attribute", "missing"),
        (b'{"candidates": {"0": 1}}', "candidates list", "object"),
        (b'{"candidates": ["x"]}', "candidate object", "string"),
        (b"data: <html>\n\n", "JSON in every event", "HTML page"),
        (b"data: 5\n\n", "chunk object", "number"),
    ],
)
def test_bodies_that_are_not_replies(body: bytes, expected: str, got: str) -> None:
    assert NotAReply(expected, got) in deltas(body, "application/json")
    assert read(body, "application/json").reply.kind is ReplyKind.NOT_A_REPLY


def test_a_secret_in_an_invalid_body_is_not_quoted() -> None:
    assembled = read(b"key=sk-abcdefgh12345678")
    assert "sk-abc" not in str(assembled.error)


@pytest.mark.parametrize("frame", [whole, events, array])
def test_a_reply_inside_a_wrapper(frame: object) -> None:
    wrapped = {"response": chunk(text("Hi"), finish="STOP"), "traceId": "t"}
    assert read(frame(wrapped)).reply.text == "Hi"  # type: ignore[operator]


def test_a_bare_status_is_an_error() -> None:
    assembled = read(whole(ERROR["error"]))
    assert assembled.reply.kind is ReplyKind.ERROR_REPLY
    assert assembled.error is not None
    assert assembled.error.info.category.is_retryable


def test_the_id_may_come_after_the_model() -> None:
    first, second = chunk(text("a")), chunk(text("b"), finish="STOP")
    del first["responseId"]
    reply = read(events(first, second)).reply
    assert (reply.id, reply.model) == ("r1", "gemini-2.5-flash")


def test_one_part_without_its_list() -> None:
    body = {"candidates": [{"content": {"parts": text("Hi")}, "finishReason": "STOP"}]}
    assert read(whole(body)).reply.text == "Hi"


def test_a_whole_body_with_trailing_bytes_is_not_a_reply() -> None:
    body = whole(chunk(text("Hi"), finish="STOP")) + b"<html>"
    assert read(body).reply.kind is ReplyKind.NOT_A_REPLY


def test_strange_shapes_are_passed_over() -> None:
    body = {
        "candidates": [{
            "content": {"parts": [None, 7, "x", [], {}, {"text": None}, {"functionCall": "x"}, text("ok")]},
            "finishReason": "STOP", "index": None, "safetyRatings": "?", "newField": {},
        }],
        "usageMetadata": [], "promptFeedback": "?", "modelVersion": 5, "responseId": [],
    }  # fmt: skip
    for frame in (whole(body), events(body), array(body)):
        reply = read(frame).reply
        assert (reply.kind, reply.text) == (ReplyKind.COMPLETE, "ok")


def test_bytes_that_are_not_utf_8_do_not_lose_the_reply() -> None:
    body = events(chunk(text("ab"), finish="STOP")).replace(b"ab", b"a\xffb")
    assert read(body).reply.text == "a�b"


def test_what_comes_after_the_end_is_passed_over() -> None:
    assert read(events(*STREAM) + b"data: {oops\n\n").reply.kind is ReplyKind.COMPLETE
    assert read(array(*STREAM) + b"garbage").reply.kind is ReplyKind.COMPLETE


def test_an_event_that_is_not_json_is_never_skipped_silently() -> None:
    assembled = read(events(STREAM[0]) + b"data: {oops\n\n" + events(*STREAM[1:]))
    assert assembled.reply.kind is ReplyKind.NOT_A_REPLY


@pytest.mark.parametrize("opening", [b"data: ", b"[", b"{"])
def test_an_endless_body_is_rejected(opening: bytes) -> None:
    decoder = GeminiDecoder("", classify, limit=1000)
    found = decoder.feed(opening + b'{"text": "')
    for _ in range(50):
        found += decoder.feed(b"x" * 100)
    found += decoder.close()
    assert any(isinstance(delta, NotAReply) for delta in found)
    assert decoder.feed(b"more") == []


def test_nothing_is_read_twice() -> None:
    decoder = GeminiDecoder("", classify)
    found = decoder.feed(events(*STREAM)) + decoder.close()
    assert decoder.close() == []
    assert [delta for delta in found if isinstance(delta, ReplyFinished)] == [
        ReplyFinished(FinishReason.STOP, "STOP")
    ]


def test_a_call_is_one_delta() -> None:
    found = deltas(whole(chunk(call("a", {"x": 1}), finish="STOP")))
    assert sum(isinstance(delta, ToolCallDelta) for delta in found) == 1


def test_the_usage_of_a_plain_chunk_never_replaces_a_later_one() -> None:
    body = events(
        *[chunk(text("a"), usageMetadata={"candidatesTokenCount": n}) for n in range(1, 4)],
        chunk(text("z"), finish="STOP", usageMetadata={"candidatesTokenCount": 9}),
    )
    assert read(body).reply.usage.output == 9
    cut = events(
        *[chunk(text("a"), usageMetadata={"candidatesTokenCount": n}) for n in range(1, 4)]
    )
    assert read(cut).reply.usage.output == 3


COUNTED = {"usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 3}}


class TestProofOfTheEnd:
    """A finish reason alone is none: some models give one in each chunk."""

    @staticmethod
    def last(*chunks: object) -> list[bool]:
        return [one.last for one in deltas(events(*chunks)) if isinstance(one, ReplyFinished)]

    def test_after_chunks_without_one_and_with_the_total(self) -> None:
        assert self.last(chunk(text("Hi")), chunk(text("!"), finish="STOP", **COUNTED)) == [True]

    @pytest.mark.parametrize(
        "chunks",
        [
            [chunk(text("Hi")), chunk(text("!"), finish="STOP")],
            [chunk(text("Hi"), finish="STOP", **COUNTED)],
            [
                chunk(text("Hi"), finish="STOP", **COUNTED),
                chunk(text("!"), finish="STOP", **COUNTED),
            ],
            [
                chunk(text("Hi")),
                chunk({"executableCode": {"code": "1"}}, finish="STOP", **COUNTED),
                chunk({"codeExecutionResult": {"output": "1"}}),
                chunk(text("1"), finish="STOP", **COUNTED),
            ],
        ],
    )
    def test_otherwise_more_may_follow(self, chunks: list[object]) -> None:
        assert not any(self.last(*chunks))

    def test_a_call_that_follows_takes_the_proof_back(self) -> None:
        chunks = (chunk(text("Hi")), chunk(finish="STOP", **COUNTED), chunk(call("pay", {})))
        again = chunk(finish="STOP", **COUNTED)
        assert self.last(*chunks) == [True]
        assert self.last(*chunks, again) == [True, False]
        decoder, assembler = Gemini().make_decoder("", ""), Assembler(EndpointProfile(), "gemini")
        proofs = []
        for one in (*chunks, again):
            for delta in decoder.feed(events(one)):
                assembler.feed(delta)
            proofs.append(assembler.is_complete)
        assert proofs == [False, True, False, False]
