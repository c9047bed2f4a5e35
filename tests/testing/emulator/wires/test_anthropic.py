"""The Messages wire, with the checks and error texts of the real one; the vendor's SDK reads it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.testing.emulator import (
    EmulatedRequest,
    Emulator,
    ErrorEvent,
    ErrorResponse,
    Stall,
    call,
    thinking,
)
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.anthropic import (
    invalid_request,
    parse_request,
    render_chunks,
    render_whole,
)
from holdfast.testing.emulator.wires.emulator_wire import Rendering
from holdfast.testing.emulator.wires.history_parts import sign_text

VERSION = {"anthropic-version": "2023-06-01"}
USER = {"role": "user", "content": "Weather in Porto?"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": sign_text("Hm.")}
CALLING: dict[str, Any] = {
    "role": "assistant",
    "content": [
        THOUGHT,
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Porto"}},
        {"type": "tool_use", "id": "c2", "name": "time", "input": {}},
    ],
}


def results(*ids: str, content: object = "Sunny") -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": one, "content": content} for one in ids]
    return {"role": "user", "content": blocks}


def parsed(*messages: object, **more: object) -> EmulatedRequest:
    given = {"model": "claude", "max_tokens": 100, "messages": messages, **more}
    return parse_request("/v1/messages", VERSION, msgspec.json.encode(given))


def test_a_request_in_neutral_form() -> None:
    tool = {"name": "weather", "input_schema": {"type": "object"}}
    answered = results("c1", "c2", content=[{"type": "text", "text": "Rain"}])
    answered["content"][1]["is_error"] = True
    answered["content"].append({"type": "text", "text": "And now?"})
    request = parsed(
        USER,
        CALLING,
        answered,
        system=[{"type": "text", "text": "Be brief."}],
        tools=[tool, {"type": "web_search_20250305", "name": "web_search"}],
        stream=True,
    )
    roles = [message.role for message in request.messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert request.messages[3].parts == (
        ToolResult("c1", "weather", (Text("Rain"),)),
        ToolResult("c2", "time", (Text("Rain"),), is_error=True),
    )
    assert request.messages[2].parts[0] == Reasoning("Hm.", sign_text("Hm."), "anthropic")
    assert request.messages[2].calls[0] == ToolCall("c1", "weather", '{"city":"Porto"}')
    assert request.text == "And now?"
    assert [one.name for one in request.tools] == ["weather"]
    assert request.stream


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


USE = CALLING["content"][1]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "at least one message"),
        ("Hi", "valid list"),
        (["Hi"], "messages.0: Input should be a valid dictionary"),
        ([{"role": "system", "content": "x"}], 'Unexpected role "system"'),
        ([{"role": "robot", "content": "x"}], "'user' or 'assistant'"),
        ([{"role": "user"}], "messages.0.content: Input should be a valid list"),
        ([{"role": "user", "content": ""}], "non-empty content"),
        ([{"role": "user", "content": " "}], "non-whitespace"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "must be non-empty"),
        ([{"role": "user", "content": [{"type": "text"}]}], "text.text: Field required"),
        ([{"role": "user", "content": [{"text": "x"}]}], "content.0.type: Field required"),
        ([{"role": "user", "content": [USE]}], "only be in `assistant` messages"),
        ([USER, CALLING], "immediately after: c1, c2"),
        ([USER, CALLING, results("c1")], "immediately after: c2"),
        ([USER, CALLING, USER], "messages.1: `tool_use` ids were found without"),
        ([USER, CALLING, results("c1", "c2", "c2")], "unexpected `tool_use_id`"),
        ([USER, results("c1")], "unexpected `tool_use_id`"),
        (
            [USER, CALLING, {"role": "user", "content": [{"type": "text", "text": "x"}, *results("c1", "c2")["content"]]}],
            "unexpected `tool_use_id`",
        ),
        ([USER, CALLING, results("c1", "c2"), CALLING, results("c1", "c2")], "must be unique"),
        ([USER, assistant({**USE, "id": "a b"})], "should match pattern"),
        ([USER, assistant({**USE, "input": "{}"})], "input: Input should be a valid dictionary"),
        ([USER, assistant({"type": "tool_use", "id": "a"})], "tool_use.name: Field required"),
        ([USER, assistant({**THOUGHT, "thinking": "Ho."}), USER], "Invalid `signature`"),
        ([USER, assistant({**THOUGHT, "signature": ""}), USER], "Invalid `signature`"),
        ([USER, assistant({"type": "thinking", "thinking": "x"}), USER], "signature: Field req"),
        ([USER, assistant({"type": "tool_result"})], "tool_use_id: Field required"),
        (
            [USER, assistant(USE), {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": True}]}],
            "content cannot be empty if `is_error` is true",
        ),
        ([USER, assistant(*results("c1")["content"])], "only be in `user` messages"),
    ],
)  # fmt: skip
def test_a_history_that_the_provider_refuses(messages: object, said: str) -> None:
    body = {"model": "claude", "max_tokens": 9, "messages": messages}
    with pytest.raises(MalformedRequest) as refused:
        parse_request("", VERSION, msgspec.json.encode(body))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": 7}, "model: "),
        ({"max_tokens": 0}, "max_tokens: "),
        ({"max_tokens": None}, "max_tokens: "),
        ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "must be greater than"),
    ],
)
def test_a_field_that_the_provider_refuses(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parsed(USER, **fields)


def test_a_document_of_text_is_read() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "naïve"}
    asked = {"role": "user", "content": [{"type": "document", "source": source}]}
    body = {"model": "claude", "max_tokens": 9, "messages": [asked]}
    (part,) = parse_request("", VERSION, msgspec.json.encode(body)).messages[0].parts
    assert part == Media("text/plain", data="naïve".encode())


def test_missing_thoughts_are_refused_while_thinking_is_enabled() -> None:
    enabled = {"type": "enabled", "budget_tokens": 50}
    bare = assistant(*CALLING["content"][1:])
    with pytest.raises(MalformedRequest, match="Expected `thinking` or `redacted_thinking`"):
        parsed(USER, bare, results("c1", "c2"), thinking=enabled)
    parsed(USER, bare, results("c1", "c2"))
    parsed(USER, CALLING, results("c1", "c2"), thinking=enabled)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": []}'])
def test_a_body_that_is_not_a_request(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request("", VERSION, body)


def test_a_thread_is_refused_as_one_that_the_server_cannot_hold() -> None:
    with pytest.raises(MalformedRequest) as refused:
        parsed(USER, thread={"type": "create"})
    error: Any = invalid_request(refused.value).body
    assert error["error"]["details"]["error_code"] == "thread_unsupported_request"
    plain: Any = invalid_request(MalformedRequest("max_tokens: Field required")).body
    assert "details" not in plain["error"]


def test_a_request_without_a_version_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="anthropic-version"):
        parse_request("", {}, b"{}")


NAMES = ["role", "content", "type", "text", "id", "name", "input", "tool_use_id", "thinking"]
WORDS = st.sampled_from(["user", "assistant", "text", "tool_use", "tool_result", "thinking", "x"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | WORDS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_history_is_read_or_refused(value: object) -> None:
    body = {"model": "m", "max_tokens": 1, "messages": value, "system": value, "tools": value}
    with suppress(MalformedRequest):
        parse_request("", VERSION, msgspec.json.encode(body))


def test_a_whole_reply_has_blocks_and_a_stop_reason() -> None:
    said = Reply(
        parts=(
            thinking("Hm."),
            Opaque("anthropic", {"type": "redacted_thinking", "data": "x"}),
            Text("Look: "),
            call("weather", {"city": "Porto"}, id="c1"),
        ),
        finish=FinishReason.TOOL_CALLS,
        usage=Usage(input=10, output=5, cached_input=4, cache_write=2, reasoning=3),
    )
    body = msgspec.json.decode(render_whole(said, Rendering(model="m", usage=said.usage)))
    assert [block["type"] for block in body["content"]] == [
        "thinking", "redacted_thinking", "text", "tool_use",
    ]  # fmt: skip
    assert body["content"][0]["signature"] == sign_text("Hm.")
    assert body["stop_reason"] == "tool_use"
    assert body["usage"]["input_tokens"] == 4
    assert body["usage"]["cache_read_input_tokens"] == 4


def test_a_refusal_is_a_stop_reason_with_an_explanation() -> None:
    body = msgspec.json.decode(render_whole(Reply((Refusal("No."),)), Rendering(model="m")))
    assert body["content"] == []
    assert body["stop_reason"] == "refusal"
    assert body["stop_details"]["explanation"] == "No."


def test_a_stream_without_its_end_has_neither_a_reason_nor_a_stop() -> None:
    events = b"".join(render_chunks(Reply((Text("Hi"),)), Rendering(model="m", terminate=False)))
    assert b"content_block_stop" in events
    assert b"message_delta" not in events
    assert b"message_stop" not in events


WHY = "SKIPPED WITHOUT EVIDENCE: the vendor's SDK is not installed"
MESSAGES: list[Any] = [{"role": "user", "content": "x"}]


def vendor() -> Any:
    return pytest.importorskip("anthropic", reason=WHY)


def client(emulator: Emulator) -> Any:
    base_url = emulator.base_url_for("anthropic")
    return vendor().Anthropic(base_url=base_url, api_key="sk-1234567890", max_retries=0)


SAID = Reply(
    parts=(thinking("Porto is near."), Text("It is sunny."), call("weather", {"city": "Porto"})),
    usage=Usage(input=10, output=5, cached_input=4),
)


def check(message: Any) -> None:
    thought, text, use = message.content
    assert (thought.thinking, thought.signature) == ("Porto is near.", sign_text("Porto is near."))
    assert text.text == "It is sunny."
    assert (use.name, use.input) == ("weather", {"city": "Porto"})
    assert message.stop_reason == "tool_use"
    assert message.usage.cache_read_input_tokens == 4
    assert message.usage.output_tokens == 5


def test_the_vendors_sdk_reads_a_whole_reply() -> None:
    with Emulator([SAID]) as emulator, client(emulator) as sdk:
        message = sdk.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
        assert message._request_id == "req_emulated_1"
    check(message)


async def test_the_vendors_sdk_reads_a_stream() -> None:
    async with Emulator([SAID]) as emulator:
        base_url = emulator.base_url_for("anthropic")
        sdk = vendor().AsyncAnthropic(base_url=base_url, api_key="k", max_retries=0)
        async with (
            sdk,
            sdk.messages.stream(model="claude", max_tokens=9, messages=MESSAGES) as stream,
        ):
            texts = [piece async for piece in stream.text_stream]
            message = await stream.get_final_message()
    assert texts == ["It", " is", " sunny."]
    check(message)


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("rate_limit", "RateLimitError"),
        ("insufficient_quota", "BadRequestError"),
        ("bad_key", "AuthenticationError"),
        ("context_length", "BadRequestError"),
        ("content_filtered", "BadRequestError"),
        ("model_not_found", "NotFoundError"),
        ("server_error", "InternalServerError"),
        ("overloaded", "APIStatusError"),
    ],
)
def test_the_vendors_sdk_knows_its_errors(kind: Any, raised: str) -> None:
    with (
        Emulator(faults=[ErrorResponse(kind)]) as emulator,
        client(emulator) as sdk,
        pytest.raises(getattr(vendor(), raised)) as caught,
    ):
        sdk.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
    assert caught.value.body["type"] == "error"
    assert caught.value.response.headers["request-id"] == caught.value.body["request_id"]


def test_the_vendors_sdk_raises_for_an_overload_as_the_first_event() -> None:
    with Emulator(faults=[ErrorEvent(0, "overloaded")]) as emulator, client(emulator) as sdk:
        stream = sdk.messages.create(model="c", max_tokens=9, messages=MESSAGES, stream=True)
        with pytest.raises(vendor().APIStatusError, match="Overloaded"):
            list(stream)


def test_pings_keep_a_stalled_stream_alive() -> None:
    stall = Stall(2, 0.05, comments=True, every=0.01)
    with (
        Emulator(["Hello"], faults=[stall]) as emulator,
        client(emulator) as sdk,
        sdk.messages.stream(model="c", max_tokens=9, messages=MESSAGES) as stream,
    ):
        assert "".join(stream.text_stream) == "Hello"


@pytest.mark.parametrize(
    ("model", "begun", "said"),
    [
        (
            "claude-sonnet-4-5",
            "It is ",
            "final assistant content cannot end with trailing whitespace",
        ),
        ("claude-opus-4-6", "It is", "does not support assistant message prefill"),
        ("claude-sonnet-5", "It is", "does not support assistant message prefill"),
    ],
)
def test_some_models_refuse_a_prefill(model: str, begun: str, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parsed(USER, {"role": "assistant", "content": begun}, model=model)


def test_an_accepted_prefill_is_the_last_message() -> None:
    request = parsed(USER, {"role": "assistant", "content": "It is"}, model="claude-sonnet-4-5")
    assert (request.messages[-1].role, request.messages[-1].text) == ("assistant", "It is")
