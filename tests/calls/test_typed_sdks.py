"""Typed answers around the real clients of the vendors, against the emulator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, Field
from tests.seeds.sdks import WIRES
from typing_extensions import TypedDict

from holdfast import StructuredOutput
from holdfast.calls import (
    CallResult,
    ResultKind,
    asend_message,
    asend_message_streaming,
    resilient,
    send_message,
    send_message_streaming,
)
from holdfast.testing import Emulator, no_waits
from holdfast.testing.emulator import EmulatedRequest, Html200, HttpStatus, call
from holdfast.tools import JsonSchema

# google-genai makes a class of aiohttp's session.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

MODELS = {
    "openai_chat": "gpt-5.2",
    "openai_responses": "gpt-5.2",
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-2.5-flash",
}
"""Models whose servers take a schema."""


@dataclass
class Trip:
    city: str
    nights: int


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


class Place(TypedDict):
    city: str


@asynccontextmanager
async def method(
    wire: str, provider: Emulator, *, streamed: bool = False, is_async: bool = False, **more: Any
) -> AsyncIterator[Any]:
    """The method of a vendor's client that takes the question, without a question."""
    given = {"model": MODELS[wire], **more}
    client: Any
    if wire == "gemini":
        genai = pytest.importorskip("google.genai")
        base = provider.base_url_for("gemini").removesuffix("/v1beta")
        client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
        models = client.aio.models if is_async else client.models
        made = models.generate_content_stream if streamed else models.generate_content
        close = client.aio.aclose if is_async else client.close
    else:
        sdk = pytest.importorskip("anthropic" if wire == "anthropic" else "openai")
        base = provider.base_url_for(wire)
        name, base = (
            ("Anthropic", base.removesuffix("/v1")) if wire == "anthropic" else ("OpenAI", base)
        )
        kind = getattr(sdk, f"Async{name}" if is_async else name)
        client = kind(base_url=base, api_key="any", max_retries=0)
        made = {
            "openai_chat": lambda: client.chat.completions.create,
            "openai_responses": lambda: client.responses.create,
            "anthropic": lambda: client.messages.create,
        }[wire]()
        given |= {"stream": True} if streamed else {}
        given |= {"max_tokens": 500} if wire == "anthropic" else {}
        close = client.close
    try:
        yield partial(made, **given)
    finally:
        closed = close()
        if inspect.isawaitable(closed):
            await closed


async def ask(
    made: Any, *args: Any, streamed: bool = False, is_async: bool = False, **typed: Any
) -> CallResult[Any]:
    if is_async:
        send: Any = asend_message_streaming if streamed else asend_message
        return await send(made, *args, **typed)  # type: ignore[no-any-return]
    blocking: Any = send_message_streaming if streamed else send_message
    return await asyncio.to_thread(partial(blocking, made, *args, **typed))


class Script:
    """The replies in order, and the requests as the emulator reads them."""

    def __init__(self, *replies: Any) -> None:
        self.replies = replies
        self.requests: list[Any] = []

    def __call__(self, request: EmulatedRequest) -> Any:
        self.requests.append(request)
        return self.replies[min(len(self.requests), len(self.replies)) - 1]


SCHEMA_FIELDS = {
    "openai_chat": "response_format",
    "openai_responses": "text",
    "anthropic": "output_config",
    "gemini": "generationConfig",
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_wrong_answer_goes_back_with_its_problems(
    wire: str, streamed: bool, is_async: bool
) -> None:
    script = Script('{"city": "Porto", "nights": "many"}', '{"city": "Porto", "nights": 3}')
    previews: list[object] = []
    keep = {"preview_callback": lambda value: previews.append(value and dict(value))}
    async with (
        Emulator(script) as provider,
        method(wire, provider, streamed=streamed, is_async=is_async) as made,
    ):
        typed: dict[str, Any] = {"output": Trip, **(keep if streamed else {})}
        result = await ask(made, "Plan a trip.", streamed=streamed, is_async=is_async, **typed)
    assert result.output == Trip("Porto", 3), result
    assert (result.ok, result.kind, result.attempts) == (True, ResultKind.TEXT, 2)
    assert (result.parsed_by, result.problems) == ("strict", ())
    first, second = script.requests
    assert "nights" in str(first.body[SCHEMA_FIELDS[wire]])
    assert first.text == "Plan a trip."
    assert "- nights: must be an integer" in second.text
    assert len(second.messages) == 3
    assert '"many"' in str(second.messages[1])
    if streamed:
        assert previews[-1] == {"city": "Porto", "nights": 3}
        assert None in previews
    else:
        assert result.usage.output > 0
        assert result.usage.input > 2


KINDS: list[tuple[Any, str, object]] = [
    (Person, '{"name": "Ana", "age": 7}', Person(name="Ana", age=7)),
    (Place, '{"city": "Faro"}', {"city": "Faro"}),
    ([Trip, Person], '{"name": "Ana", "age": 7}', Person(name="Ana", age=7)),
    (list[Person], '{"answer": [{"name": "Ana", "age": 7}]}', [Person(name="Ana", age=7)]),
    (int, '{"answer": 42}', 42),
    (
        JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}}}),
        '{"a": 1}',
        {"a": 1},
    ),
]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("wire", WIRES)
async def test_every_kind_of_type_is_asked_for(wire: str) -> None:
    script = [text for _, text, _ in KINDS]
    async with Emulator(script) as provider, method(wire, provider) as made:
        for output, _, value in KINDS:
            result = await ask(made, "Say it.", output=output)
            assert (result.output, result.attempts) == (value, 1), result


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_tool_asks_where_the_server_takes_no_schema(wire: str, streamed: bool) -> None:
    script = Script(
        call("final_answer", {"city": "Porto"}),
        call("final_answer", {"city": "Porto", "nights": 3}),
    )
    wanted = StructuredOutput(Trip, mode="tool")
    previews: list[object] = []
    more: dict[str, Any] = {"preview_callback": previews.append} if streamed else {}
    async with Emulator(script) as provider, method(wire, provider, streamed=streamed) as made:
        result = await ask(made, "Plan.", streamed=streamed, output=wanted, **more)
    assert result.output == Trip("Porto", 3), result
    assert (result.kind, result.tool_calls) == (ResultKind.TEXT, ())
    assert [tool.name for tool in script.requests[0].tools] == ["final_answer"]
    assert "- nights: is required" in script.requests[1].text
    assert not streamed or previews[-1] == {"city": "Porto", "nights": 3}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("wire", WIRES)
async def test_tools_and_settings_of_the_user_stay(wire: str) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    tools: dict[str, Any] = {
        "openai_chat": {
            "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}]
        },
        "openai_responses": {
            "tools": [{"type": "function", "name": "look", "parameters": schema, "strict": False}],
            "text": {"verbosity": "low"},
        },
        "anthropic": {"tools": [{"name": "look", "input_schema": schema}]},
        "gemini": {
            "config": {
                "tools": [
                    {"function_declarations": [{"name": "look", "parameters_json_schema": schema}]}
                ],
                "temperature": 0.5,
            }
        },
    }
    script = Script('{"city": "Porto", "nights": 3}', call("look", {}))
    async with Emulator(script) as provider, method(wire, provider, **tools[wire]) as made:
        wanted = StructuredOutput(Trip, mode="tool" if wire == "gemini" else "auto")
        answered = await ask(made, "Plan.", output=wanted)
        called = await ask(made, "Plan.", output=wanted)
    assert answered.output == Trip("Porto", 3)
    assert (called.kind, called.output) == (ResultKind.TOOLS, None)
    assert [one.name for one in called.tool_calls] == ["look"]
    assert "look" in [tool.name for tool in script.requests[0].tools]
    if wire == "gemini":
        assert script.requests[0].body["generationConfig"]["temperature"] == 0.5
    if wire == "openai_responses":
        assert script.requests[0].body["text"]["verbosity"] == "low"


@pytest.mark.slow  # takes half a second or more
async def test_an_object_of_the_sdk_as_config_is_kept() -> None:
    types = pytest.importorskip("google.genai").types
    config = types.GenerateContentConfig(temperature=0.5, max_output_tokens=99)
    script = Script('{"city": "Porto", "nights": 3}')
    async with Emulator(script) as provider, method("gemini", provider, config=config) as made:
        result = await ask(made, "Plan.", output=Trip)
    assert result.output == Trip("Porto", 3)
    sent = script.requests[0].body["generationConfig"]
    assert (sent["temperature"], sent["maxOutputTokens"]) == (0.5, 99)
    assert "responseJsonSchema" in sent
    assert config.response_json_schema is None


async def test_a_mode_that_the_endpoint_refuses_is_left() -> None:
    """Nothing is asked twice in a mode that was refused once."""
    refused = HttpStatus(400, body={"error": {"message": "response_format is not supported"}})

    def faults(request: EmulatedRequest) -> Any:
        return refused if "response_format" in request.body else None

    script = Script(call("final_answer", {"city": "Faro", "nights": 1}))
    async with (
        Emulator(script, faults=faults) as provider,
        method("openai_chat", provider) as made,
    ):
        first = await ask(made, "Plan.", output=Trip)
        second = await ask(made, "Plan.", output=Trip)
    assert first.output == second.output == Trip("Faro", 1), first
    assert (first.attempts, second.attempts) == (2, 1)
    assert ["response_format" in str(one.body) for one in provider.requests] == [
        True,
        False,
        False,
    ]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("text", ["Draw me the schema of a table.", "schema"])
@pytest.mark.parametrize("place", ["question", "history", "tool"])
async def test_an_error_that_quotes_the_call_leaves_no_mode(text: str, place: str) -> None:
    refused = HttpStatus(400, body={"error": {"message": f"The input was flagged: {text!r}"}})
    described = {"name": "look", "description": text, "parameters": {"type": "object"}}
    keywords: dict[str, Any] = {
        "question": {},
        "history": {"messages": [{"role": "user", "content": text}]},
        "tool": {"tools": [{"type": "function", "function": described}]},
    }[place]
    async with (
        Emulator(Script("never"), faults=[refused] * 3, strict=False) as provider,
        method("openai_chat", provider, **keywords) as made,
    ):
        result = await ask(made, text if place == "question" else "Plan.", output=Trip)
    assert (result.kind, result.attempts) == (ResultKind.ERROR, 1)
    assert len(provider.requests) == 1


@pytest.mark.slow  # takes half a second or more
async def test_an_error_that_quotes_a_chat_leaves_no_mode() -> None:
    genai = pytest.importorskip("google.genai")
    text = "Draw me the schema of a table."
    error = {"code": 400, "message": f"flagged: {text!r}", "status": "INVALID_ARGUMENT"}
    refused = HttpStatus(400, body={"error": error})
    async with Emulator(Script("Drawn."), faults=[None, *[refused] * 3]) as provider:
        base = provider.base_url_for("gemini").removesuffix("/v1beta")
        client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
        chat = client.chats.create(model="gemini-2.5-flash")
        await asyncio.to_thread(chat.send_message, text)
        result = await ask(chat.send_message, "Plan a trip.", output=Trip)
    assert (result.kind, len(provider.requests)) == (ResultKind.ERROR, 2)


@pytest.mark.slow  # takes half a second or more
async def test_what_one_account_was_refused_is_not_kept_from_another() -> None:
    openai = pytest.importorskip("openai")
    refused = HttpStatus(400, body={"error": {"message": "response_format is not supported"}})

    def faults(request: EmulatedRequest) -> Any:
        is_refused = request.headers["x-team"] == "poor"
        return refused if is_refused and "response_format" in request.body else None

    script = Script('{"city": "Faro", "nights": 1}')
    attempts = []
    async with Emulator(script, faults=faults, strict=False) as provider:
        for key in ("poor", "poor", "rich"):
            async with openai.AsyncOpenAI(
                base_url=provider.base_url,
                api_key=f"key of {key}",
                default_headers={"x-team": key},
                max_retries=0,
            ) as client:
                made = partial(client.chat.completions.create, model="m")
                attempts.append((await asend_message(made, "Plan.", output=Trip)).attempts)
    assert attempts == [2, 1, 1]
    assert "response_format" in str(provider.requests[-1].body)


@pytest.mark.slow  # takes half a second or more
async def test_a_chat_that_keeps_its_history_gets_only_the_problems() -> None:
    genai = pytest.importorskip("google.genai")
    script = Script('{"city": "Porto"}', '{"city": "Porto", "nights": 3}')
    async with Emulator(script) as provider:
        base = provider.base_url_for("gemini").removesuffix("/v1beta")
        client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
        chat = client.chats.create(model="gemini-2.5-flash")
        result = await ask(chat.send_message, "Plan a trip.", output=Trip)
    assert result.output == Trip("Porto", 3)
    assert len(script.requests[1].messages) == 3
    assert script.requests[1].text.startswith("The answer does not have the required form")


async def test_a_conversation_of_the_user_is_continued() -> None:
    script = Script('{"city": "Porto"}', '{"city": "Porto", "nights": 3}')
    earlier = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Plan."}]
    async with (
        Emulator(script) as provider,
        method("openai_chat", provider, messages=earlier) as made,
    ):
        result = await ask(made, output=Trip)
    assert result.output == Trip("Porto", 3)
    assert [one["role"] for one in script.requests[1].body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert len(earlier) == 2


@pytest.mark.slow  # takes half a second or more
async def test_a_question_follows_the_messages_that_a_call_has_already() -> None:
    script = Script('{"city": "Porto", "nights": 3}')
    rules = [{"role": "system", "content": "Be short."}]
    async with (
        Emulator(script) as provider,
        method("openai_chat", provider, messages=rules) as made,
    ):
        result = await ask(made, "Plan.", output=Trip)
    assert result.output == Trip("Porto", 3)
    assert [one["content"] for one in script.requests[0].body["messages"]] == ["Be short.", "Plan."]


@pytest.mark.slow  # takes half a second or more
async def test_one_content_of_gemini_is_a_question() -> None:
    content = {"role": "user", "parts": [{"text": "Plan."}]}
    script = Script('{"city": "Porto"}', '{"city": "Porto", "nights": 3}')
    async with Emulator(script) as provider, method("gemini", provider, contents=content) as made:
        result = await ask(made, output=Trip)
    assert result.output == Trip("Porto", 3)
    assert script.requests[1].body["contents"][0] == content
    assert len(script.requests[1].body["contents"]) == 3


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("outer", ["send_message", "resilient"])
async def test_bad_replies_are_repeated_and_wrong_answers_corrected(outer: str) -> None:
    """In either order, the pieces do the same."""
    script = Script("", '{"city": "Porto"}', '{"city": "Porto", "nights": 3}')
    faults = [HttpStatus(503), Html200(), None, None, None]
    async with Emulator(script, faults=faults) as provider, method("openai_chat", provider) as made:
        with no_waits():
            if outer == "send_message":
                result = await ask(resilient(made), "Plan.", output=Trip)
            else:
                call = resilient(partial(send_message, made, output=Trip))
                result = await asyncio.to_thread(call, "Plan.")
    assert result.output == Trip("Porto", 3), result
    if outer == "send_message":
        assert result.attempts == 5
    assert len(provider.requests) == 5


@pytest.mark.slow  # takes half a second or more
async def test_the_keyword_of_a_function_says_the_wire() -> None:
    script = Script('{"city": "Porto", "nights": 3}')
    async with Emulator(script) as provider, method("openai_chat", provider) as made:

        def put(question: str, response_format: Any = None) -> object:
            return made(
                messages=[{"role": "user", "content": question}], response_format=response_format
            )

        result = await ask(put, "Plan.", output=Trip)
    assert result.output == Trip("Porto", 3)
    assert script.requests[0].body["response_format"]["type"] == "json_schema"
