"""Seed 004, row by row, and its flaws one by one, over the objects of the real SDKs too."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.calls.replies import (
    STREAMS,
    WHOLE,
    call,
    chat,
    chat_chunk,
    gemini,
    item,
    message,
    message_events,
    responses,
    result,
    text,
)
from tests.calls.vendors import chunk_maker, plain_maker, sdk, whole_maker

from holdfast.calls.call_result import ResultKind
from holdfast.calls.response_handler import ResponseChunk, ResponseHandler
from holdfast.calls.response_reader import ResponseReader
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.errors import (
    ConfigurationError,
    EmptyResponseError,
    FilteredError,
    MissingAttributeError,
    NoCandidatesError,
    NoTextError,
    RefusedError,
    ResponseError,
    ResponseValidationError,
    ToolFailedError,
    ToolNotFoundError,
    TruncatedError,
    UnexpectedTypeError,
    UnterminatedError,
)

FORMS = pytest.mark.parametrize("form", ["dictionaries", "objects"])
WIRES = pytest.mark.parametrize("wire", STREAMS)
Maker = Callable[[str], Callable[[dict[str, Any]], Any]]


def streamed(form: str, wire: str) -> list[Any]:
    maker: Maker = plain_maker if form == "dictionaries" else chunk_maker
    return [maker(wire)(chunk) for chunk in STREAMS[wire]]


def ended(chunks: list[Any]) -> ResponseHandler:
    handler = ResponseHandler()
    for chunk in chunks:
        handler.process_chunk(chunk)
    return handler


# What comes back.


@WIRES
@FORMS
def test_a_stream_becomes_its_text(wire: str, form: str) -> None:
    handler = ResponseHandler()
    assert handler.handle(streamed(form, wire)) == "Hello, world"
    assert handler.chunk_count == len(STREAMS[wire])
    assert "".join(handler.text_buffer) == "Hello, world"


@WIRES
@FORMS
def test_a_whole_response_becomes_its_text(wire: str, form: str) -> None:
    maker: Maker = plain_maker if form == "dictionaries" else whole_maker
    response = maker(wire)(WHOLE[wire])
    handler = ResponseHandler()
    handler.validate_response(response)
    handler.process_response(response)
    assert handler.get_final_response() == "Hello, world"
    assert handler.result().usage.output == (0 if wire == "gemini" else 2)


@WIRES
@FORMS
async def test_an_asynchronous_stream_is_the_same(wire: str, form: str) -> None:
    async def stream() -> AsyncIterator[Any]:
        for chunk in streamed(form, wire):
            yield chunk

    assert await ResponseHandler().ahandle(stream()) == "Hello, world"


def test_the_text_of_a_stream_cut_anywhere_is_never_an_answer() -> None:
    for wire, chunks in STREAMS.items():
        for end in range(1, len(chunks) - 1):
            handler = ended(chunks[:end])
            so_far = "".join(handler.text_buffer)
            outcome = handler.result()
            # The last text of this wire comes with its finish reason, so it is whole before its end.
            if outcome.ok:
                assert (wire, so_far) == ("anthropic", "Hello, world")
            else:
                assert outcome.partial_text == so_far
                assert outcome.text == ""


# Seed 004: the contract.


def test_a_falsy_response_is_none() -> None:
    for nothing in (None, {}, ""):
        with pytest.raises(UnexpectedTypeError) as failed:
            ResponseHandler().validate_response(nothing)
        assert (failed.value.expected, failed.value.got) == ("response object", "None")
        with pytest.raises(UnexpectedTypeError):
            ResponseHandler().process_response(nothing)


def test_an_object_of_no_wire_lacks_candidates() -> None:
    class Strange:
        pass

    for thing, name in ((Strange(), "Strange"), ("words", "str"), (7, "int")):
        with pytest.raises(MissingAttributeError) as failed:
            ResponseHandler().validate_response(thing)
        assert (failed.value.expected, failed.value.got) == ("candidates attribute", name)


def test_no_candidates() -> None:
    genai = sdk("google.genai.types").GenerateContentResponse
    for response in (
        SimpleNamespace(candidates=None),
        Mock(candidates=None),
        SimpleNamespace(candidates=[]),
        {"candidates": []},
        {"choices": []},
        genai(candidates=None),
        genai(candidates=[]),
    ):
        with pytest.raises(NoCandidatesError, match="no candidates in response"):
            ResponseHandler().validate_response(response)


def test_a_candidate_without_content() -> None:
    for response in ({"candidates": [{}]}, SimpleNamespace(candidates=[SimpleNamespace()])):
        with pytest.raises(MissingAttributeError) as failed:
            ResponseHandler().validate_response(response)
        assert (failed.value.expected, failed.value.got) == ("content attribute", "missing")


def test_a_valid_response_passes_whatever_it_is_made_of() -> None:
    part = SimpleNamespace(text="Hi", function_call=None)
    namespace = SimpleNamespace(
        candidates=[SimpleNamespace(content=SimpleNamespace(parts=[part]), finish_reason="STOP")]
    )
    mock = Mock(candidates=[Mock(content=Mock(parts=[Mock(text="Hi", function_call=None)]))])
    of_sdks = [whole_maker(wire)(response) for wire, response in WHOLE.items()]
    for response in (namespace, mock, *WHOLE.values(), *of_sdks):
        handler = ResponseHandler()
        handler.validate_response(response)
        assert (handler.text_buffer, handler.chunk_count, handler.tool_activity) == ([], 0, False)
        handler.process_response(response)  # it is as new
        assert handler.get_final_response() in ("Hi", "Hello, world")


def test_a_response_of_the_same_makers_without_candidates_is_refused() -> None:
    empty = {"candidates": []}
    for response in (SimpleNamespace(**empty), Mock(**empty), empty, whole_maker("gemini")(empty)):
        with pytest.raises(NoCandidatesError):
            ResponseHandler().validate_response(response)


def test_a_chunk_of_the_contract() -> None:
    chunk = ResponseChunk("", has_tool_call=False)
    assert (chunk.text, chunk.has_tool_call, chunk.tool_name, chunk.metadata) == (
        "",
        False,
        None,
        {},
    )
    assert ResponseChunk("a", True, "search").tool_name == "search"


def test_the_sample_of_the_contract() -> None:
    handler = ResponseHandler()
    found = handler.process_chunk(Mock(text="Hello", candidates=[]))
    assert found is not None
    assert (found.text, found.has_tool_call) == ("Hello", False)
    assert handler.text_buffer == ["Hello"]
    assert handler.get_final_response() == "Hello"


def test_a_falsy_chunk_is_ignored_and_not_counted() -> None:
    handler = ResponseHandler()
    assert [handler.process_chunk(nothing) for nothing in (None, {}, "", [])] == [None] * 4
    assert handler.chunk_count == 0


def test_nothing_at_all_is_an_error_that_counts_the_chunks() -> None:
    with pytest.raises(EmptyResponseError, match="no text or tool activity after 0 chunks"):
        ResponseHandler().get_final_response()
    handler = ended([object(), chat_chunk(), chat_chunk("stop")])
    with pytest.raises(NoTextError, match="no text or tool activity after 3 chunks"):
        handler.get_final_response()


def test_a_whole_response_without_text() -> None:
    for response in (gemini(), chat(""), chat(None), message(), responses()):
        handler = ResponseHandler()
        handler.process_response(response)
        with pytest.raises(NoTextError, match="no text in response"):
            handler.get_final_response()


def test_text_goes_before_tools() -> None:
    assert ended([gemini(text("Hi"), call("f"))]).get_final_response() == "Hi"


def test_statuses_in_order() -> None:
    said: list[str] = []
    handler = ResponseHandler(said.append)
    assert handler.status_callback is not None
    handler.handle([gemini(call("search"), finish=None), gemini(text("Two\nlines"))])
    assert said == ["🔧 Using search...", "💭 Two lines"]


def test_the_log_of_a_chunk(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "holdfast.calls.response_handler"):
        ended([gemini(call("f"))])
    [record] = caplog.records
    assert record.message == "Processed chunk"
    wanted = {"chunk_num": 1, "has_text": False, "has_tool_call": True}
    assert wanted.items() <= vars(record).items()


def test_a_chunk_that_fails_is_logged_and_raised_again(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def model_dump(self, **_: object) -> dict[str, object]:
            raise ValueError("password=hunter2")

    handler = ResponseHandler()
    with pytest.raises(ValueError, match="password"):
        handler.process_chunk(Broken())
    [record] = caplog.records
    assert (record.message, record.levelno) == ("Chunk processing failed", logging.ERROR)
    assert vars(record)["chunk_num"] == 1
    assert vars(record)["error"] == "password=[redacted]"
    assert record.exc_info is not None


# Seed 004: what was wrong with it.


def test_a_chunk_is_read_without_waiting_for_it() -> None:
    # The seed's coroutine was never awaited, so that nothing was ever buffered.
    found = ResponseHandler().process_chunk(gemini(text("Hi")))
    assert isinstance(found, ResponseChunk)


@FORMS
def test_an_empty_function_call_is_not_a_call(form: str) -> None:
    # Every part of this SDK has the attribute, and so has every mock.
    maker: Maker = plain_maker if form == "dictionaries" else chunk_maker
    handler = ended([maker("gemini")(gemini(text("Hi"))), Mock(text="there", candidates=[])])
    assert not handler.tool_activity
    assert handler.last_tool_name is None


CONTENT_IS_NONE: list[tuple[dict[str, Any], type[ResponseError]]] = [
    ({"finishReason": "SAFETY"}, FilteredError),
    ({"finishReason": "MAX_TOKENS"}, TruncatedError),
    ({"finishReason": "MALFORMED_FUNCTION_CALL"}, ResponseError),
    ({}, MissingAttributeError),
]


@FORMS
@pytest.mark.parametrize(("candidate", "kind"), CONTENT_IS_NONE)
def test_content_that_is_none(candidate: dict[str, Any], kind: type[Exception], form: str) -> None:
    maker: Maker = plain_maker if form == "dictionaries" else whole_maker
    response = maker("gemini")({"candidates": [{"content": None, **candidate}]})
    with pytest.raises(kind):
        ResponseHandler().validate_response(response)


@FORMS
def test_parts_that_are_none(form: str) -> None:
    maker: Maker = plain_maker if form == "dictionaries" else chunk_maker
    content = {"role": "model", "parts": None}
    candidate = {"content": content, "finishReason": "STOP"}
    handler = ended([maker("gemini")({"candidates": [candidate]})])
    with pytest.raises(NoTextError):
        handler.get_final_response()


@FORMS
def test_a_blocked_prompt_is_not_an_unclear_one(form: str) -> None:
    maker: Maker = plain_maker if form == "dictionaries" else whole_maker
    response = maker("gemini")({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    with pytest.raises(FilteredError):
        ResponseHandler().validate_response(response)


def test_a_finish_reason_that_withholds_counts_after_text_too() -> None:
    for chunks, kind in (
        ([gemini(text("Half"), finish="SAFETY")], FilteredError),
        ([gemini(text("Half"), finish="MAX_TOKENS")], TruncatedError),
        ([chat_chunk(content="Half"), chat_chunk("length")], TruncatedError),
        ([chat_chunk(content="Half"), chat_chunk("content_filter")], FilteredError),
        ([chat_chunk(refusal="I cannot"), chat_chunk("stop")], RefusedError),
        (message_events(["Half"], "max_tokens"), TruncatedError),
        (message_events(["Half"], "refusal"), RefusedError),
        ([responses(item("Half"), status="incomplete")], TruncatedError),
        ([chat_chunk(content="Half")], UnterminatedError),
    ):
        with pytest.raises(kind):
            ended(chunks).get_final_response()


def test_reasoning_is_not_text() -> None:
    thought = {"text": "Let me see", "thought": True}
    handler = ResponseHandler()
    found = handler.process_chunk(gemini(thought, finish=None))
    assert found is not None
    assert (found.text, found.metadata) == ("", {"reasoning": "Let me see"})
    handler.process_chunk(gemini(text("Hi")))
    assert handler.get_final_response() == "Hi"
    with pytest.raises(EmptyResponseError):
        ended([gemini(thought)]).get_final_response()


def test_only_the_first_candidate_counts() -> None:
    other = {"content": {"parts": [text("B")]}, "index": 1, "finishReason": "STOP"}
    response = gemini(text("A"))
    response["candidates"].append(other)
    assert ended([response]).get_final_response() == "A"
    two = chat("A")
    two["choices"].append({**two["choices"][0], "index": 1})
    assert ended([two]).get_final_response() == "A"


def test_success_of_a_tool_is_claimed_only_when_its_result_was_seen() -> None:
    neutral = "Analysis complete using available tools."
    assert ended([gemini(call("search"))]).get_final_response() == neutral
    both = ended([gemini(call("search"), result("search", hits=3))])
    assert both.get_final_response() == "Analysis complete. Executed search successfully."
    # The last one is still open.
    open_call = ended([gemini(call("search"), result("search", hits=3), call("pay"))])
    assert open_call.get_final_response() == neutral


def test_a_result_that_the_sdk_fetched_by_itself_was_seen() -> None:
    history = [
        {"role": "user", "parts": [text("an old question")]},
        {"role": "model", "parts": [call("old")]},
        {"role": "user", "parts": [text("the question")]},
        {"role": "model", "parts": [call("search")]},
        {"role": "user", "parts": [result("search", hits=3)]},
    ]
    response = gemini(automaticFunctionCallingHistory=history)
    handler = ended([whole_maker("gemini")(response)])
    assert handler.get_final_response() == "Analysis complete. Executed search successfully."


def test_a_tool_that_failed_is_an_error_and_not_a_success() -> None:
    handler = ended([gemini(call("pay"), result("pay", error="card declined"))])
    with pytest.raises(ToolFailedError, match="Tool 'pay' failed: card declined"):
        handler.get_final_response()


def test_a_whole_response_of_calls_has_the_neutral_text() -> None:
    function = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for response in (
        gemini(call("f")),
        chat(None, "tool_calls", tool_calls=[function]),
        message({"type": "tool_use", "id": "1", "name": "f", "input": {}}, stop="tool_use"),
        responses({"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}),
    ):
        handler = ResponseHandler()
        found = handler.process_response(response)
        assert (found.has_tool_call, found.tool_name) == (True, "f")
        assert handler.get_final_response() == "Task completed using available tools."
        assert [one.name for one in handler.result().tool_calls] == ["f"]


def test_a_call_without_a_name_is_unknown() -> None:
    handler = ended([chat_chunk(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}])])
    assert handler.last_tool_name == "unknown"


def test_a_callback_that_raises_does_no_harm() -> None:
    def broken(_: str) -> None:
        raise RuntimeError("the screen is gone")

    assert ResponseHandler(broken).handle([gemini(text("Hi"))]) == "Hi"


def test_the_handler_is_for_one_response() -> None:
    used = ended([gemini(text("Hi"))])
    assert [used.get_final_response() for _ in range(2)] == ["Hi", "Hi"]
    streaming, whole = ResponseHandler(), ResponseHandler()
    streaming.process_chunk(gemini(text("Hi")))
    whole.process_response(gemini(text("Hi")))
    for again in (
        lambda: used.process_chunk(gemini(text("more"))),
        lambda: used.handle([]),
        lambda: streaming.process_response(gemini(text("Hi"))),
        lambda: streaming.handle([]),
        lambda: whole.process_chunk(gemini(text("more"))),
        lambda: whole.process_response(gemini(text("Hi"))),
    ):
        with pytest.raises(ConfigurationError, match="Create a new ResponseHandler"):
            again()
    assert used.get_final_response() == "Hi"


def test_the_text_before_a_failure_is_stored() -> None:
    def stream() -> Iterator[Any]:
        yield gemini(text("Half"), finish=None)
        raise OSError("gone")

    handler = ResponseHandler()
    with pytest.raises(OSError, match="gone"):
        handler.handle(stream())
    outcome = handler.result(OSError("gone"))
    assert (outcome.kind, outcome.partial_text) == (ResultKind.ERROR, "Half")
    cut = ended([gemini(text("Half"), finish="MAX_TOKENS")])
    with pytest.raises(TruncatedError) as failed:
        cut.get_final_response()
    assert failed.value.partial is not None
    assert failed.value.partial.text == "Half"


def test_calls_of_a_reply_that_was_cut_are_not_handed_out() -> None:
    function = {"index": 0, "id": "1", "function": {"name": "pay", "arguments": '{"sum": 1'}}
    outcome = ended([chat_chunk(tool_calls=[function])]).result()
    assert outcome.kind is ResultKind.UNTERMINATED
    assert outcome.tool_calls == ()


def test_an_error_inside_a_stream_is_an_error() -> None:
    handler = ended([chat_chunk(content="Half"), {"error": {"message": "overloaded", "code": 503}}])
    outcome = handler.result()
    assert (outcome.ok, outcome.kind, outcome.partial_text) == (False, ResultKind.ERROR, "Half")


def test_a_provider_without_finish_reasons_can_be_trusted() -> None:
    handler = ResponseHandler(
        reader=ResponseReader(profile=EndpointProfile(ends_without_finish=True))
    )
    assert handler.handle([chat_chunk(content="Hi")]) == "Hi"


def test_errors_say_what_was_expected() -> None:
    for response in ({"choices": 7}, {"output": 7, "object": "response"}, {"candidates": "x"}):
        with pytest.raises(ResponseValidationError):
            ResponseHandler().validate_response(response)


@pytest.mark.parametrize("offered", [["search"], []])
def test_a_call_of_a_tool_that_was_not_offered_is_an_error(offered: list[str]) -> None:
    handler = ResponseHandler(reader=ResponseReader(tools=offered))
    call = {"function_call": {"name": "pay", "args": {}}}
    handler.process_chunk({"candidates": [{"content": {"parts": [call]}, "finish_reason": "STOP"}]})
    with pytest.raises(ToolNotFoundError, match="no such function") as caught:
        handler.get_final_response()
    assert caught.value.tool_name == "pay"
    result = handler.result()
    assert (result.kind, result.tool_calls) == (ResultKind.TOOL_FAILED, ())


def test_a_call_of_an_offered_tool_is_an_answer() -> None:
    handler = ResponseHandler(reader=ResponseReader(tools=["pay"]))
    call = {"function_call": {"name": "pay", "args": {}}}
    handler.process_response(
        {"candidates": [{"content": {"parts": [call]}, "finish_reason": "STOP"}]}
    )
    assert [call.name for call in handler.result().tool_calls] == ["pay"]
