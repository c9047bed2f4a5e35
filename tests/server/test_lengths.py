"""Titles, names and metadata have limits wherever they come in, and no list returns more than that."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import aiohttp
import msgspec
import pytest
from tests.server.live_server import LiveServer, Reply, serve
from tests.server.serving import serve as serve_on_loop

from holdfast import Agent, MemoryJournal
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import SessionTitled
from holdfast.journal.inbox.queue_limits import check_scope
from holdfast.server import create_app
from holdfast.server.access.keys import make_key
from holdfast.server.api import request_bodies
from holdfast.sessions.names import LONGEST_NAME, LONGEST_TITLE
from holdfast.testing import ScriptedModel

MANY = 100_000
LONG = "x" * MANY


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
async def server(journal: MemoryJournal) -> AsyncIterator[LiveServer]:
    agent = Agent(ScriptedModel(*["Hello."] * 9), name="guide", journal=journal)
    async with serve(create_app(agent, journal=journal)) as server:
        yield server


async def post(
    server: LiveServer, path: str, body: object, method: str = "POST", **headers: str
) -> Reply:
    return await server.request(method, path, json.dumps(body).encode(), **headers)


def turn(**fields: object) -> dict[str, object]:
    return {"agent": "guide", "message": "Hi", "wait": 20, **fields}


def picture(**fields: object) -> dict[str, object]:
    part = {"type": "media", "data": "aGk=", "media_type": "text/plain", **fields}
    return turn(message=[part])


FILE = {"file_data": "data:text/plain;base64,aGk=", "filename": LONG}
UI_PART = {"type": "file", "url": "data:text/plain;base64,aGk=", "mediaType": "text/plain"}
API, TURNS = "/api/v1", "/api/v1/turns"
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


def chat(**fields: object) -> dict[str, object]:
    return {"model": "guide", "messages": [{"role": "user", "content": "Hi"}], **fields}


def respond(**fields: object) -> dict[str, object]:
    return {"model": "guide", "input": "Hi", **fields}


def ui(**fields: object) -> dict[str, object]:
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hi"}], **fields}
    return {"id": "ada", "messages": [message]}


def agui(**fields: object) -> dict[str, object]:
    message = {"id": "m", "role": "user", "content": "Hi"}
    return {"threadId": "ada", "runId": "r", "messages": [message], **fields}


TOO_LONG: list[tuple[str, object, str, str]] = [
    (f"{API}/sessions", {"title": LONG}, "title", "500"),
    (f"{API}/sessions", {"title": "a", "session": LONG}, "session", "1000"),
    (TURNS, turn(agent=LONG), "agent", "200"),
    (TURNS, turn(model=LONG), "model", "200"),
    (TURNS, turn(session=LONG), "session", "1000"),
    (TURNS, turn(metadata={"a": LONG}), "metadata", "16,384"),
    (TURNS, turn(metadata={LONG: 1}), "metadata", "16,384"),
    (TURNS, turn(metadata={"a": list(range(MANY))}), "metadata", "16,384"),
    (TURNS, turn(settings={"tool_choice": LONG}), "settings.tool_choice", "200"),
    (TURNS, picture(name=LONG), "message[0].name", "255"),
    (TURNS, picture(media_type=f"text/{LONG}"), "message[0].media_type", "200"),
    (f"{API}/sessions/s/fork", {"to": LONG}, "to", "1000"),
    (CHAT, chat(metadata={"a": LONG}), "metadata", "16,384"),
    (CHAT, chat(metadata={LONG: "a"}), "metadata", "16,384"),
    (
        CHAT,
        chat(messages=[{"role": "user", "content": [{"type": "file", "file": FILE}]}]),
        "messages[0].content[0].file.filename",
        "255",
    ),
    (RESPONSES, respond(metadata={"a": LONG}), "metadata", "16,384"),
    (RESPONSES, respond(metadata={LONG: "a"}), "metadata", "16,384"),
    (RESPONSES, respond(conversation=LONG), "conversation", "1000"),
    (RESPONSES, respond(conversation={"id": LONG}), "conversation", "1000"),
    ("/v1/conversations", {"metadata": {"a": LONG}}, "metadata", "16,384"),
    ("/vercel/guide/chat", {**ui(), "id": LONG}, "id", "1,000"),
    ("/vercel/guide/chat", ui(id=LONG), "messages[0].id", "2000"),
    ("/vercel/guide/chat", ui(parts=[{**UI_PART, "filename": LONG}]), "filename", "255"),
    ("/agui/guide", agui(threadId=LONG), "threadId", "1,000"),
    ("/agui/guide", agui(runId=LONG), "runId", "2000"),
    ("/agui/guide", agui(forwardedProps={"a": LONG}), "metadata", "16,384"),
]


@pytest.mark.parametrize("case", TOO_LONG, ids=[f"{case[0]} {case[2]}" for case in TOO_LONG])
async def test_what_is_too_long_is_refused_by_field_and_limit(
    server: LiveServer, journal: MemoryJournal, case: tuple[str, object, str, str]
) -> None:
    path, body, field, limit = case
    if path.endswith("/fork"):
        await post(server, f"{API}/sessions", {"title": "a", "session": "s"})
    reply = await post(server, path, body)
    assert reply.status in ((400, 422) if path.startswith("/v1/") else (422,)), reply.body
    text = reply.body.decode()
    assert field in text
    assert limit in text
    assert len(text) < 2000
    assert not [run for run in await journal.runs() if run.run != "s/:title"]


async def test_what_is_just_short_enough_is_taken(server: LiveServer) -> None:
    title, session = "t" * LONGEST_TITLE, "s" * LONGEST_NAME
    made = await post(server, f"{API}/sessions", {"title": title, "session": session})
    assert made.status == 201, made.body
    path = f"{API}/sessions/{session}"
    renamed = await post(server, path, {"title": LONG}, "PATCH")
    assert (renamed.status, renamed.json()["field"]) == (422, "title")
    began = await post(server, TURNS, turn(session=session, metadata={"a": "x" * 16_000}))
    assert began.status == 200, began.body
    listed = (await server.request("GET", f"{API}/sessions")).json()["sessions"]
    assert [(one["title"], one["session"]) for one in listed] == [(title, session)]  # type: ignore[index, attr-defined]
    full = {f"k{number}".ljust(64, "k"): "v" * 512 for number in range(16)}
    assert (await post(server, CHAT, chat(metadata=full))).status == 200


async def test_no_list_returns_the_long_title_of_an_import(
    server: LiveServer, journal: MemoryJournal
) -> None:
    await journal.append("ada/:title", SessionTitled("t1", 1.0, LONG))
    listed = await server.request("GET", f"{API}/sessions")
    assert len(listed.body) < 2000
    (one,) = listed.json()["sessions"]  # type: ignore[misc]
    assert one["title"] == "x" * (LONGEST_TITLE - 1) + "…"  # type: ignore[index]


async def test_the_library_has_the_same_limits() -> None:
    sessions = Agent(ScriptedModel("Hi."), journal=MemoryJournal()).sessions
    for attempt in (
        sessions.create(LONG),
        sessions.create("a", session=LONG),
        sessions.rename("ada", LONG),
        sessions.rename(LONG, "a"),
        Agent(ScriptedModel("Hi."), journal=MemoryJournal()).run("Hi.", session=LONG),
    ):
        with pytest.raises(ConfigurationError, match="characters of at most") as raised:
            await attempt
        assert len(str(raised.value)) < 500
    with pytest.raises(ConfigurationError, match="at most 250"):
        check_scope(f"tenant:{LONG}")
    with pytest.raises(ConfigurationError, match="at most 200"):
        make_key(LONG, scopes=("run",), now=0.0)


CONTENTS = {
    *("message", "text", "data", "url", "summary", "reason", "stop", "before", "after", "value"),
    *("metadata", "arguments", "output_schema"),
}
"""The fields that have contents, or marks that are not stored. The length of the body limits them."""


def has_length(kind: Any, *, is_limited: bool = False) -> bool:
    """Whether every text in a type has a limit of its length."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        lengths = [
            note.max_length or note.pattern for note in notes if isinstance(note, msgspec.Meta)
        ]
        return has_length(inner, is_limited=is_limited or any(lengths))
    if kind is str:
        return is_limited
    return all(has_length(one, is_limited=is_limited) for one in get_args(kind) if one is not ...)


@pytest.mark.parametrize(
    "kind",
    [
        one
        for one in vars(request_bodies).values()
        if isinstance(one, type)
        and issubclass(one, msgspec.Struct)
        and one.__module__ == request_bodies.__name__
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_field_of_a_request_has_a_limit_unless_it_has_contents(kind: type[Any]) -> None:
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        if get_origin(hints[name]) is not None and "Literal" in str(hints[name]):
            continue
        assert name in CONTENTS or has_length(hints[name]), name


# Schemas and tools of a request.

Schema = dict[str, Any]


LARGE: Schema = {"type": "object", "title": "a" * 300_000}
DEEP: Schema = {"type": "object"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
SLOW: Schema = {"type": "object", "properties": {"a": {"pattern": r"^(\w{99}){99}$"}}}
TURN: Schema = {"agent": "greeter", "message": "Hi", "wait": 10}
ASKED = [{"role": "user", "content": "Hi"}]
RUN: Schema = {
    "threadId": "ada",
    "runId": "1",
    "messages": [{"id": "1", "role": "user", "content": "Hi"}],
    "state": {},
    "context": [],
    "forwardedProps": {},
}
PAGE: Schema = {
    "id": "ada",
    "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
}


def bodies(schema: Schema, *, tools: bool) -> list[tuple[str, Schema, str]]:
    """Return the requests that bring a schema: the path, the body, and the field in the problem."""
    named = {"name": "a", "schema": schema}
    chat: Schema = {"model": "greeter", "messages": ASKED}
    response: Schema = {"model": "greeter", "input": "Hi"}
    outputs = [
        ("/api/v1/turns", {**TURN, "output_schema": schema}, "output_schema"),
        (
            "/v1/chat/completions",
            {**chat, "response_format": {"type": "json_schema", "json_schema": named}},
            "response_format.json_schema.schema",
        ),
        (
            "/v1/responses",
            {**response, "text": {"format": {"type": "json_schema", **named}}},
            "text.format.schema",
        ),
    ]
    function = {"name": "a", "parameters": schema}
    calls = [
        (
            "/v1/chat/completions",
            {**chat, "tools": [{"type": "function", "function": function}]},
            "tools[0].function.parameters",
        ),
        ("/v1/responses", {**response, "tools": [{"type": "function", **function}]}, "tools[0].parameters"),
        ("/agui/greeter", {**RUN, "tools": [{"description": "", **function}]}, "tools[0].parameters"),
        ("/vercel/greeter/chat", {**PAGE, "tools": [function]}, "tools[0]"),
    ]  # fmt: skip
    return [*outputs, *calls] if tools else outputs


async def test_each_protocol_names_the_field_of_a_large_schema_and_the_limit() -> None:
    model = ScriptedModel(*["{}"] * 20)
    cases = [(LARGE, " bytes", True), (DEEP, "64 levels", True), (SLOW, "is too large", False)]
    async with (
        serve_on_loop(create_app(Agent(model, name="greeter"))) as base,
        aiohttp.ClientSession() as http,
    ):
        for schema, limit, tools in cases:
            for path, body, field in bodies(schema, tools=tools):
                async with http.post(base + path, json=body) as answer:
                    status, text = answer.status, await answer.text()
                # OpenAI's clients know 400 for a request that is wrong.
                assert status == (400 if path.startswith("/v1") else 422), text
                assert field in text
                assert limit in text
                assert len(text) < 2000
    assert not model.requests


NO_SCHEMAS: list[tuple[Schema, tuple[str, str]]] = [
    ({"minimum": 5, "maximum": 3}, ("/properties/a/maximum: it is 3, below minimum, which is 5", "Correct one of them")),
    ({"enum": []}, ("/properties/a/enum: [] has no value, so nothing fits", "Name one value at least")),
    ({"$ref": "file:///etc/passwd"}, ("'file:///etc/passwd', which is outside of it, and is never fetched", "Put its target into $defs")),
    ({"$ref": "#/properties/a"}, ("/properties/a: refers to itself without an end", "Refer to it only from a property or an item")),
]  # fmt: skip
"""Schemas that are none; the problem and the fix."""


async def test_each_protocol_says_where_a_schema_is_none_and_how_to_correct_it() -> None:
    model = ScriptedModel(*["{}"] * 20)
    async with (
        serve_on_loop(create_app(Agent(model, name="greeter"))) as base,
        aiohttp.ClientSession() as http,
    ):
        for part, words in NO_SCHEMAS:
            schema: Schema = {"type": "object", "properties": {"a": part}}
            for path, body, field in bodies(schema, tools=True):
                async with http.post(base + path, json=body) as answer:
                    status, text = answer.status, await answer.text()
                assert status == (400 if path.startswith("/v1") else 422), text
                assert field in text
                assert all(part in text for part in words)
    assert not model.requests


async def test_each_protocol_names_the_tool_whose_arguments_cannot_be_checked() -> None:
    model = ScriptedModel(*["Hi."] * 20)
    backtracking: Schema = {"pattern": "^(?=a)b"}
    async with (
        serve_on_loop(create_app(Agent(model, name="greeter"))) as base,
        aiohttp.ClientSession() as http,
    ):
        for part, place in [
            ({"not": backtracking}, "/properties/a/not/pattern"),
            (backtracking, ""),
        ]:
            schema: Schema = {"type": "object", "properties": {"a": part}}
            for path, body, _ in bodies(schema, tools=True)[3:]:
                async with http.post(base + path, json=body) as answer:
                    status, text = answer.status, await answer.text()
                if place:
                    assert status == (400 if path.startswith("/v1") else 422), text
                    assert "tools.a.parameters" in text
                    assert place in text
                else:  # the caller's tool can check it
                    assert status == 200
    assert len(model.requests) == 4


async def test_each_protocol_refuses_10_000_levels() -> None:
    schema = '{"type": "object", "not":' * 10_000 + "{}" + "}" * 10_000
    app = create_app(Agent(ScriptedModel(), name="greeter"))
    kind = {"content-type": "application/json"}
    async with serve_on_loop(app) as base, aiohttp.ClientSession(headers=kind) as http:
        for path, body, _ in bodies({"here": 1}, tools=True):
            data = json.dumps(body).replace('{"here": 1}', schema)
            async with http.post(base + path, data=data) as answer:
                assert answer.status == 400
                assert "the body is nested too deeply" in await answer.text()


async def test_a_request_has_few_tools() -> None:
    tools = [{"name": f"t{at}", "description": "", "parameters": None} for at in range(129)]
    wrapped = [{"type": "function", "function": one} for one in tools]
    listed = [{"type": "function", **one} for one in tools]
    requests = [
        ("/v1/chat/completions", {"model": "greeter", "messages": ASKED, "tools": wrapped}),
        ("/v1/responses", {"model": "greeter", "input": "Hi", "tools": listed}),
        ("/agui/greeter", {**RUN, "tools": tools}),
    ]
    app = create_app(Agent(ScriptedModel(), name="greeter"))
    async with serve_on_loop(app) as base, aiohttp.ClientSession() as http:
        for path, body in requests:
            async with http.post(base + path, json=body) as answer:
                assert answer.status in (400, 422)
                assert "at most 128 are allowed" in await answer.text()
