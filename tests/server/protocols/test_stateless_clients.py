"""Clients of OpenAI's protocols that send the whole conversation each time, and fields that are not ours."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.protocols.test_openai_over_http import (
    CALL,
    CHAT_TOOL,
    TOOL,
    USER,
    Client,
    chat_text,
    client_of,
    error_of,
    result,
)

from holdfast.core.model_request import ModelRequest
from holdfast.errors import ConfigurationError
from holdfast.server import ServiceOptions
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

DIFFERS, DROPPED = "holdfast-history", "holdfast-dropped-fields"
CLOCK = {"role": "system", "content": "It is 12:00."}
LATER = {"role": "system", "content": "It is 12:01."}

HISTORIES: dict[str, tuple[Any, bool]] = {
    "the same": (lambda sent, asked: [*sent, asked], False),
    "a clock": (lambda sent, asked: [LATER, *sent[1:], asked], True),
    "trimmed": (lambda _sent, asked: [asked], True),
    "the results alone": (lambda _sent, _asked: [], True),
    "a document": (lambda sent, asked: [sent[0], {**USER, "content": "Hi. See: x"}, asked], True),
    "an open call": (lambda sent, asked: [*sent, asked, {**USER, "content": "?"}], True),
}
"""What is sent before the results, made of the messages that were sent and the one with the call."""


@pytest.mark.parametrize("kind", HISTORIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_goes_on_with_its_own_history(kind: str, stream: bool) -> None:
    make, differs = HISTORIES[kind]
    model = ScriptedModel(CALL, "You are in Porto.")
    async with client_of(model) as client:
        sent = [CLOCK, USER]
        asked = (await client.chat(sent, tools=[CHAT_TOOL])).json["choices"][0]["message"]
        call_id = asked["tool_calls"][0]["id"]
        given = [*make(sent, asked), result(call_id, "Porto")]
        done = await client.chat(given, tools=[CHAT_TOOL], stream=stream)
        assert done.status == 200, done.body
        other = await client.chat([*given[:-1], result(call_id, "Lisbon")])
    text = chat_text(done.body) if stream else done.json["choices"][0]["message"]["content"]
    assert text == "You are in Porto."
    assert done.headers.get(DIFFERS) == ("differs" if differs else None)
    assert [one.text for one in model.requests[1].messages][:2] == ["It is 12:00.", "Hi"]
    assert error_of(other) == (409, "already_answered", "messages")


async def test_a_response_goes_on_with_its_own_history() -> None:
    model = ScriptedModel(CALL, "You are in Porto.")
    async with client_of(model) as client:
        first = await client.respond([CLOCK, USER], tools=[TOOL])
        (asked,) = first["output"]
        output = {"type": "function_call_output", "call_id": asked["call_id"], "output": "Porto"}
        bodies = [[CLOCK, USER, asked, output], [LATER, USER, asked, output], [output]]
        orphan = {"type": "function_call_output", "call_id": "call_9", "output": "x"}
        bodies.append([orphan, USER, output])
        answers = [
            await client.call("POST", "/responses", {"model": "greeter", "input": body})
            for body in bodies
        ]
        other = [LATER, USER, asked, {**output, "output": "Lisbon"}]
        refused = await client.call("POST", "/responses", {"model": "greeter", "input": other})
    assert [one.headers.get(DIFFERS) for one in answers] == [None, *["differs"] * 3]
    assert len({one.json["id"] for one in answers}) == 1
    assert len(model.requests) == 2
    assert error_of(refused) == (409, "already_answered", "input")


async def test_the_next_message_begins_with_the_history_that_was_sent() -> None:
    model = ScriptedModel(CALL, "You are in Porto.", "Bye.")
    async with client_of(model) as client:
        asked = (await client.chat([CLOCK, USER], tools=[CHAT_TOOL])).json["choices"][0]["message"]
        given = [LATER, USER, asked, result(asked["tool_calls"][0]["id"], "Porto")]
        done = (await client.chat(given, tools=[CHAT_TOOL])).json["choices"][0]["message"]
        bye = {"role": "user", "content": "Bye"}
        assert DIFFERS not in (await client.chat([*given, done, bye])).headers
    assert model.requests[2].messages[0].text == "It is 12:01."


async def test_another_tenants_call_is_not_found() -> None:
    async with client_of(CALL, "never") as one, client_of("never") as other:
        asked = (await one.chat([USER], tools=[CHAT_TOOL])).json["choices"][0]["message"]
        stolen = await other.chat([result(asked["tool_calls"][0]["id"], "Porto")])
    assert error_of(stolen) == (400, "unknown_call", "messages")


async def ask(client: Client, path: str, **fields: object) -> Any:
    given = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    return await client.call("POST", path, {"model": "greeter", **given, **fields})


PATHS = ["/responses", "/chat/completions"]


@pytest.mark.parametrize("path", PATHS)
async def test_settings_of_a_fixed_list_go_to_the_model(path: str) -> None:
    seen: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        seen.append(request)
        return "Hello."

    verbosity: dict[str, object] = {"verbosity": "low"}
    if path == "/responses":
        verbosity = {"text": verbosity}
    async with client_of(note) as client:
        fields = {"top_k": 40, "frequency_penalty": 0.5, "presence_penalty": -1, **verbosity}
        answer = await ask(client, path, **fields)
    assert answer.status == 200
    assert DROPPED not in answer.headers
    settings = seen[0].settings
    assert (settings.top_k, settings.verbosity) == (40, "low")
    assert (settings.frequency_penalty, settings.presence_penalty) == (0.5, -1)
    if path == "/responses":
        assert answer.json["frequency_penalty"] == 0.5
        assert answer.json["text"]["verbosity"] == "low"


@pytest.mark.parametrize("path", PATHS)
async def test_all_other_fields_are_left_out_and_named(path: str) -> None:
    known = "truncation" if path == "/responses" else "logit_bias"
    value = "sometimes" if path == "/responses" else {"50256": -100}
    async with client_of("Hello.") as client:
        answer = await ask(client, path, **{known: value, "chat_id": "c", "ta\r\nX-Y: 1": 2})
    assert answer.status == 200
    assert answer.headers[DROPPED] == f"{known}, chat_id, ?"
    assert "x-y" not in answer.headers


async def test_a_request_with_many_fields_has_a_short_header() -> None:
    async with client_of("Hello.") as client:
        many = {f"f{number}": 1 for number in range(1000)}
        answer = await ask(client, "/responses", **many)
    assert answer.headers[DROPPED].split(", ")[-2:] == ["f19", "..."]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_known", [False, True])
async def test_strict_fields_refuse_them(path: str, is_known: bool) -> None:
    known = {"truncation": "sometimes"} if path == "/responses" else {"prediction": {}}
    fields = known if is_known else {"temprature": 1}
    async with client_of("Hello.", options=ServiceOptions(strict_fields=True)) as client:
        answer = await ask(client, path, **fields)
        assert (await ask(client, path)).status == 200
    name = next(iter(fields))
    assert error_of(answer) == (400, "unsupported_parameter" if is_known else "body", name)
    assert is_known or "temperature" in answer.json["error"]["message"]


@pytest.mark.parametrize("strict", [1, "yes", None])
def test_a_wrong_value_for_strict_fields_is_refused(strict: Any) -> None:
    with pytest.raises(ConfigurationError, match="strict_fields"):
        ServiceOptions(strict_fields=strict)


async def test_nested_metadata_is_kept_as_json() -> None:
    metadata = {"user": {"id": 7, "tags": ["a", None]}, "x" * 100: 1.5}
    async with client_of("Hello.") as client:
        made = await client.respond(metadata=metadata)
        read = await client.call("GET", f"/responses/{made['id']}")
    assert made["metadata"] == read.json["metadata"] == metadata
