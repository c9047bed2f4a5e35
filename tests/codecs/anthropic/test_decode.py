"""What the server sends, shape by shape, becomes one reply or one typed error."""

import json
from typing import Any

import pytest
from tests.codecs.anthropic.bodies import (
    as_stream,
    deltas,
    ended,
    event,
    grown,
    opened,
    read,
    started,
    stopped,
    text,
    whole,
)

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.anthropic.history import encode_blocks
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ProviderError,
    RefusedError,
    ResponseValidationError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.core.messages import (
    FinishReason,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
)

USE = {"type": "tool_use", "id": "toolu_1", "name": "weather"}


def parts(body: bytes) -> tuple[Part, ...]:
    assembled = read(body)
    assert assembled.error is None
    return assembled.reply.parts


def test_text_streams_and_comes_whole() -> None:
    streamed = read(started(usage={"input_tokens": 9}) + text(0, "Hel", "lo") + ended("end_turn"))
    reply = read(
        whole({"type": "text", "text": "Hello"}, usage={"input_tokens": 9, "output_tokens": 5})
    ).reply
    assert streamed.reply == reply
    assert (reply.text, reply.id, reply.model) == ("Hello", "msg_1", "claude-sonnet-4-5")
    assert (reply.finish, reply.raw_finish) == (FinishReason.STOP, "end_turn")
    assert reply.usage == Usage(input=9, output=5)


def test_deltas_come_as_their_bytes_come() -> None:
    decoder = AnthropicCodec().make_decoder("text/event-stream")
    decoder.feed(started() + opened(0, type="text", text=""))
    assert [delta.text for delta in decoder.feed(grown(0, "text_delta", text="Hel"))] == ["Hel"]


@pytest.mark.parametrize(
    ("start", "pieces", "arguments"),
    [
        ({}, ["", '{"city":', '"Porto"}'], '{"city":"Porto"}'),
        ({}, [""], "{}"),
        ({}, [], "{}"),
        ({"city": "Porto"}, [], '{"city":"Porto"}'),
        ({"city": "Porto"}, ["", '{"city": 1}'], '{"city": 1}'),
        (None, [], "{}"),
    ],
)
def test_arguments_come_in_pieces_or_at_once(start: Any, pieces: list[str], arguments: str) -> None:
    grows = b"".join(grown(0, "input_json_delta", partial_json=piece) for piece in pieces)
    body = started() + opened(0, **USE, input=start) + grows + stopped(0) + ended("tool_use")
    assert parts(body) == (ToolCall("toolu_1", "weather", arguments),)


def test_parallel_calls_keep_their_order_and_what_belongs_to_them() -> None:
    caller = {"type": "direct"}
    second = {**USE, "id": "toolu_2", "caller": caller}
    body = (
        started()
        + opened(0, **USE, input={})
        + opened(1, **second, input={})
        + grown(1, "input_json_delta", partial_json='{"n":2}')
        + grown(0, "input_json_delta", partial_json='{"n":1}')
        + stopped(1)
        + stopped(0)
        + ended("tool_use")
    )
    assert parts(body) == (
        ToolCall("toolu_1", "weather", '{"n":1}'),
        ToolCall("toolu_2", "weather", '{"n":2}', "anthropic", {"caller": caller}),
    )


def test_cut_arguments_are_never_runnable() -> None:
    head = started() + opened(0, **USE, input={})
    cut = head + grown(0, "input_json_delta", partial_json='{"path": "/tmp/sa')
    assert isinstance(read(cut).error, UnterminatedError)
    truncated = read(cut + stopped(0) + ended("max_tokens"))
    assert truncated.reply.kind is ReplyKind.TRUNCATED
    malformed = read(cut + stopped(0) + ended("tool_use"))
    assert malformed.reply.kind is ReplyKind.MALFORMED_CALL


def test_thinking_keeps_its_signature() -> None:
    streamed = parts(
        started()
        + opened(0, type="thinking", thinking="", signature="")
        + grown(0, "thinking_delta", thinking="Let me ")
        + grown(0, "thinking_delta", thinking="see", estimated_tokens=3)
        + grown(0, "signature_delta", signature="c2ln")
        + stopped(0)
        + text(1, "Yes")
        + ended("end_turn")
    )
    assert streamed == (Reasoning("Let me see", "c2ln", "anthropic"), Text("Yes"))
    at_once = {"type": "thinking", "thinking": "Let me see", "signature": "c2ln"}
    assert parts(whole(at_once, {"type": "text", "text": "Yes"})) == streamed


def test_omitted_thinking_is_stored_with_its_signature() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    message = read(whole(block, {"type": "text", "text": "Yes"})).reply.message
    assert encode_blocks(message)[0] == block


KEPT: list[dict[str, Any]] = [
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "t"}]},
    {"type": "mcp_tool_use", "id": "m1", "name": "n", "server_name": "s", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": []},
    {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"stdout": "1"}},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "advisor_tool_result", "tool_use_id": "s1", "content": {"type": "advice"}},
    {"type": "a_block_of_tomorrow", "words": ["a", 1, None], "deep": {"er": True}},
]


@pytest.mark.parametrize("block", KEPT, ids=lambda block: str(block["type"]))
def test_what_has_no_neutral_form_goes_back_verbatim(block: dict[str, Any]) -> None:
    message = {"content": [block, {"type": "text", "text": "Done"}], "stop_reason": "end_turn"}
    for body in (whole(*message["content"]), as_stream(message)):
        reply = read(body).reply
        assert reply.text == "Done"
        assert encode_blocks(reply.message)[0] == block


def test_citations_belong_to_their_text() -> None:
    cited = [{"type": "char_location", "cited_text": "a"}, {"type": "page_location"}]
    grows = b"".join(grown(0, "citations_delta", citation=one) for one in cited)
    streamed = parts(
        started()
        + opened(0, type="text", text="", citations=[])
        + grown(0, "text_delta", text="So it ")
        + grows
        + grown(0, "text_delta", text="is")
        + stopped(0)
        + text(1, ".")
        + ended("end_turn")
    )
    assert streamed == (
        Text("So it is", {"wire": "anthropic", "citations": cited}),
        Text("."),
    )
    block = {"type": "text", "text": "So it is", "citations": cited}
    assert parts(whole(block, {"type": "text", "text": "."})) == streamed


def test_a_compaction_is_put_together() -> None:
    body = (
        started()
        + opened(0, type="compaction", content=None)
        + grown(0, "compaction_delta", content="What was said", encrypted_content="ZW5j")
        + stopped(0)
        + text(1, "Yes")
        + ended("end_turn")
    )
    block = {"type": "compaction", "content": "What was said", "encrypted_content": "ZW5j"}
    assert parts(body)[0] == Opaque("anthropic", block)
    paused = read(whole(block, reason="compaction"))
    assert paused.error is None
    assert paused.reply.kind is ReplyKind.PAUSED


def test_another_model_takes_over() -> None:
    hop = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "claude-opus-4-8"}}
    reply = read(started() + opened(0, **hop) + stopped(0) + text(1, "Yes") + ended("end_turn"))
    assert reply.reply.model == "claude-opus-4-8"
    assert reply.reply.parts[0] == Opaque("anthropic", hop)


def test_unknown_pieces_are_counted_and_do_no_harm() -> None:
    decoder = AnthropicCodec().make_decoder("")
    body = (
        started()
        + event("a_new_event", value=1)
        + opened(0, type="text", text="")
        + grown(0, "text_delta", text="Yes")
        + grown(0, "a_new_delta", value=1)
        + stopped(0)
        + opened(1, type="a_new_block")
        + grown(1, "a_new_delta", words="a")
        + grown(1, "a_new_delta", words="b", items=[1])
        + stopped(1)
        + ended("end_turn")
    )
    decoder.feed(body)
    decoder.close()
    assert decoder.unknown_counts == {"a_new_event": 1, "a_new_delta": 3}
    block = {"type": "a_new_block", "words": "ab", "items": [1]}
    assert parts(body) == (Text("Yes"), Opaque("anthropic", block))


@pytest.mark.parametrize(
    ("word", "finish", "kind"),
    [
        ("end_turn", FinishReason.STOP, ReplyKind.COMPLETE),
        ("stop_sequence", FinishReason.STOP, ReplyKind.COMPLETE),
        ("tool_use", FinishReason.TOOL_CALLS, ReplyKind.COMPLETE),
        ("max_tokens", FinishReason.LENGTH, ReplyKind.TRUNCATED),
        ("model_context_window_exceeded", FinishReason.LENGTH, ReplyKind.TRUNCATED),
        ("pause_turn", FinishReason.PAUSE, ReplyKind.PAUSED),
        ("refusal", FinishReason.REFUSAL, ReplyKind.REFUSED),
        ("guardrail_intervened", FinishReason.REFUSAL, ReplyKind.REFUSED),
        # Gateways pass on the words of other vendors, or an empty one.
        ("stop", FinishReason.STOP, ReplyKind.COMPLETE),
        ("tool_calls", FinishReason.TOOL_CALLS, ReplyKind.COMPLETE),
        ("length", FinishReason.LENGTH, ReplyKind.TRUNCATED),
        ("MAX_TOKENS", FinishReason.LENGTH, ReplyKind.TRUNCATED),
        ("content_filter", FinishReason.CONTENT_FILTER, ReplyKind.FILTERED),
        ("error", FinishReason.ERROR, ReplyKind.ERROR_REPLY),
        ("", FinishReason.UNKNOWN, ReplyKind.COMPLETE),
        ("a_word_of_tomorrow", FinishReason.UNKNOWN, ReplyKind.COMPLETE),
    ],
)
def test_every_stop_reason(word: str, finish: FinishReason, kind: ReplyKind) -> None:
    for body in (
        whole({"type": "text", "text": "Yes"}, reason=word),
        started() + text(0, "Yes") + ended(word),
    ):
        reply = read(body).reply
        assert (reply.finish, reply.raw_finish, reply.kind) == (finish, word, kind)


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It was about malware."}
    body = started() + text(0, "I ") + ended("refusal", stop_details=details)
    assembled = read(body)
    assert isinstance(assembled.error, RefusedError)
    assert assembled.reply.parts == (Text("I "), Refusal("It was about malware."))
    at_once = read(whole({"type": "text", "text": "I "}, reason="refusal", stop_details=details))
    assert at_once.reply.parts == assembled.reply.parts


def test_usage_is_the_last_word_on_each_number() -> None:
    first = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 1,
    }
    last = {
        "input_tokens": 12,
        "cache_read_input_tokens": None,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    body = started(usage=first) + text(0, "Yes") + ended("end_turn", usage=last)
    assert read(body).reply.usage == Usage(
        input=1112, output=7, cached_input=100, cache_write=1000, reasoning=4
    )


ERROR = {"type": "overloaded_error", "message": "Overloaded"}


def test_an_error_in_the_stream_is_typed_first_or_in_the_middle() -> None:
    for body in (
        event("error", error=ERROR),
        started() + text(0, "Hel") + event("error", error=ERROR),
        json.dumps({"type": "error", "error": ERROR}).encode(),
        b"data: " + json.dumps({"error": ERROR}).encode() + b"\n\n",
    ):
        assembled = read(body)
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        assert isinstance(assembled.error, ProviderError)
        assert assembled.error.info.category in (
            ErrorCategory.TRANSIENT,
            ErrorCategory.SERVER_ERROR,
        )
    assert assembled.error.info.category.is_retryable


@pytest.mark.parametrize(
    "body",
    [
        started() + text(0, "Yes"),
        started() + opened(0, type="text", text="") + grown(0, "text_delta", text="Ye"),
        started() + text(0, "Yes") + event("message_delta", delta={"stop_reason": None}),
        # Gateways send the end marker after their own connection failed.
        started() + text(0, "Yes") + event("message_stop"),
        started() + opened(0, type="text", text="") + grown(0, "text_delta", text="Ye") + ended(""),
        started() + text(0, "Yes") + event("message_delta", delta={"stop_reason": ""}),
    ],
)
def test_a_stream_without_its_end_is_not_a_success(body: bytes) -> None:
    assembled = read(body)
    assert isinstance(assembled.error, UnterminatedError)
    assert assembled.reply.text.startswith("Ye")


def test_a_message_that_is_whole_in_its_first_event_has_its_reason_there() -> None:
    use = {**USE, "input": {"city": "Porto"}}
    first = started(content=[use], stop_reason="tool_use")
    reply = read(first + event("message_stop")).reply
    assert (reply.kind, reply.finish) == (ReplyKind.COMPLETE, FinishReason.TOOL_CALLS)
    assert [call.name for call in reply.calls] == ["weather"]
    early = started(stop_reason="end_turn") + text(0, "Yes") + event("message_stop")
    more = first + text(1, "Ye") + event("message_stop")
    for body in (early, more, first):
        assert isinstance(read(body).error, UnterminatedError)


def test_truncation_is_an_error_with_the_partial_text() -> None:
    error = read(whole({"type": "text", "text": "Long"}, reason="max_tokens")).error
    assert isinstance(error, TruncatedError)
    assert error.partial is not None
    assert error.partial.text == "Long"


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}]])
def test_an_empty_reply_is_an_error(content: list[dict[str, Any]]) -> None:
    for body in (
        whole(*content),
        as_stream({"content": content, "stop_reason": "end_turn"}),
    ):
        assert isinstance(read(body).error, EmptyResponseError)


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Bad gateway</body></html>",
        b"upstream connect error",
        b'{"content": {"text": "Hi"}, "type": "message"}',
        b'{"choices": []}',
        b'{"type": "message"}',
        b'[{"type": "message"}]',
        b'{"type": "message", "content": [',
        b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n',
        b"event: message_start\ndata: <html>\n\n",
        b"",
    ],
)
def test_a_body_of_another_wire_is_an_error(body: bytes) -> None:
    assembled = read(body)
    assert isinstance(assembled.error, ResponseValidationError | UnterminatedError)
    assert "html" not in str(assembled.error).lower() or "HTML page" in str(assembled.error)


def test_odd_streams_of_servers_that_speak_this_wire() -> None:
    plain = started() + text(0, "Yes") + ended("end_turn")
    wanted = read(plain).reply
    without_names = b"".join(
        line + b"\n" for line in plain.split(b"\n") if not line.startswith(b"event:")
    )
    for body in (
        without_names,
        plain.replace(b"\n", b"\r\n"),
        plain[:-2],
        plain + b"data: [DONE]\n\n",
        b": keep alive\n\n" + plain,
        b"\xef\xbb\xbf" + plain,
        started() + plain,
        plain + started(id="msg_2") + text(0, "No") + ended("end_turn"),
        plain.replace(b'"type": "content_block_stop", ', b""),
    ):
        assert read(body).reply == wanted


def test_blocks_without_number_or_beginning_are_read() -> None:
    no_index = event("content_block_start", content_block={"type": "text", "text": ""})
    no_index += event("content_block_delta", delta={"type": "text_delta", "text": "Yes"})
    assert parts(started() + no_index + ended("end_turn")) == (Text("Yes"),)
    no_start = grown(3, "thinking_delta", thinking="Hm") + grown(4, "text_delta", text="Yes")
    assert parts(started() + no_start + ended("end_turn")) == (Reasoning("Hm"), Text("Yes"))


def test_a_whole_body_under_the_name_of_a_stream_and_the_reverse() -> None:
    body = whole({"type": "text", "text": "Yes"})
    for content_type in ("text/event-stream", "application/json", "", "text/html"):
        assert any(getattr(d, "text", "") == "Yes" for d in deltas(body, content_type))
        stream = started() + text(0, "Yes") + ended("end_turn")
        assert any(getattr(d, "text", "") == "Yes" for d in deltas(stream, content_type))


def test_the_container_of_waiting_code_is_stored() -> None:
    container = {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}
    body = started() + text(0, "Yes") + ended("end_turn", container=container)
    wanted = (Text("Yes"), Opaque("anthropic", {"container": container}))
    assert parts(body) == wanted
    assert parts(whole({"type": "text", "text": "Yes"}, container=container)) == wanted
    assert encode_blocks(read(body).reply.message) == [{"type": "text", "text": "Yes"}]
