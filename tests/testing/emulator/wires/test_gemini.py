"""The Gemini wire, with the checks and error texts of the real one; the vendor's SDK reads it."""

from __future__ import annotations

import urllib.error
import urllib.request
from base64 import b64decode
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import (
    FinishReason,
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
    DropAfter,
    EmulatedRequest,
    Emulator,
    ErrorEvent,
    ErrorResponse,
    Fault,
    NoTerminator,
    Stall,
    TruncatedJson,
    call,
    thinking,
)
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.emulator_wire import Rendering
from holdfast.testing.emulator.wires.gemini import parse_request, render_chunks, render_whole
from holdfast.testing.emulator.wires.history_parts import sign_text

PATH = "/v1beta/models/gemini-3-pro:generateContent"
USER = {"role": "user", "parts": [{"text": "Weather?"}]}
SIGNED = sign_text('weather({"city":"Porto"})')
CALLING: dict[str, Any] = {
    "role": "model",
    "parts": [
        {"text": "Hm.", "thought": True},
        {
            "functionCall": {"name": "weather", "args": {"city": "Porto"}, "id": "c1"},
            "thoughtSignature": SIGNED,
        },
        {"functionCall": {"name": "time", "id": "c2"}},
    ],
}


def response(name: str, call_id: str = "", **said: object) -> dict[str, Any]:
    function = {"name": name, "response": said or {"output": "Sunny"}}
    return {"functionResponse": {**function, "id": call_id} if call_id else function}


ANSWERED = {"role": "user", "parts": [response("weather", "c1"), response("time", "c2")]}


def parsed(*contents: object, path: str = PATH, **more: object) -> EmulatedRequest:
    return parse_request(path, {}, msgspec.json.encode({"contents": contents, **more}))


def test_a_request_in_neutral_form() -> None:
    declared = {"name": "weather", "parametersJsonSchema": {"type": "object"}}
    parts = [response("time", "c2", error="Late"), response("weather", "c1", degrees=20)]
    request = parsed(
        USER,
        CALLING,
        {"role": "user", "parts": [*parts, {"text": "And now?"}]},
        systemInstruction={"parts": [{"text": "Be brief."}]},
        tools=[{"functionDeclarations": [declared]}, {"googleSearch": {}}],
        generationConfig={"temperature": 1},
    )
    roles = [message.role for message in request.messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    thought, first, second = request.messages[2].parts
    assert thought == Reasoning("Hm.", None, "gemini")
    assert first == ToolCall(
        "c1", "weather", '{"city":"Porto"}', "gemini", {"thoughtSignature": SIGNED}
    )
    assert second == ToolCall("c2", "time", "{}", "gemini")
    assert request.messages[3].parts == (
        ToolResult("c2", "time", (Text("Late"),), is_error=True),
        ToolResult("c1", "weather", (Text('{"degrees":20}'),)),
    )
    assert request.text == "And now?"
    assert [one.name for one in request.tools] == ["weather"]
    assert (request.model, request.stream) == ("gemini-3-pro", False)


def test_the_contents_of_one_streamed_turn_are_one_message() -> None:
    thought, first, second = [{"role": "model", "parts": [part]} for part in CALLING["parts"]]
    end = {"role": "model", "parts": [{"text": ""}]}
    request = parsed(USER, thought, first, second, end, ANSWERED)
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    assert [call.id for call in request.messages[1].calls] == ["c1", "c2"]


def test_both_spellings_of_a_field_are_read() -> None:
    system = {"parts": {"text": "Be brief."}}
    snake = {"function_call": {"name": "weather"}, "thought_signature": sign_text("weather({})")}
    request = parsed(
        {"parts": {"text": "Hi"}},
        {"role": "model", "parts": [snake]},
        {"role": "function", "parts": [{"function_response": {"name": "weather"}}]},
        system_instruction=system,
        tools=[{"function_declarations": [{"name": "weather"}]}],
    )
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert request.messages[2].calls[0].name == "weather"


@pytest.mark.parametrize(
    ("path", "stream", "array"),
    [
        (PATH, False, False),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", True, False),
        ("/v1beta/models/m:streamGenerateContent?key=[masked]&alt=sse", True, False),
        ("/v1beta/models/m:streamGenerateContent?%24alt=sse", True, False),
        ("/v1beta/models/m:streamGenerateContent", True, True),
        ("/v1beta/models/m:streamGenerateContent?alt=json", True, True),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", False, False),
    ],
)
def test_the_path_says_how_the_reply_is_wanted(path: str, stream: bool, array: bool) -> None:
    request = parsed(USER, path=path)
    assert (request.stream, request.array) == (stream, array)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ([], "contents is not specified"),
        ("Hi", "contents is not specified"),
        (["Hi"], "Invalid value at 'contents[0]'"),
        ([{"role": "system", "parts": [{"text": "x"}]}], "valid role: user, model"),
        ([{"role": "user", "parts": []}], "parts must not be empty"),
        ([{"role": "user"}], "parts must not be empty"),
        ([{"role": "user", "parts": [{}]}], "must have one initialized field"),
        ([{"role": "user", "parts": [{"text": 7}]}], "TYPE_STRING"),
        ([USER, CALLING], "number of function response parts"),
        ([USER, CALLING, USER], "number of function response parts"),
        ([USER, CALLING, {"parts": [response("weather")]}], "number of function response parts"),
        (
            [USER, CALLING, {"parts": [response("weather"), response("tide")]}],
            "number of function response parts",
        ),
        (
            [USER, CALLING, {"parts": [response("weather", "c1"), response("time", "c9")]}],
            "number of function response parts",
        ),
        ([USER, {"parts": [response("weather")]}], "immediately after a function call turn"),
        ([USER, {"role": "model", "parts": [{"text": "x"}]}], "requests ends with a user role"),
        ([CALLING, ANSWERED], "immediately after a user turn"),
        ([{"role": "user", "parts": CALLING["parts"]}], "function response turn"),
        ([USER, {"role": "model", "parts": [response("weather")]}], "function response turn"),
        ([USER, {"role": "model", "parts": [{"functionCall": {}}]}], "name is required"),
        (
            [USER, {"role": "model", "parts": [{"functionCall": {"name": "a", "args": []}}]}],
            "google.protobuf.Struct",
        ),
        (
            [USER, {"role": "model", "parts": [{"text": "x", "thoughtSignature": "no?"}]}],
            "Base64 decoding failed",
        ),
        (
            [USER, {"role": "model", "parts": [{**CALLING["parts"][1], "thoughtSignature": sign_text("x")}]}],
            "Corrupted thought signature",
        ),
    ],
)  # fmt: skip
def test_a_history_that_the_provider_refuses(contents: object, said: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        parse_request(PATH, {}, msgspec.json.encode({"contents": contents}))
    assert said in str(refused.value)


def test_a_call_of_this_turn_must_be_signed_since_the_third_generation() -> None:
    bare = {"role": "model", "parts": [{"functionCall": {"name": "time"}}]}
    answer = {"parts": [response("time")]}
    with pytest.raises(MalformedRequest, match=r"`default_api:time` , position 2\."):
        parsed(USER, bare, answer)
    done = {"role": "model", "parts": [{"text": "It is late."}]}
    parsed(USER, bare, answer, done, USER)
    parsed(USER, bare, answer, path=PATH.replace("gemini-3-pro", "gemini-2.5-flash"))


def test_responses_in_contents_of_their_own_are_taken() -> None:
    apart = [{"role": "user", "parts": [part]} for part in ANSWERED["parts"]]
    assert len(apart) > 1
    assert len(parsed(USER, CALLING, *apart).tool_results) == len(apart)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tools": 7}, "Invalid value at 'tools'"),
        ({"tools": {"functionDeclarations": []}}, "Invalid value at 'tools'"),
    ],
)
def test_a_field_that_the_provider_refuses(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parsed(USER, **fields)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": "x"}'])
def test_a_body_that_is_not_a_request(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request(PATH, {}, body)


NAMES = [
    "role", "parts", "text", "functionCall", "functionResponse", "name", "args", "response", "id",
    "thought", "thoughtSignature", "inlineData", "mimeType",
]  # fmt: skip


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["user", "model", "x"]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_history_is_read_or_refused(value: object) -> None:
    body = {"contents": value, "systemInstruction": value, "tools": value}
    with suppress(MalformedRequest):
        parse_request(PATH, {}, msgspec.json.encode(body))


SAID = Reply(
    parts=(
        thinking("Porto is near."),
        Text("It is sunny."),
        call("weather", {"city": "Porto"}, id="c1"),
        call("time", id="c2"),
    ),
    usage=Usage(input=10, output=5, cached_input=4, reasoning=2),
)


def whole(reply: Reply, model: str = "gemini-3-pro") -> dict[str, Any]:
    rendering = Rendering(model=model, usage=reply.usage)
    body: dict[str, Any] = msgspec.json.decode(render_whole(reply, rendering))
    return body


def test_a_whole_reply_has_parts_and_the_first_call_is_signed() -> None:
    body = whole(SAID)
    thought, text, first, second = body["candidates"][0]["content"]["parts"]
    assert thought == {"text": "Porto is near.", "thought": True}
    assert text == {"text": "It is sunny."}
    assert first["thoughtSignature"] == SIGNED
    assert first["functionCall"]["id"] == "c1"
    assert "thoughtSignature" not in second
    assert body["candidates"][0]["finishReason"] == "STOP"
    assert body["usageMetadata"]["thoughtsTokenCount"] == 2
    assert body["usageMetadata"]["totalTokenCount"] == 15


def test_calls_of_the_second_generation_have_no_ids_and_are_signed_only_after_thoughts() -> None:
    parts = whole(SAID, "gemini-2.5-flash")["candidates"][0]["content"]["parts"]
    assert "id" not in parts[2]["functionCall"]
    assert "thoughtSignature" in parts[2]
    bare = whole(Reply((call("time"),)), "gemini-2.5-flash")
    assert "thoughtSignature" not in bare["candidates"][0]["content"]["parts"][0]


def test_the_signature_of_a_text_comes_with_it_or_at_the_end_of_a_stream() -> None:
    reply = Reply((Reasoning("Hm.", "c2ln"), Text("One two")))
    assert whole(reply)["candidates"][0]["content"]["parts"][1]["thoughtSignature"] == "c2ln"
    last = render_chunks(reply, Rendering(model="m"))[-1]
    parts = msgspec.json.decode(last.removeprefix(b"data: "))["candidates"][0]["content"]["parts"]
    assert parts == [{"text": "", "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (Reply((Refusal("No."),)), "SAFETY"),
        (Reply((Text("x"),), finish=FinishReason.LENGTH), "MAX_TOKENS"),
        (Reply((ToolCall("c", "weather", '{"ci'),)), "MALFORMED_FUNCTION_CALL"),
        (Reply((Text("x"),), raw_finish="RECITATION"), "RECITATION"),
        (Reply((Opaque("gemini", {"executableCode": {}}),)), "STOP"),
    ],
)
def test_how_a_reply_ends(reply: Reply, word: str) -> None:
    assert whole(reply)["candidates"][0]["finishReason"] == word


def post(emulator: Emulator, method: str = "streamGenerateContent") -> tuple[str, bytes]:
    url = f"{emulator.base_url_for('gemini')}/models/gemini-3-pro:{method}"
    body = msgspec.json.encode({"contents": [USER]})
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method="POST")) as answer:
            return answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.headers["content-type"], error.read()


def test_without_events_a_stream_is_one_array() -> None:
    with Emulator(["One two"]) as emulator:
        kind, body = post(emulator)
        assert kind == "application/json"
        chunks = msgspec.json.decode(body)
    assert [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in chunks] == [
        "One", " two", "",
    ]  # fmt: skip


@pytest.mark.parametrize("fault", [NoTerminator(), TruncatedJson()])
def test_an_array_that_is_cut_is_not_json(fault: Fault) -> None:
    with Emulator(["One two"], faults=[fault]) as emulator:
        body = post(emulator)[1]
    assert body.startswith(b'[{"candidates"')
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body)


def test_errors_of_an_array_stand_in_an_array() -> None:
    faults = [ErrorResponse("overloaded"), ErrorEvent(1, "overloaded")]
    with Emulator(["One two"], faults=faults) as emulator:
        (refused,) = msgspec.json.decode(post(emulator)[1])
        _, late = msgspec.json.decode(post(emulator)[1])
    assert refused["error"]["status"] == late["error"]["status"] == "UNAVAILABLE"


def test_blanks_keep_a_stalled_array_alive() -> None:
    stall = Stall(1, 0.05, comments=True, every=0.01)
    with Emulator(["One two"], faults=[stall]) as emulator:
        body = post(emulator)[1]
    assert b"   " in body
    assert len(msgspec.json.decode(body)) == 3


WHY = "SKIPPED WITHOUT EVIDENCE: the vendor's SDK is not installed"


def vendor() -> Any:
    pytest.importorskip("google.genai", reason=WHY)
    from google import genai

    return genai


def client(emulator: Emulator) -> Any:
    return vendor().Client(api_key="k", http_options={"base_url": emulator.origin})


def test_the_vendors_sdk_reads_a_whole_reply() -> None:
    with Emulator([SAID]) as emulator, client(emulator) as sdk:
        got = sdk.models.generate_content(model="gemini-3-pro", contents="x")
    thought, text, first, second = got.candidates[0].content.parts
    assert (thought.text, thought.thought) == ("Porto is near.", True)
    assert text.text == "It is sunny."
    assert (first.function_call.name, first.function_call.args) == ("weather", {"city": "Porto"})
    assert first.thought_signature == b64decode(SIGNED)
    assert second.function_call.id == "c2"
    assert got.candidates[0].finish_reason == "STOP"
    assert got.usage_metadata.total_token_count == 15
    assert got.response_id == "emulated-1"


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession")  # the SDK's own
async def test_the_vendors_sdk_reads_a_stream() -> None:
    async with Emulator([SAID]) as emulator:
        sdk = client(emulator)
        stream = await sdk.aio.models.generate_content_stream(model="gemini-3-pro", contents="x")
        chunks = [chunk async for chunk in stream]
        await sdk.aio.aclose()
        sdk.close()
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert [part.text for part in parts if part.text and not part.thought] == [
        "It", " is", " sunny.",
    ]  # fmt: skip
    assert [part.function_call.name for part in parts if part.function_call] == ["weather", "time"]
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert chunks[-1].usage_metadata.thoughts_token_count == 2


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("kind", "raised", "code"),
    [
        ("rate_limit", "ClientError", 429),
        ("insufficient_quota", "ClientError", 429),
        ("bad_key", "ClientError", 400),
        ("context_length", "ClientError", 400),
        ("model_not_found", "ClientError", 404),
        ("server_error", "ServerError", 500),
        ("overloaded", "ServerError", 503),
    ],
)
def test_the_vendors_sdk_knows_its_errors(kind: Any, raised: str, code: int) -> None:
    from google.genai import errors

    with (
        Emulator(faults=[ErrorResponse(kind)]) as emulator,
        client(emulator) as sdk,
        pytest.raises(getattr(errors, raised)) as caught,
    ):
        sdk.models.generate_content(model="gemini-3-pro", contents="x")
    assert caught.value.code == code
    assert caught.value.status


def test_the_vendors_sdk_sees_why_a_prompt_was_refused() -> None:
    with Emulator(faults=[ErrorResponse("content_filtered")]) as emulator, client(emulator) as sdk:
        got = sdk.models.generate_content(model="gemini-3-pro", contents="x")
    assert got.prompt_feedback.block_reason == "PROHIBITED_CONTENT"


def test_the_vendors_sdk_raises_for_an_error_in_a_stream() -> None:
    from google.genai import errors

    with Emulator(faults=[ErrorEvent(1)]) as emulator, client(emulator) as sdk:
        stream = sdk.models.generate_content_stream(model="gemini-3-pro", contents="x")
        with pytest.raises(errors.APIError, match="Internal error"):
            list(stream)


def test_a_dropped_stream_is_not_a_reply_for_the_vendors_sdk() -> None:
    with Emulator(["One two"], faults=[DropAfter(1)]) as emulator, client(emulator) as sdk:
        stream = sdk.models.generate_content_stream(model="gemini-3-pro", contents="x")
        with pytest.raises(Exception, match=r"(?i)closed|incomplete|reset|payload|connection"):
            list(stream)
