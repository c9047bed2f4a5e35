"""A reader with the scope `read:redacted` sees what happened, and nothing of what was said."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.live_server import LiveServer, serve

from holdfast import Agent, ToolCall, ToolPermission, tool
from holdfast.events import CustomNotice
from holdfast.server import AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.server.access.redacted_reading import RedactedAnswer, redact_event, redact_view
from holdfast.testing import ScriptedModel
from holdfast.tools import ToolContext

SECRET = "Xanadu"


class Found(CustomNotice):
    name: str
    status: str


@tool(effect="read")
def look(place: str, context: ToolContext) -> dict[str, str]:
    """Look at a place."""
    context.emit(Found(name=SECRET, status=SECRET))
    return {SECRET: f"{place} is sunny", "name": SECRET, "status": SECRET}


@tool
def pay(euros: int, to: str) -> str:
    """Pay."""
    return f"paid to {to}"


CALLS = (
    ToolCall("c1", "look", json.dumps({"place": SECRET})),
    f"It is sunny in {SECRET}.",
    ToolCall("c2", "pay", json.dumps({"euros": 7, "to": SECRET})),
)


async def ask(server: LiveServer, method: str, path: str, key: str, body: object = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    return await server.request(method, path, data, authorization=key)


READ = (
    "/api/v1/agents",
    "/api/v1/sessions",
    "/api/v1/sessions/s",
    "/api/v1/sessions/s/history",
    "/api/v1/sessions/s/turns/1",
    "/api/v1/sessions/w",
    "/api/v1/sessions/w/history",
    "/api/v1/sessions/w/turns/1",
    "/api/v1/sessions/w/questions",
    "/api/v1/questions",
    "/api/v1/usage?by=agent",
    "/vercel/guide/chat/s",
)
STREAMED = (
    "/api/v1/sessions/s/events?until=turn_end",
    "/vercel/guide/chat/s/stream?ended=replay",
)


async def test_no_route_shows_a_redacted_reader_what_was_said() -> None:
    agent = Agent(
        ScriptedModel(*CALLS),
        name="guide",
        tools=[look, pay],
        middleware=[ToolPermission(ask=["pay"])],
    )
    app = create_app(agent, access=AccessOptions(auth="keys"))
    keys = {}
    for scope in ("admin", "read:redacted"):
        text, key = make_key(scope, scopes=(scope,), now=0.0)
        await app.state.access.keys.store.add_key(key)
        keys[scope] = f"Bearer {text}"
    async with serve(app) as server:
        for session, message in (("s", f"Look at {SECRET}."), ("w", f"Pay {SECRET}.")):
            turn = {
                "agent": "guide",
                "message": message,
                "session": session,
                "metadata": {SECRET: SECRET, "name": SECRET},
                "wait": 20,
            }
            started = await ask(server, "POST", "/api/v1/turns", keys["admin"], turn)
            assert started.status == 200, started.body
        exported = await ask(server, "GET", "/api/v1/sessions/s/export", keys["read:redacted"])
        assert exported.status == 403
        for word in (SECRET, "absent"):  # an answer would tell which words were said
            searched = await ask(server, "GET", f"/api/v1/sessions?q={word}", keys["read:redacted"])
            assert (searched.status, searched.json()["field"]) == (403, "q")
        shown = 0
        for path in (*READ, *STREAMED):
            whole = await ask(server, "GET", path, keys["admin"])
            assert whole.status == 200, (path, whole.body)
            shown += SECRET.encode() in whole.body
            redacted = await ask(server, "GET", path, keys["read:redacted"])
            assert redacted.status == 200, (path, redacted.body)
            assert SECRET.encode() not in redacted.body, (path, redacted.body)
            if path in READ:  # what there is, and how many, can still be seen
                assert shape_of(redacted.json()) == shape_of(whole.json()), path
        assert shown >= 8, "the test looks where nothing is"
        turn = (
            await ask(server, "GET", "/api/v1/sessions/s/turns/1", keys["read:redacted"])
        ).json()
        assert (turn["session"], turn["status"], turn["agent"]) == ("s", "completed", "guide")
        assert turn["usage"]
        new = {"agent": "guide", "message": "Hi"}
        refused = await ask(server, "POST", "/api/v1/turns", keys["read:redacted"], new)
        assert refused.status == 403


def shape_of(view: Any) -> Any:
    """The names of the fixed fields at the top, and the lengths of the lists in it."""
    if isinstance(view, list):
        return [shape_of(one) for one in view]
    return sorted(view) if isinstance(view, dict) else type(view).__name__


class Sent:
    """Collects what a redacted answer sends."""

    def __init__(self, kind: str) -> None:
        self.messages: list[Any] = []
        self.answer = RedactedAnswer(self._send)
        self._kind = kind

    async def _send(self, message: Any) -> None:
        self.messages.append(message)

    async def send(self, *pieces: bytes) -> tuple[int, bytes]:
        headers = [(b"content-type", self._kind.encode()), (b"content-length", b"9")]
        await self.answer.send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, piece in enumerate(pieces, 1):
            body = {"type": "http.response.body", "body": piece}
            await self.answer.send({**body, "more_body": number < len(pieces)})
        start, *rest = self.messages
        data = b"".join(message["body"] for message in rest)
        lengths = [value for name, value in start["headers"] if name == b"content-length"]
        assert lengths in ([], [str(len(data)).encode()])
        return start["status"], data


@pytest.mark.parametrize("kind", ["image/png", "application/x-ndjson", "text/plain", ""])
async def test_what_cannot_be_redacted_is_refused(kind: str) -> None:
    status, body = await Sent(kind).send(b"Xan", b"adu")
    assert status == 403
    assert b"Xan" not in body


async def test_an_answer_in_pieces_is_redacted_as_a_whole() -> None:
    sent = Sent("application/json; charset=utf-8")
    assert await sent.send(b'{"text":"Xan', b'adu","id":"a"}') == (
        200,
        b'{"text":"[redacted]","id":"a"}',
    )


async def test_an_empty_answer_stays_empty() -> None:
    assert await Sent("").send(b"") == (200, b"")


@given(cuts=st.lists(st.integers(0, 120), max_size=6))
async def test_a_stream_is_redacted_wherever_it_is_cut(cuts: list[int]) -> None:
    text = b'id: 1\nevent: text\ndata: {"type":"text","text":"Xanadu"}\n\n: still here\n\ndata: [DONE]\n\n'
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(places)]
    _, body = await Sent("text/event-stream").send(*pieces)
    assert body == text.replace(b"Xanadu", b"[redacted]")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=10,
)


@given(view=VALUES)
def test_a_text_in_a_field_that_is_not_known_is_removed(view: object) -> None:
    assert SECRET not in json.dumps(redact_view(view))


def test_an_event_that_is_no_json_is_removed() -> None:
    assert redact_event(b"data: Xanadu") == b"data: [redacted]"
