"""Titles, names and metadata have limits wherever they come in, and no list returns more than that."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from tests.server.live_server import LiveServer, Reply, serve

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
    (CHAT, chat(metadata={"a": LONG}), "metadata[...]", "512"),
    (CHAT, chat(metadata={LONG: "a"}), "metadata", "64"),
    (CHAT, chat(metadata={str(n): "a" for n in range(17)}), "metadata", "16"),
    (
        CHAT,
        chat(messages=[{"role": "user", "content": [{"type": "file", "file": FILE}]}]),
        "messages[0].content[0].file.filename",
        "255",
    ),
    (RESPONSES, respond(metadata={"a": LONG}), "metadata[...]", "512"),
    (RESPONSES, respond(metadata={LONG: "a"}), "metadata", "64"),
    (RESPONSES, respond(conversation=LONG), "conversation", "1000"),
    (RESPONSES, respond(conversation={"id": LONG}), "conversation", "1000"),
    ("/v1/conversations", {"metadata": {"a": LONG}}, "metadata[...]", "512"),
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
