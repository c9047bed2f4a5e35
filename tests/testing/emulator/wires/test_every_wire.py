"""For every wire, a streamed reply equals the complete one, and codecs read both as they were meant."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.codecs.reading import assemble_deltas, read_deltas

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec, Failure
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    Usage,
)
from holdfast.testing.emulator import Emulator
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.scenario import as_array
from holdfast.testing.emulator.wires.emulator_wire import (
    WIRES,
    Chunking,
    Rendering,
    get_wire,
    wire_for,
)

CODECS: dict[str, Codec] = {
    "openai_chat": OpenAIChat(EndpointProfile()),
    "openai_responses": ResponsesCodec(),
    "anthropic": AnthropicCodec(),
    "gemini": Gemini(),
}
every_wire = pytest.mark.parametrize("wire", WIRES)

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
REPLIES = st.builds(
    Reply,
    st.lists(
        st.one_of(
            st.builds(Text, WORDS),
            st.builds(Reasoning, WORDS),
            st.builds(
                ToolCall,
                st.uuids().map(lambda one: f"call_{one.hex}"),
                st.sampled_from(["weather", "time"]),
                st.sampled_from(["{}", '{"city":"Porto"}', '{"n":1.5,"deep":{"a":[1,2]}}']),
            ),
        ),
        min_size=1,
        max_size=5,
    ).map(tuple),
    usage=st.just(Usage(input=20, output=9, cached_input=4, reasoning=2)),
)
CHUNKING: st.SearchStrategy[Chunking] = st.sampled_from(["words", "whole", 1, 3])


def read(wire: str, pieces: list[bytes]) -> Reply:
    return assemble_deltas(read_deltas(CODECS[wire], pieces), wire, EndpointProfile()).reply


def said(reply: Reply) -> tuple[object, ...]:
    """Return the content of a reply without the state of its wire."""
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    calls = [(call.name, call.arguments) for call in reply.calls]
    return reply.kind, reply.finish, reply.usage, reply.text, thoughts, calls


@pytest.mark.slow  # takes half a second or more
@every_wire
@given(reply=REPLIES, chunking=CHUNKING)
def test_a_stream_reads_as_the_whole_does(wire: str, reply: Reply, chunking: Chunking) -> None:
    if reply.calls:
        reply = replace(reply, finish=FinishReason.TOOL_CALLS)
    spoken = get_wire(wire)
    rendering = Rendering(
        model="gemini-3-pro", chunking=chunking, usage=reply.usage, include_usage=True
    )
    whole = read(wire, [spoken.render_whole(reply, rendering)])
    events = spoken.render_chunks(reply, rendering)
    streamed = read(wire, events)
    assert said(streamed) == said(whole)
    assert [call.id for call in streamed.calls] == [call.id for call in whole.calls]
    assert [call.name for call in whole.calls] == [call.name for call in reply.calls]
    assert whole.text == reply.text
    if wire == "gemini":
        assert said(read(wire, as_array(events, closed=True))) == said(whole)


@every_wire
@given(cut=st.integers(min_value=1))
def test_a_stream_without_its_end_is_never_whole(wire: str, cut: int) -> None:
    rendering = Rendering(model="gemini-3-pro", terminate=False)
    reply = Reply((Text("One two three"), ToolCall("call_1", "weather", '{"city":"Porto"}')))
    events = get_wire(wire).render_chunks(reply, rendering)
    got = read(wire, events[: 1 + cut % len(events)])
    assert got.kind.value == "unterminated"


@every_wire
def test_a_refusal_is_not_an_answer(wire: str) -> None:
    spoken = get_wire(wire)
    reply = Reply((Refusal("I cannot say."),))
    for pieces in (
        [spoken.render_whole(reply, Rendering(model="m"))],
        spoken.render_chunks(reply, Rendering(model="m")),
    ):
        assert read(wire, pieces).kind.value in ("refused", "filtered")


EXPECTED: dict[ErrorKind, ErrorCategory] = {
    "rate_limit": ErrorCategory.RATE_LIMIT_RETRYABLE,
    "insufficient_quota": ErrorCategory.RATE_LIMIT_TERMINAL,
    "bad_key": ErrorCategory.AUTH_ERROR,
    "server_error": ErrorCategory.SERVER_ERROR,
    "overloaded": ErrorCategory.TRANSIENT,
    "context_length": ErrorCategory.CONTEXT_WINDOW,
    "model_not_found": ErrorCategory.MODEL_NOT_FOUND,
    "content_filtered": ErrorCategory.CONTENT_FILTERED,
    "invalid_request": ErrorCategory.CLIENT_ERROR,
}


@every_wire
@pytest.mark.parametrize("kind", EXPECTED)
def test_every_refusal_is_understood(wire: str, kind: ErrorKind) -> None:

    error = get_wire(wire).error_body(kind)
    body = msgspec.json.encode(error.body)
    if error.status == 200:
        assert read(wire, [body]).kind.value == "filtered"
        return
    info = CODECS[wire].classify(
        Failure(provider=wire, status=error.status, headers=error.headers, body=body)
    )
    assert info.category is EXPECTED[kind]
    assert info.retry_after == (1.0 if kind == "rate_limit" else info.retry_after)


@every_wire
def test_a_refusal_of_the_emulator_itself_is_not_retried(wire: str) -> None:

    error = get_wire(wire).invalid_request(MalformedRequest("Nothing to say."))
    info = CODECS[wire].classify(
        Failure(status=error.status, headers=error.headers, body=msgspec.json.encode(error.body))
    )
    assert info.category is ErrorCategory.CLIENT_ERROR
    assert "Nothing to say." in info.safe


@every_wire
def test_a_part_that_the_wire_cannot_carry_is_a_configuration_error(wire: str) -> None:
    other = "anthropic" if wire == "gemini" else "gemini"
    parts = [Media("image/png", data=b"x"), Opaque(other, {"type": "x"})]
    if wire == "openai_chat":
        parts.pop()
    spoken = get_wire(wire)
    for part in parts:
        for render in (spoken.render_whole, spoken.render_chunks):
            with pytest.raises(ConfigurationError, match=type(part).__name__):
                render(Reply(parts=(part,)), Rendering(model="m"))


def test_a_wire_is_chosen_by_the_end_of_the_path() -> None:
    paths = {
        "/v1/chat/completions": "openai_chat",
        "/openai/deployments/gpt/chat/completions": "openai_chat",
        "/v1/responses": "openai_responses",
        "/v1/messages": "anthropic",
        "/v1beta/models/m:generateContent": "gemini",
        "/v1beta/models/m:streamGenerateContent": "gemini",
    }
    for path, name in paths.items():
        wire = wire_for(path)
        assert wire is not None
        assert name == wire.NAME
    for path in ("/v1/messages/count_tokens", "/v1/models", "/v1/messages/", ":generateContent"):
        assert wire_for(path) is None


def test_every_wire_has_an_address() -> None:
    with Emulator() as emulator:
        assert emulator.base_url_for("openai_chat") == emulator.base_url
        assert emulator.base_url_for("anthropic") == emulator.origin
        assert emulator.base_url_for("gemini") == f"{emulator.origin}/v1beta"
        with pytest.raises(ConfigurationError, match="Use one of openai_chat, anthropic"):
            emulator.base_url_for("cohere")


def request_with_call(wire: str, name: str, arguments: str) -> bytes:
    """The body of a request whose history has this call as a careless client writes it."""
    made: object = arguments
    if wire in ("anthropic", "gemini"):
        try:
            made = msgspec.json.decode(arguments)
        except ValueError:
            made = arguments
    body: dict[str, object] = {"model": "m", "max_tokens": 9}
    match wire:
        case "openai_chat":
            function = {"name": name, "arguments": made}
            calling = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
            result = {"role": "tool", "tool_call_id": "c", "content": "x"}
            body["messages"] = [{"role": "user", "content": "Go"}, calling, result]
        case "openai_responses":
            item = {"type": "function_call", "call_id": "c", "name": name, "arguments": made}
            result = {"type": "function_call_output", "call_id": "c", "output": "x"}
            body["input"] = [{"role": "user", "content": "Go"}, item, result]
        case "anthropic":
            block = {"type": "tool_use", "id": "c", "name": name, "input": made}
            answer = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
            body["messages"] = [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": [block]},
                {"role": "user", "content": [answer]},
            ]
        case _:
            call = {"functionCall": {"name": name, "args": made}, "thoughtSignature": "c2ln"}
            answer = {"functionResponse": {"name": name, "response": {"output": "x"}}}
            body = {
                "contents": [
                    {"role": "user", "parts": [{"text": "Go"}]},
                    {"role": "model", "parts": [call]},
                    {"role": "user", "parts": [answer]},
                ]
            }
    return msgspec.json.encode(body)


def parse(wire: str, body: bytes) -> None:
    get_wire(wire).parse_request(
        "/v1beta/models/gemini-3-pro:generateContent", {"anthropic-version": "2023-06-01"}, body
    )


@every_wire
@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("weather", "{}", ""),
        ("browser/tabs", "{}", "pattern|Invalid function name"),
        ("", "{}", "pattern|Invalid function name"),
        ("a" * 129, "{}", "pattern|Invalid function name|too long"),
        ("weather", '{"city": "Por', "JSON|dictionary|Struct"),
        ("weather", "[1]", "JSON|dictionary|Struct"),
        ("weather", '{"a":' * 101 + "1" + "}" * 101, "JSON|Struct"),
    ],
)
def test_calls_of_a_history_are_checked_as_the_real_server_does(
    wire: str, name: str, arguments: str, problem: str
) -> None:
    body = request_with_call(wire, name, arguments)
    if not problem or (wire == "anthropic" and "Struct" in problem and "dict" not in problem):
        parse(wire, body)  # Anthropic's server has no known limit of levels
        return
    with pytest.raises(MalformedRequest, match=problem):
        parse(wire, body)
