"""The Chat Completions wire, with the checks and error texts of the real one; the vendor's SDK reads it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import (
    FinishReason,
    Media,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.testing.emulator import EmulatedRequest, Emulator, ErrorEvent, ErrorResponse, call
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.emulator_wire import Chunking, Rendering, split_text
from holdfast.testing.emulator.wires.openai_chat import parse_request, render_chunks, render_whole

USER = {"role": "user", "content": "Weather in Porto?"}
CALLING = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ],
}


def result(call_id: str, content: object = "Sunny") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def parsed(*messages: dict[str, Any], **more: object) -> EmulatedRequest:
    body = msgspec.json.encode({"model": "gpt", "messages": messages, **more})
    return parse_request("/v1/chat/completions", {}, body)


def test_a_request_in_neutral_form() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    request = parsed(
        {"role": "developer", "content": "Be brief."},
        USER,
        CALLING,
        result("c2"),
        result("c1", [{"type": "text", "text": "Rain"}]),
        stream=True,
        stream_options={"include_usage": True},
        tools=[tool],
    )
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert request.text == "Weather in Porto?"
    assert request.iteration == 1
    assert request.tool_results == (
        ToolResult("c2", "time", (Text("Sunny"),)),
        ToolResult("c1", "weather", (Text("Rain"),)),
    )
    assert request.tools[0].name == "weather"
    assert request.stream
    assert request.include_usage
    assert request.body["model"] == "gpt"


def test_media_in_a_user_message() -> None:
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "input_audio", "input_audio": {}},
    ]
    message = parsed({"role": "user", "content": content}).messages[0]
    assert message.text == "What is this?"
    assert [type(part) for part in message.parts] == [Text, Media, Media]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "empty array"),
        ("Hi", "empty array"),
        ([{"role": "robot", "content": "x"}], "robot"),
        (["Hi"], "messages[0]"),
        ([USER, CALLING], "did not have response messages: c1, c2"),
        ([USER, CALLING, result("c1")], "did not have response messages: c2"),
        ([USER, CALLING, result("c1"), USER, result("c2")], "response messages: c2"),
        ([USER, result("c1")], "must be a response to a preceeding message"),
        ([USER, CALLING, result("c1"), result("c2"), result("c2")], "must be a response"),
        ([USER, {"role": "tool", "content": "x"}], "tool_call_id"),
        ([USER, {"role": "assistant"}], "messages[1].content"),
        ([{"role": "assistant", "tool_calls": [{"id": "c1"}]}], "tool_calls[0]"),
        (
            [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": {}}}]}],
            "expected a string",
        ),
    ],
)
def test_a_history_that_the_provider_refuses(messages: object, said: str) -> None:
    body = msgspec.json.encode({"model": "gpt", "messages": messages})
    with pytest.raises(MalformedRequest) as refused:
        parse_request("", {}, body)
    assert said in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": []}', b'{"model": 7}'])
def test_a_body_that_is_not_a_request(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request("", {}, body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "role",
                        "content",
                        "tool_calls",
                        "id",
                        "function",
                        "arguments",
                        "type",
                        "tool_call_id",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_history_is_read_or_refused(messages: object) -> None:
    body = msgspec.json.encode({"model": "gpt", "messages": messages})
    with suppress(MalformedRequest):
        parse_request("", {}, body)


REPLIES = st.builds(
    Reply,
    st.lists(
        st.one_of(
            st.builds(Text, st.text()),
            st.builds(Reasoning, st.text()),
            st.builds(Refusal, st.text()),
            st.builds(ToolCall, st.text(min_size=1), st.text(min_size=1), st.text()),
        ),
        max_size=4,
    ).map(tuple),
)
CHUNKING: st.SearchStrategy[Chunking] = st.sampled_from(["words", "whole", 1, 3])


@given(REPLIES, CHUNKING)
def test_streamed_and_whole_say_the_same(reply: Reply, chunking: Chunking) -> None:
    rendering = Rendering(model="m", chunking=chunking)
    whole = msgspec.json.decode(render_whole(reply, rendering))["choices"][0]
    message = whole["message"]
    text = reasoning = refusal = ""
    calls: list[dict[str, str]] = []
    finish = None
    for event in render_chunks(reply, rendering)[:-1]:
        choice = msgspec.json.decode(event.removeprefix(b"data: "))["choices"][0]
        delta = choice["delta"]
        text += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        refusal += delta.get("refusal") or ""
        for piece in delta.get("tool_calls") or []:
            if "id" in piece:
                calls.append(
                    {"id": piece["id"], "name": piece["function"]["name"], "arguments": ""}
                )
            calls[piece["index"]]["arguments"] += piece["function"]["arguments"]
        finish = choice["finish_reason"] or finish
    assert text == (message["content"] or "")
    assert reasoning == message.get("reasoning_content", "")
    assert refusal == message.get("refusal", "")
    assert finish == whole["finish_reason"]
    assert calls == [
        {"id": one["id"], **one["function"]} for one in message.get("tool_calls") or []
    ]


@given(st.text(), CHUNKING)
def test_pieces_joined_are_the_text(text: str, chunking: Chunking) -> None:
    assert "".join(split_text(text, chunking)) == text


def client(emulator: Emulator) -> openai.OpenAI:
    return openai.OpenAI(base_url=emulator.base_url, api_key="sk-1234567890", max_retries=0)


def test_the_vendors_sdk_reads_a_whole_reply() -> None:
    said = Reply(
        parts=(Text("It is "), Text("sunny."), call("weather", {"city": "Porto"})),
        usage=Usage(input=10, output=5, cached_input=4, reasoning=2),
    )
    with Emulator([said]) as emulator, client(emulator) as sdk:
        got = sdk.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "x"}])
    assert got.model == "gpt"
    message = got.choices[0].message
    assert message.content == "It is sunny."
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"city":"Porto"}'  # type: ignore[union-attr]
    assert got.choices[0].finish_reason == "tool_calls"
    assert got.usage is not None
    assert got.usage.total_tokens == 15
    assert got.usage.prompt_tokens_details is not None
    assert got.usage.prompt_tokens_details.cached_tokens == 4


def test_the_vendors_sdk_reads_a_stream() -> None:
    said = Reply(parts=(Text("One two three"),), finish=FinishReason.LENGTH)
    with Emulator([said]) as emulator, client(emulator) as sdk:
        chunks = list(
            sdk.chat.completions.create(
                model="gpt",
                messages=[{"role": "user", "content": "x"}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    texts = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    assert texts == ["One", " two", " three"]
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens > 0


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("rate_limit", openai.RateLimitError),
        ("insufficient_quota", openai.RateLimitError),
        ("bad_key", openai.AuthenticationError),
        ("context_length", openai.BadRequestError),
        ("model_not_found", openai.NotFoundError),
        ("server_error", openai.InternalServerError),
    ],
)
def test_the_vendors_sdk_knows_its_errors(kind: Any, raised: type[openai.APIStatusError]) -> None:
    with (
        Emulator(faults=[ErrorResponse(kind)]) as emulator,
        client(emulator) as sdk,
        pytest.raises(raised),
    ):
        sdk.chat.completions.create(model="g", messages=[{"role": "user", "content": "x"}])


def test_the_vendors_sdk_raises_for_an_error_in_a_stream() -> None:
    with Emulator(faults=[ErrorEvent(3)]) as emulator, client(emulator) as sdk:
        stream = sdk.chat.completions.create(
            model="g", messages=[{"role": "user", "content": "x"}], stream=True
        )
        with pytest.raises(openai.APIError, match="had an error"):
            list(stream)
