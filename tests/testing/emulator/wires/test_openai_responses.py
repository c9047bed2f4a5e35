"""The Responses wire, with the checks and error texts of the real one; the vendor's SDK reads it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import (
    FinishReason,
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
from holdfast.testing.emulator.wires.emulator_wire import Rendering
from holdfast.testing.emulator.wires.history_parts import sign_text
from holdfast.testing.emulator.wires.openai_responses import (
    error_whole,
    parse_request,
    render_chunks,
    render_whole,
)

USER = {"role": "user", "content": "Weather in Porto?"}
SUMMARY = [{"type": "summary_text", "text": "Hm."}]
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": SUMMARY,
    "encrypted_content": sign_text("rs_1:Hm."),
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "weather",
    "arguments": '{"city":"Porto"}',
}
OTHER = {**CALL, "id": "fc_2", "call_id": "c2", "name": "time", "arguments": "{}"}
SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello."}],
}


def result(call_id: str, output: object = "Sunny") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def parsed(given: object, **more: object) -> EmulatedRequest:
    body = {"model": "gpt", "store": False, "input": given, **more}
    return parse_request("/v1/responses", {}, msgspec.json.encode(body))


def test_a_request_in_neutral_form() -> None:
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA"}
    request = parsed(
        [
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}, picture]},
            THOUGHT,
            SAID,
            CALL,
            OTHER,
            result("c2"),
            result("c1", [{"type": "input_text", "text": "Rain"}]),
        ],
        instructions="Be brief.",
        tools=[tool, {"type": "web_search"}],
        stream=True,
        include=["reasoning.encrypted_content"],
    )
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert request.text == "Weather?"
    thought, text, *calls = request.messages[2].parts
    assert (thought.text, thought.signature) == ("Hm.", sign_text("rs_1:Hm."))  # type: ignore[union-attr]
    assert text == Text("Hello.")
    assert [one.name for one in calls if isinstance(one, ToolCall)] == ["weather", "time"]
    assert request.tool_results == (
        ToolResult("c2", "time", (Text("Sunny"),)),
        ToolResult("c1", "weather", (Text("Rain"),)),
    )
    assert [one.name for one in request.tools] == ["weather"]
    assert request.stream
    assert request.include_state
    assert parsed("Hi").text == "Hi"
    assert not parsed("Hi").include_state


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "must be provided"),
        (None, "must be provided"),
        (["Hi"], "expected an object"),
        ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
        ([{"role": "user"}], "'input[0].content'"),
        ([{"role": "user", "content": [{"type": "output_text", "text": "x"}]}], "'output_text'"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}], "input_text"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "content[0].text"),
        ([USER, CALL], "No tool output found for function call c1"),
        ([USER, CALL, OTHER, result("c1")], "No tool output found for function call c2"),
        ([USER, result("c1")], "No tool call found for function call output with call_id c1"),
        ([USER, CALL, {"type": "function_call_output"}], "call_id"),
        ([USER, CALL, {"type": "function_call_output", "call_id": "c1"}], "output"),
        ([USER, {**CALL, "arguments": {}}, result("c1")], "'input[1].arguments'"),
        ([USER, {**CALL, "call_id": "c" * 65}], "maximum length 64"),
        ([USER, CALL, CALL, result("c1")], "Duplicate item found with id fc_1"),
        ([USER, THOUGHT], "without its required following item"),
        ([USER, THOUGHT, USER], "without its required following item"),
        ([USER, {**THOUGHT, "summary": []}, SAID], "could not be verified"),
        ([USER, {**THOUGHT, "encrypted_content": None}, SAID], "Items are not persisted"),
        ([{"type": "item_reference", "id": "rs_9"}], "'rs_9' not found"),
        ([{"type": 7}], "'input[0].type'"),
        ([{"type": []}], "'input[0].type'"),
        ([{"role": [], "content": "x"}], "Invalid value: '[]'"),
    ],
)
def test_an_input_that_the_provider_refuses(given: object, said: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        parsed(given)
    assert said in str(refused.value)


def test_reasoning_of_a_server_that_stores_it_needs_no_encrypted_content() -> None:
    bare = {name: value for name, value in THOUGHT.items() if name != "encrypted_content"}
    assert parsed([USER, bare, SAID], store=True).messages[1].text == "Hello."


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"previous_response_id": "resp_1"}, "'resp_1' not found"),
        ({"tools": 7}, "tools"),
        ({"model": 7}, "model"),
    ],
)
def test_a_field_that_the_provider_refuses(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parsed("Hi", **fields)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"input": "x"}'])
def test_a_body_that_is_not_a_request(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request("", {}, body)


NAMES = [
    "role", "content", "type", "text", "id", "call_id", "name", "arguments", "input", "output",
    "summary", "encrypted_content",
]  # fmt: skip
WORDS = st.sampled_from(
    [
        "user", "assistant", "message", "input_text", "output_text", "refusal", "reasoning",
        "function_call", "function_call_output", "custom_tool_call", "x",
    ]
)  # fmt: skip


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | WORDS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_input_is_read_or_refused(value: object) -> None:
    body = {"model": "m", "input": value, "instructions": value, "tools": value, "include": value}
    with suppress(MalformedRequest):
        parse_request("", {}, msgspec.json.encode(body))


REPLY = Reply(
    parts=(
        thinking("Porto is near."),
        Text("It is "),
        Text("sunny."),
        call("weather", {"city": "Porto"}, id="c1"),
    ),
    usage=Usage(input=10, output=5, cached_input=4, reasoning=2),
)


def test_a_whole_reply_has_items() -> None:
    rendering = Rendering(model="m", usage=REPLY.usage, number=3)
    body = msgspec.json.decode(render_whole(REPLY, rendering))
    thought, message, function = body["output"]
    assert thought["id"] == "rs_emulated_3_0"
    assert thought["encrypted_content"] == sign_text("rs_emulated_3_0:Porto is near.")
    assert [part["text"] for part in message["content"]] == ["It is ", "sunny."]
    assert function["call_id"] == "c1"
    assert body["status"] == "completed"
    assert body["usage"]["output_tokens_details"]["reasoning_tokens"] == 2


def test_reasoning_is_encrypted_only_on_request() -> None:
    body = render_whole(REPLY, Rendering(model="m", include_state=False))
    assert msgspec.json.decode(body)["output"][0]["encrypted_content"] is None


@pytest.mark.parametrize(
    ("finish", "reason"),
    [(FinishReason.LENGTH, "max_output_tokens"), (FinishReason.CONTENT_FILTER, "content_filter")],
)
def test_a_reply_that_was_cut_is_incomplete(finish: FinishReason, reason: str) -> None:
    reply = Reply((Text("It"),), finish=finish)
    body = msgspec.json.decode(render_whole(reply, Rendering(model="m")))
    assert body["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": reason}
    assert b"event: response.incomplete\n" in render_chunks(reply, Rendering(model="m"))[-1]


def test_the_last_event_repeats_the_others() -> None:
    reply = Reply((Text("One two"), Refusal("No."), call("a", id="c")))
    events = [
        msgspec.json.decode(event.partition(b"data: ")[2])
        for event in render_chunks(reply, Rendering(model="m"))
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    whole = events[-1]["response"]["output"]
    assert [event["item"] for event in events if event["type"].endswith("item.done")] == whole
    said = "".join(event["delta"] for event in events if event["type"].endswith("text.delta"))
    assert said == whole[0]["content"][0]["text"] == "One two"


def test_an_error_of_a_whole_reply_is_a_failed_response() -> None:
    body = msgspec.json.decode(error_whole(b'{"error": {"message": "Bad.", "type": "x"}}'))
    assert body["status"] == "failed"
    assert body["error"] == {"code": "x", "message": "Bad."}
    assert msgspec.json.decode(error_whole(b"7"))["error"]["code"] == "server_error"


WHY = "SKIPPED WITHOUT EVIDENCE: the vendor's SDK is not installed"


def vendor() -> Any:
    return pytest.importorskip("openai", reason=WHY)


def client(emulator: Emulator) -> Any:
    return vendor().OpenAI(base_url=emulator.base_url, api_key="sk-1234567890", max_retries=0)


def check(response: Any) -> None:
    thought, message, function = response.output
    assert thought.summary[0].text == "Porto is near."
    assert thought.encrypted_content == sign_text(f"{thought.id}:Porto is near.")
    assert response.output_text == "It is sunny."
    assert [part.type for part in message.content] == ["output_text", "output_text"]
    assert (function.name, function.arguments) == ("weather", '{"city":"Porto"}')
    assert response.status == "completed"
    assert response.usage.input_tokens_details.cached_tokens == 4


def test_the_vendors_sdk_reads_a_whole_reply() -> None:
    with Emulator([REPLY]) as emulator, client(emulator) as sdk:
        check(sdk.responses.create(model="g", input="x", include=["reasoning.encrypted_content"]))


async def test_the_vendors_sdk_reads_a_stream() -> None:
    async with Emulator([REPLY]) as emulator:
        sdk = vendor().AsyncOpenAI(base_url=emulator.base_url, api_key="k", max_retries=0)
        async with (
            sdk,
            sdk.responses.stream(
                model="g", input="x", include=["reasoning.encrypted_content"]
            ) as stream,
        ):
            events = [event async for event in stream]
            check(await stream.get_final_response())
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert deltas == ["It", " is", " ", "sunny."]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("rate_limit", "RateLimitError"),
        ("insufficient_quota", "RateLimitError"),
        ("bad_key", "AuthenticationError"),
        ("context_length", "BadRequestError"),
        ("content_filtered", "BadRequestError"),
        ("model_not_found", "BadRequestError"),
        ("server_error", "InternalServerError"),
        ("overloaded", "InternalServerError"),
    ],
)
def test_the_vendors_sdk_knows_its_errors(kind: Any, raised: str) -> None:
    with (
        Emulator(faults=[ErrorResponse(kind)]) as emulator,
        client(emulator) as sdk,
        pytest.raises(getattr(vendor(), raised)) as caught,
    ):
        sdk.responses.create(model="g", input="x")
    assert caught.value.request_id == "req_emulated_1"


def test_the_vendors_sdk_raises_for_an_error_in_a_stream() -> None:
    with Emulator(faults=[ErrorEvent(3)]) as emulator, client(emulator) as sdk:
        stream = sdk.responses.create(model="g", input="x", stream=True)
        with pytest.raises(vendor().APIError, match="had an error"):
            list(stream)


def test_the_vendors_sdk_sees_a_failed_response_in_a_whole_reply() -> None:
    with Emulator(faults=[ErrorEvent()]) as emulator, client(emulator) as sdk:
        response = sdk.responses.create(model="g", input="x")
    assert response.status == "failed"
    assert response.error.code == "server_error"


def test_keep_alive_events_keep_a_stalled_stream_alive() -> None:
    stall = Stall(4, 0.05, comments=True, every=0.01)
    with Emulator(["Hello"], faults=[stall]) as emulator, client(emulator) as sdk:
        events = list(sdk.responses.create(model="g", input="x", stream=True))
    assert events[-1].response.output_text == "Hello"
