"""What the server sends, shape by shape, becomes one reply or one typed error."""

import json
from typing import Any

import pytest
from tests.codecs.openai_responses.bodies import (
    WIRE,
    added,
    as_stream,
    call,
    completed,
    created,
    deltas,
    done,
    event,
    grown,
    message,
    read,
    response,
    said,
)

from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.openai_responses.history import ItemForm, encode_items
from holdfast.core.deltas import NotAReply, TextDelta
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    FilteredError,
    ProviderError,
    RefusedError,
    ResponseValidationError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
)

Json = dict[str, Any]


def whole(*output: Json, status: str = "completed", **fields: Any) -> bytes:
    return json.dumps(response(status, output=list(output), **fields)).encode()


def parts(body: bytes) -> tuple[Part, ...]:
    assembled = read(body)
    assert assembled.error is None
    return assembled.reply.parts


def same(*output: Json) -> tuple[Part, ...]:
    """The parts of a response, which must be those of every way to stream it."""
    wanted = parts(whole(*output))
    told = response(output=list(output))
    assert parts(as_stream(told)) == wanted
    assert parts(as_stream(told, final_output=False)) == wanted
    # Nothing but the beginning and the end.
    assert parts(created() + completed(*output)) == wanted
    # Only the ends of items, without pieces.
    ends = b"".join(done(at, **item) for at, item in enumerate(output))
    assert parts(created() + ends + completed()) == wanted
    return wanted


ECHO = ItemForm("system", searches=True)


def sendable(body: bytes) -> list[Json]:
    return encode_items(read(body).reply.message, ECHO)


def test_text_streams_and_comes_whole() -> None:
    (text,) = same(message("Hello", phase="final_answer"))
    own = {"id": "msg_1", "status": "completed", "phase": "final_answer"}
    assert text == Text("Hello", {"wire": WIRE, "item": own})
    usage = {
        "input_tokens": 9,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    reply = read(created() + said("Hello") + completed(usage=usage)).reply
    assert (reply.text, reply.id, reply.model) == ("Hello", "resp_1", "gpt-5.2")
    assert (reply.finish, reply.raw_finish) == (FinishReason.STOP, "completed")
    assert reply.usage == Usage(input=9, output=5, cached_input=4, reasoning=3)


def test_deltas_come_as_their_bytes_come() -> None:
    decoder = ResponsesCodec().make_decoder("text/event-stream")
    decoder.feed(created() + added(0, **{**message(""), "content": []}))
    first = decoder.feed(grown("output_text", 0, "Hel", content_index=0))
    second = decoder.feed(grown("output_text", 0, "lo", content_index=0))
    assert [delta.text for delta in first + second] == ["Hel", "lo"]


def test_text_that_is_sent_three_times_is_emitted_once() -> None:
    twice = event("response.output_text.done", output_index=0, content_index=0, text="Hello")
    body = created() + said("Hello") + twice + done(0, **message("Hello"))
    assert read(body + completed(message("Hello"))).reply.text == "Hello"


@pytest.mark.parametrize("shown", ["", "Hel", "Hello"])
def test_the_missing_end_of_a_text_is_added(shown: str) -> None:
    begun = added(0, **{**message(""), "content": []})
    grows = grown("output_text", 0, shown, content_index=0)
    for rest in (
        done(0, **message("Hello")) + completed(),
        completed(message("Hello")),
        event("response.output_text.done", output_index=0, content_index=0, text="Hello")
        + completed(),
    ):
        assert read(created() + begun + grows + rest).reply.text == "Hello"


def test_emitted_text_stays_if_the_final_form_differs() -> None:
    body = created() + said("Hello") + completed(message("[redacted]"))
    assert read(body).reply.text == "Hello"


def test_two_texts_of_one_message_go_back_as_one_item() -> None:
    item = message("One")
    item["content"].append({"type": "output_text", "text": "Two", "annotations": [{"a": 1}]})
    texts = same(item)
    assert [part.text for part in texts if isinstance(part, Text)] == ["One", "Two"]
    (sent,) = sendable(whole(item))
    assert sent["id"] == "msg_1"
    assert [part["text"] for part in sent["content"]] == ["One", "Two"]
    assert sent["content"][1]["annotations"] == [{"a": 1}]


def test_a_call_keeps_its_ids() -> None:
    (made,) = same(call('{"city": "Porto"}', namespace="geo"))
    extra = {"id": "fc_1", "status": "completed", "namespace": "geo"}
    assert made == ToolCall("call_1", "weather", '{"city": "Porto"}', WIRE, extra)
    reply = read(whole(call("{}"))).reply
    assert reply.finish is FinishReason.TOOL_CALLS
    assert sendable(whole(call("{}"))) == [call("{}")]


def test_parallel_calls_keep_apart() -> None:
    body = (
        created()
        + added(0, **call("", "call_1"))
        + added(1, **call("", "call_2", id="fc_2"))
        + grown("function_call_arguments", 1, '{"n":')
        + grown("function_call_arguments", 0, '{"n":1}')
        + grown("function_call_arguments", 1, "2}")
        + event("response.function_call_arguments.done", output_index=0, arguments='{"n":1}')
        + done(1, **call('{"n":2}', "call_2", id="fc_2"))
        + done(0, **call('{"n":1}', "call_1"))
        + completed(call('{"n":1}', "call_1"), call('{"n":2}', "call_2", id="fc_2"))
    )
    calls = [(c.id, c.arguments) for c in read(body).reply.calls]
    assert calls == [("call_1", '{"n":1}'), ("call_2", '{"n":2}')]


def test_arguments_that_came_only_at_the_end() -> None:
    body = (
        created()
        + added(0, **call(""))
        + event("response.function_call_arguments.done", output_index=0, arguments='{"n":1}')
        + completed()
    )
    assert read(body).reply.calls[0].arguments == '{"n":1}'


def test_cut_arguments_are_never_runnable() -> None:
    head = created() + added(0, **call(""))
    cut = head + grown("function_call_arguments", 0, '{"path": "/tmp/sa')
    assert isinstance(read(cut).error, UnterminatedError)
    ended = read(cut + completed(status="incomplete"))
    assert ended.reply.kind is ReplyKind.TRUNCATED
    assert read(cut + completed()).reply.kind is ReplyKind.UNTERMINATED
    assert (
        read(
            cut
            + done(
                0,
                **call('{"a'),
            )
            + completed()
        ).reply.kind
        is ReplyKind.MALFORMED_CALL
    )
    custom = added(0, type="custom_tool_call", id="ct_1", call_id="c", name="sql", input="")
    cut = created() + custom + grown("custom_tool_call_input", 0, "DELETE FROM a")
    (made,) = read(cut).reply.calls
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(made.arguments)
    assert read(cut + completed()).reply.kind is ReplyKind.UNTERMINATED


def test_a_call_that_was_never_completed_needs_whole_arguments() -> None:
    head = created() + added(0, **call(""))
    assert read(head + completed()).reply.kind is ReplyKind.UNTERMINATED
    came = head + grown("function_call_arguments", 0, '{"n":1}')
    assert read(came + completed()).reply.calls[0].arguments == '{"n":1}'
    assert read(came + completed()).error is None
    assert read(head + done(0, **call("")) + completed()).reply.calls[0].arguments == "{}"


def test_a_custom_call_is_a_call_with_one_argument() -> None:
    item = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql"}
    item |= {"input": 'SELECT "a"\n\u2603', "status": "completed"}
    (made,) = same(item)
    assert isinstance(made, ToolCall)
    assert json.loads(made.arguments) == {"input": item["input"]}
    assert sendable(whole(item)) == [item]
    empty = {**item, "input": ""}
    (made,) = same(empty)
    assert isinstance(made, ToolCall)
    assert json.loads(made.arguments) == {"input": ""}


def test_reasoning_goes_back_untouched() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "First"},
            {"type": "summary_text", "text": "Then"},
        ],
        "encrypted_content": "Z2Vs",
        "status": "completed",
    }
    first, second, _ = same(item, message("Yes"))
    assert first == Reasoning("First", None, WIRE, item)
    assert second == Reasoning("Then")
    assert sendable(whole(item, message("Yes")))[0] == item


def test_reasoning_in_the_open() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    thought, _ = same(item, message("Yes"))
    assert thought == Reasoning("Hm", None, WIRE, item)


def test_the_last_saying_of_reasoning_counts() -> None:
    begun = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "cut"}
    body = created() + added(0, **begun) + done(0, **{**begun, "encrypted_content": "whole"})
    (thought, _) = parts(body + said("Yes", 1) + completed())
    assert isinstance(thought, Reasoning)
    assert thought.extra == {**begun, "encrypted_content": "whole"}


def test_state_that_comes_late_joins_its_thought() -> None:
    begun = {"type": "reasoning", "id": "rs_1", "summary": []}
    ended = {**begun, "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "x"}
    body = (
        created()
        + added(0, **begun)
        + grown("reasoning_summary_text", 0, "Hm", summary_index=0)
        + said("Yes", 1)
        + done(0, **ended)
        + completed()
    )
    thought, text = parts(body)
    assert thought == Reasoning("Hm", None, WIRE, ended)
    assert isinstance(text, Text)


KEPT: list[Json] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
    {"type": "file_search_call", "id": "fs_1", "queries": ["x"], "results": None},
    {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": []},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
    {"type": "mcp_call", "id": "mcp_1", "name": "n", "arguments": "{}", "output": "o"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "n", "arguments": "{}"},
    {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "id": "sho_1", "call_id": "c", "output": []},
    {"type": "apply_patch_call", "id": "ap_1", "call_id": "c", "operation": {"diff": "+"}},
    {"type": "local_shell_call", "id": "ls_1", "call_id": "c", "action": {"type": "exec"}},
    {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "click"}},
    {"type": "tool_search_call", "id": "ts_1", "call_id": "c", "arguments": {"q": 1}},
    {"type": "tool_search_output", "id": "tso_1", "call_id": "c", "tools": []},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z2Vs"},
    {"type": "program", "id": "pr_1", "call_id": "c", "code": "1", "fingerprint": "f"},
    {"type": "an_item_of_tomorrow", "id": "x_1", "deep": {"er": [1, None]}},
]


@pytest.mark.parametrize("item", KEPT, ids=lambda item: str(item["type"]))
def test_what_has_no_neutral_form_goes_back_verbatim(item: Json) -> None:
    assert same(item, message("Done"))[0] == Opaque(WIRE, item)
    assert sendable(whole(item, message("Done")))[0] == item


def test_an_image_is_emitted_and_sent_back() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}
    item |= {"result": "iVBORw0KGgo=", "output_format": "webp"}
    (picture,) = same(item)
    assert isinstance(picture, Media)
    assert (picture.media_type, picture.data) == ("image/webp", b"\x89PNG\r\n\x1a\n")
    assert sendable(whole(item)) == [item]
    for strange in ({**item, "result": None}, {**item, "result": "é"}):
        assert same(strange, message("So"))[0] == Opaque(WIRE, strange)


def test_unknown_content_of_a_message_is_stored() -> None:
    sound = {"type": "output_audio", "data": "UklGRg==", "transcript": "Yes"}
    item = message("Yes")
    item["content"].append(sound)
    _, kept = same(item)
    assert isinstance(kept, Opaque)
    assert kept.data["content"] == [sound]


def test_refusals() -> None:
    item = message("")
    item["content"] = [{"type": "refusal", "refusal": "I cannot help with that."}]
    for body in (whole(item), as_stream(response(output=[item]))):
        assembled = read(body)
        assert isinstance(assembled.error, RefusedError)
        assert assembled.reply.parts == (Refusal("I cannot help with that."),)


@pytest.mark.parametrize(
    ("reason", "kind", "error"),
    [
        ("max_output_tokens", ReplyKind.TRUNCATED, TruncatedError),
        ("content_filter", ReplyKind.FILTERED, FilteredError),
        ("a_reason_of_tomorrow", ReplyKind.TRUNCATED, TruncatedError),
        (None, ReplyKind.TRUNCATED, TruncatedError),
    ],
)
def test_an_incomplete_response_is_not_a_success(
    reason: str | None, kind: ReplyKind, error: type[Exception]
) -> None:
    fields: Json = {"incomplete_details": {"reason": reason} if reason else None}
    for body in (
        whole(message("Lo"), status="incomplete", **fields),
        created() + said("Lo") + completed(status="incomplete", **fields),
    ):
        assembled = read(body)
        assert assembled.reply.kind is kind
        assert isinstance(assembled.error, error)
        assert assembled.reply.text == "Lo"


FAILED = {"code": "server_error", "message": "The server had an error"}


def test_errors_are_typed_first_in_the_middle_and_at_the_end() -> None:
    for body in (
        event("error", error={"type": "server_error", **FAILED}),
        event("error", **FAILED, param=None),
        created() + said("Hel") + event("error", **FAILED),
        created() + completed(status="failed", error=FAILED),
        whole(status="failed", error=FAILED),
        json.dumps({"error": {"type": "server_error", **FAILED}}).encode(),
        b"data: " + json.dumps({"error": FAILED}).encode() + b"\n\n",
    ):
        assembled = read(body)
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        assert isinstance(assembled.error, ProviderError)
        assert assembled.error.info.category is ErrorCategory.SERVER_ERROR


@pytest.mark.parametrize(
    ("status", "category"),
    [
        ("cancelled", ErrorCategory.CANCELLED),
        ("queued", ErrorCategory.CLIENT_ERROR),
        ("in_progress", ErrorCategory.CLIENT_ERROR),
    ],
)
def test_an_unfinished_response_is_not_a_success(status: str, category: ErrorCategory) -> None:
    error = read(whole(message("Hel"), status=status)).error
    assert error is not None
    assert error.info.category is category
    streamed = read(
        created() + said("Hel") + event("response.cancelled", response=response(status))
    )
    assert streamed.error is not None
    assert streamed.error.info.category is category


def test_an_unknown_status_is_not_a_success() -> None:
    assert isinstance(read(whole(message("Hel"), status="paused")).error, UnterminatedError)


@pytest.mark.parametrize(
    "body",
    [
        created(),
        created() + said("Yes"),
        created() + event("response.queued", response=response("queued")),
    ],
)
def test_a_stream_without_its_end_is_not_a_success(body: bytes) -> None:
    assert isinstance(read(body).error, UnterminatedError)
    assert isinstance(read(body + b"data: [DONE]\n\n").error, UnterminatedError)


def test_an_empty_text_is_not_a_part() -> None:
    empty = added(0, **message("")) + grown("output_text", 0, "", content_index=0)
    body = created() + empty + done(0, **message("")) + said("Yes", 1) + completed()
    assert [part.text for part in parts(body) if isinstance(part, Text)] == ["Yes"]


@pytest.mark.parametrize("output", [[], [message("")], [{**message(""), "content": []}]])
def test_an_empty_reply_is_an_error(output: list[Json]) -> None:
    for body in (whole(*output), as_stream(response(output=output))):
        assert isinstance(read(body).error, EmptyResponseError)


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Bad gateway</body></html>",
        b"upstream connect error",
        b'{"output": "text"}',
        b'{"choices": []}',
        b'{"output": null, "status": "completed"}',
        b'{"output": ["text"], "status": "completed"}',
        b'[{"output": []}]',
        b'{"output": [',
        b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n',
        b"event: response.created\ndata: <html>\n\n",
        b"",
    ],
)
def test_a_body_of_another_wire_is_an_error(body: bytes) -> None:
    assembled = read(body)
    assert isinstance(assembled.error, ResponseValidationError | UnterminatedError)


def test_odd_streams_of_servers_that_speak_this_wire() -> None:
    plain = created() + said("Yes") + completed(message("Yes"))
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
        created() + event("keepalive", sequence_number=2) + said("Yes") + completed(),
        plain + created() + said("No") + completed(),
        plain.replace(b'"output_index": 0, ', b""),
        plain.replace(b'"item_id": "msg_1"', b'"item_id": "another"'),
    ):
        assert read(body).reply == wanted


def test_another_id_at_the_end_is_the_same_item() -> None:
    body = created() + said("Yes") + completed(message("Yes", "msg_of_another_event"))
    assert read(body).reply.text == "Yes"


def test_items_of_the_end_are_matched_by_id_before_place() -> None:
    first, second = message("One", "msg_1"), message("Two", "msg_2")
    body = created() + done(0, **first) + done(1, **second)
    new = message("Zero", "msg_0")
    texts = [part.text for part in parts(body + completed(new, first, second)) if part.text]  # type: ignore[union-attr]
    assert sorted(texts) == ["One", "Two", "Zero"]


def test_pieces_of_an_unannounced_item() -> None:
    body = (
        created()
        + grown("reasoning_text", 0, "Hm", content_index=0)
        + grown("output_text", 1, "Yes", content_index=0)
        + grown("function_call_arguments", 2, "{}")
        + completed()
    )
    reply = read(body).reply
    assert reply.text == "Yes"
    assert [part.text for part in reply.parts if isinstance(part, Reasoning)] == ["Hm"]
    assert reply.kind is ReplyKind.MALFORMED_CALL


def test_unknown_events_are_counted_and_do_no_harm() -> None:
    decoder = ResponsesCodec().make_decoder("")
    known = event("response.web_search_call.searching", output_index=0, item_id="ws_1")
    known += event("response.mcp_call_arguments.delta", output_index=0, delta="{")
    unknown = event("response.steer.accepted") + grown("output_video", 0, "x")
    decoder.feed(created() + known + unknown + said("Yes") + completed() + created())
    decoder.close()
    assert decoder.unknown_counts == {
        "response.steer.accepted": 1,
        "response.output_video.delta": 1,
        "after the end": 1,
    }


def test_content_of_a_message_that_is_not_known_goes_back_as_it_came() -> None:
    strange = {"type": "message", "role": "assistant", "content": [{"type": "reasoning_text"}]}
    reply = read(json.dumps(response(output=[strange])).encode()).reply
    assert encode_items(reply.message, ECHO) == [strange]


def test_a_second_reply_adds_nothing_to_a_text_that_was_open() -> None:
    begins = created() + added(0, **{**message(""), "content": []})
    first = grown("output_text", 0, "Hel", content_index=0, item_id="msg_1")
    late = grown("output_text", 0, "lo", content_index=0, item_id="msg_1")
    found = deltas(begins + first + created() + late)
    assert [delta.text for delta in found if isinstance(delta, TextDelta)] == ["Hel"]
    assert NotAReply("one reply in the body", "a second reply") in found
