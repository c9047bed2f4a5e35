"""Whatever a model wrote as name or arguments of a call, the emulator of the wire accepts the history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.call_arguments import sendable_arguments
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.tool_names import NAME_RULES, check_tool_name, to_wire_name
from holdfast.codecs.wire import Codec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from holdfast.core.model_request import ModelRequest, ToolSpec
from holdfast.core.transcript import Transcript
from holdfast.testing.emulator import EmulatedRequest
from holdfast.testing.emulator.wires.emulator_wire import WIRES, get_wire

every_wire = pytest.mark.parametrize("wire", WIRES)

NAMES = st.one_of(
    st.sampled_from(
        [
            "",
            "weather",
            "browser.tabs.open",
            "browser_tabs_open",
            "functions.weather:0",
            "Wetter\u00e4nderung",
            "1st",
            "-x",
            "a" * 65,
            "a" * 200,
            "a\nb",
            "\ud800",
            to_wire_name("browser.tabs.open", "openai_chat"),
        ]
    ),
    st.text(max_size=80),
)
ARGUMENTS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "{}",
            '{"city": "Porto"}',
            '{"city": "Por',
            '{"a": 1}{"a": 1}',
            '{"a": 1, "a": 2}',
            "[1]",
            "null",
            "NaN",
            '{"a": NaN}',
            '{"a": 1e999}',
            '{"a": "\\ud800"}',
            '{"a": "\ud800"}',
            '{"a": "\x1a"}',
            '\ufeff{"a": 1}',
            '{"a":' * 65 + "1" + "}" * 65,
            '{"a":' * 5000 + "1" + "}" * 5000,
            "{" * 5000,
        ]
    ),
    st.text(max_size=30),
    st.dictionaries(st.text(max_size=5), st.floats() | st.text(max_size=9)).map(json.dumps),
)


def codec(wire: str) -> Codec:
    """The codec of a wire, without profile."""
    kinds: dict[str, type[Any]] = {
        "anthropic": AnthropicCodec,
        "gemini": Gemini,
        "openai_chat": OpenAIChat,
        "openai_responses": ResponsesCodec,
    }
    made: Codec = kinds[wire]()
    return made


def accepted(wire: str, history: list[Message] | Transcript, *names: str) -> EmulatedRequest:
    """The request as the emulator of the wire reads it. Raises MalformedRequest if it refuses it."""
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in names)
    request = ModelRequest(model="gemini-3-pro", messages=history, tools=tools)
    encoded = codec(wire).encode(request)
    headers = {"anthropic-version": "2023-06-01"}
    return get_wire(wire).parse_request(f"/v1beta{encoded.path}", headers, encoded.body)


def history_of(calls: list[ToolCall]) -> list[Message]:
    """A history with these calls, each with a result that names what was wrong."""
    results = [ToolResult(call.id, call.name, (Text("No."),), is_error=True) for call in calls]
    return [user("Go"), assistant(*calls), tool_results(results), user("On")]


@pytest.mark.slow  # takes half a second or more
@every_wire
@given(written=st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=4))
def test_the_next_message_is_accepted_after_any_calls(
    wire: str, written: list[tuple[str, str]]
) -> None:
    calls = [ToolCall(f"c{at}", name, text) for at, (name, text) in enumerate(written)]
    history = history_of(calls)
    request = accepted(wire, history, "weather")
    assert [message.role for message in request.messages][-4:] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]
    made_up = {name for name, _ in written} - {"weather"}
    sent = [part.name for part in request.messages[-3].calls]
    assert (sent.count("weather") > 0) == ("weather" in [name for name, _ in written])
    assert len({name for name in sent if name != "weather"}) == len(made_up)
    results = [part for part in request.messages[-2].parts if isinstance(part, ToolResult)]
    assert [result.name for result in results] == sent
    longer = Transcript(history)
    accepted(wire, longer)
    longer.append(assistant(*calls))
    longer.append(history[2])
    before = codec(wire).encode(ModelRequest(model="gemini-3-pro", messages=history[:3])).body
    after = codec(wire).encode(ModelRequest(model="gemini-3-pro", messages=longer)).body
    assert after.startswith(before[: before.rindex(b"]}")])  # the same prefix, for prompt caches


@every_wire
@given(name=NAMES, other=NAMES)
def test_a_made_up_name_has_a_name_of_its_own_that_no_tool_may_have(
    wire: str, name: str, other: str
) -> None:
    sent = to_wire_name(name, wire)
    assert NAME_RULES[wire].pattern.fullmatch(sent)
    assert (sent == to_wire_name(other, wire)) == (name == other)
    if sent != name:
        with pytest.raises(ConfigurationError, match="is not a tool's"):
            check_tool_name("tools", sent, wire)


@given(text=ARGUMENTS)
def test_arguments_are_one_object_that_keeps_what_the_model_wrote(text: str) -> None:
    sent = sendable_arguments(text)
    value = json.loads(sent)
    assert isinstance(value, dict)
    assert sent in (text, "{}") or value == {"unparsed": text.encode("utf-8", "replace").decode()}
    assert sendable_arguments(sent) == sent


def test_the_cut_call_of_a_hosted_tool_goes_back_as_an_object() -> None:
    cut = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": '{"query": "Por'}
    body = codec("anthropic").encode(
        ModelRequest(
            model="claude-sonnet-4-5",
            messages=[user("Go"), assistant(Opaque("anthropic", cut), "So far.")],
        )
    )
    block = json.loads(body.body)["messages"][1]["content"][0]
    assert block["input"] == {"unparsed": '{"query": "Por'}
