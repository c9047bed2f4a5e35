"""A reader with the scope `read:redacted` sees what happened, and nothing of what was said."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.live_server import LiveServer, serve

from holdfast import Agent, ToolCall, ToolPermission, tool
from holdfast.core.events import Event
from holdfast.core.notices import CustomNotice, Notice
from holdfast.event_log.stream_items import StreamItem
from holdfast.event_log.text_fold import notice_name
from holdfast.server import AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.server.access.redacted_reading import (
    _NAMES,
    MARK,
    RedactedAnswer,
    redact_event,
    redact_view,
)
from holdfast.server.api import queue_views as queue_views_module
from holdfast.server.api import views as views_module
from holdfast.testing import ScriptedModel
from holdfast.tools import ToolContext

SECRET = "Xanadu"


class Found(CustomNotice):
    name: str
    status: str
    count: int


NUMBER = 4242


@tool(effect="read")
def look(place: str, turn: int, context: ToolContext) -> dict[str, object]:
    """Look at a place."""
    context.emit(Found(name=SECRET, status=SECRET, count=NUMBER))
    return {SECRET: f"{place} is sunny", "name": SECRET, "status": SECRET, "count": NUMBER}


@tool
def pay(euros: int, to: str) -> str:
    """Pay."""
    return f"paid to {to}"


CALLS = (
    ToolCall("c1", "look", json.dumps({"place": SECRET, "turn": NUMBER})),
    f"It is sunny in {SECRET}.",
    ToolCall("c2", "pay", json.dumps({"euros": NUMBER, "to": SECRET})),
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
                "metadata": {SECRET: SECRET, "name": SECRET, "count": NUMBER},
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
            assert str(NUMBER).encode() not in redacted.body, (path, redacted.body)
            if path in READ:  # what there is, and how many, can still be seen
                assert shape_of(redacted.json()) == shape_of(whole.json()), path
        assert shown >= 8, "the test looks where nothing is"
        turn = (
            await ask(server, "GET", "/api/v1/sessions/s/turns/1", keys["read:redacted"])
        ).json()
        assert (turn["session"], turn["status"], turn["agent"]) == ("s", "completed", "guide")
        assert turn["usage"]
        path = "/api/v1/sessions/w/questions"
        (question,) = (await ask(server, "GET", path, keys["read:redacted"])).json()
        assert question["question"] == {"tool": "pay"}
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


def test_the_reason_of_an_end_is_shown_unless_it_is_words() -> None:
    for reason in ("deleted", "turn_ended", "time_over"):
        assert redact_view({"type": "end", "reason": reason}) == {"type": "end", "reason": reason}
    for view in ({"type": "end", "reason": "Ada left"}, {"type": "stop", "reason": "deleted"}):
        assert redact_view(view)["reason"] == MARK
    assert redact_view({"type": "end", "reason": ["deleted"]})["reason"] == [MARK]


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


SHOWN = 7
"""What stands in every field of a number that is no content."""

CONTENT: Any = {"a": SECRET, "at": NUMBER, "turn": True, "name": SECRET, "usage": {"input": NUMBER}}
"""What stands in every field that may have any form."""

SCALARS: tuple[Any, ...] = (NUMBER, NUMBER / 8, True, SECRET, [NUMBER, True], CONTENT, [CONTENT])


def make_forms(kind: Any, content: Any, seen: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield values of a type as JSON, one for each type in a union.

    Args:
        kind: the type.
        content: stands where any JSON may stand.
        seen: the types around it.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None:
        yield from make_plain_forms(kind, content, seen)
    elif origin in (Union, UnionType):
        for one in arguments:
            yield from make_forms(one, content, seen)
    elif origin is Annotated:
        yield from make_forms(arguments[0], content, seen)
    elif origin is Literal:
        yield arguments[0]
    elif origin in (dict, Mapping):
        yield from ({SECRET: form} for form in make_forms(arguments[1], content, seen))
    else:
        kinds = [one for one in arguments if one is not ...]
        yield [form for one in kinds for form in make_forms(one, content, seen)]


def make_plain_forms(kind: Any, content: Any, seen: tuple[Any, ...]) -> Iterator[Any]:
    if kind in (Any, object):
        yield content
    elif kind is bool:
        yield False
    elif kind in (int, float):
        yield SHOWN
    elif issubclass(kind, Enum):
        yield next(iter(kind)).value
    elif issubclass(kind, msgspec.Struct):
        if kind not in seen:
            yield from make_objects(kind, content, (*seen, kind))
    elif kind not in (type(None), msgspec.UnsetType):
        yield SECRET


def make_objects(
    kind: type[msgspec.Struct], content: Any, seen: tuple[Any, ...]
) -> Iterator[dict[str, Any]]:
    """Yield objects of a type as JSON, so that each field has each of its forms in one of them."""
    hints = get_type_hints(kind, include_extras=True)
    forms = {
        name: list(make_forms(hints[name], content, seen)) or [None]
        for name in kind.__struct_fields__
    }
    tag = {"type": kind.__struct_config__.tag} if kind.__struct_config__.tag else {}
    for number in range(max(map(len, forms.values()), default=0)):
        yield {**tag, **{name: values[number % len(values)] for name, values in forms.items()}}


def list_kinds() -> list[type[msgspec.Struct]]:
    unions = (Event, Notice, StreamItem)
    listed = [one for union in unions for one in get_args(union)]
    listed += [
        one
        for module in (views_module, queue_views_module)
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, msgspec.Struct)
        and one.__module__ == module.__name__
    ]
    return sorted({*listed} - {CustomNotice}, key=lambda one: one.__name__)


def find_texts(view: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(view, dict):
        for field, value in view.items():
            yield field, field
            yield from find_texts(value, field)
    elif isinstance(view, list):
        for one in view:
            yield from find_texts(one, name)
    elif isinstance(view, str):
        yield name, view


@pytest.mark.slow  # takes half a second or more
def test_no_event_notice_or_view_shows_contents_of_any_type() -> None:
    for kind, content in itertools.product(list_kinds(), SCALARS):
        for view in make_objects(kind, content, (kind,)):
            for whole in (view, {"type": "event", "event": view}, [view]):
                redacted = redact_view(whole)
                text = json.dumps(redacted)
                assert str(NUMBER) not in text, kind
                assert str(NUMBER / 8) not in text, kind
                assert "true" not in text, kind
                shown = {name for name, found in find_texts(redacted) if SECRET in found}
                assert shown <= _NAMES, kind


def test_numbers_that_are_no_contents_are_shown() -> None:
    for kind in list_kinds():
        hints = get_type_hints(kind)
        for view in make_objects(kind, None, (kind,)):
            redacted = redact_view(view)
            for name, value in view.items():
                if name == "fields" or not isinstance(value, bool | int) or name not in hints:
                    continue
                advice = "add it to _NUMBERS, if it has no contents"
                assert redacted[name] == value, (kind, name, advice)


@pytest.mark.parametrize("kind", get_args(Notice), ids=lambda kind: kind.__name__)
def test_no_notice_of_a_stream_shows_contents(kind: type[Any]) -> None:
    for content in SCALARS:
        for fields in make_objects(kind, content, (kind,)):
            item = {"type": "notice", "name": notice_name(kind), "fields": fields}
            text = json.dumps(redact_view(item))
            assert str(NUMBER) not in text
            assert "true" not in text


@pytest.mark.parametrize("name", ["arguments", "result", "output", "delta", "metadata", "answer"])
def test_contents_are_hidden_by_the_name_of_their_field(name: str) -> None:
    for content in SCALARS:
        text = json.dumps(redact_view({"usage": {"input": 5}, "parts": [{name: content}]}))
        assert not {str(NUMBER), str(NUMBER / 8), "true", SECRET} & set(re.findall(r"[\w.]+", text))
        assert '"input": 5' in text


def test_of_a_question_for_permission_the_tool_is_shown() -> None:
    question = {"tool": "pay", "arguments": {"euros": NUMBER}, "description": SECRET}
    view = {"kind": "PermissionQuestion", "question": question}
    assert redact_view(view) == {"kind": "PermissionQuestion", "question": {"tool": "pay"}}
    other = redact_view({"kind": "Vote", "question": question})
    assert other["question"] == {}


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
