"""Every route of a service, what a request to it looks like, and the scope that it needs.

The routes are taken from the application. A route without a request here fails the tests that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from tests.server.serving import Answer
from yarl import URL

from holdfast import Agent, ToolPermission, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.port import Journal
from holdfast.server import AccessLimits, AccessOptions, create_app
from holdfast.server.access.budgets import Takes
from holdfast.server.access.keys import make_key
from holdfast.server.access.responses import FIXED_PATHS
from holdfast.server.api.routes import NativeApi
from holdfast.server.protocols.agui import routes as agui
from holdfast.server.protocols.protocol_names import make_name
from holdfast.server.protocols.vercel import routes as vercel
from holdfast.testing import ScriptedModel

NDJSON = "application/x-ndjson"
LOCATE = {"name": "locate", "parameters": {"type": "object", "properties": {}}}
USER = {"role": "user", "content": "locate WORD"}


class Trial(Struct, frozen=True, kw_only=True):
    """A request to a route.

    Args:
        path: its path; {names} are replaced by what was found at the beginning.
        body: its body; JSON unless it is a text.
        scope: what it needs; "" if anybody may send it.
        kind: the type of the body.
        accept: the type of answer that is asked for.
    """

    path: str
    body: Any = None
    scope: str = "read"
    kind: str = "application/json"
    accept: str = "application/json"


def _read(path: str) -> tuple[Trial, ...]:
    return (Trial(path=path),)


def _write(path: str, *bodies: Any, scope: str = "run") -> tuple[Trial, ...]:
    return tuple(Trial(path=path, body=body, scope=scope) for body in bodies or ({},))


def _open(path: str) -> tuple[Trial, ...]:
    return (Trial(path=path, scope=""),)


ADA = "/api/v1/sessions/ada"
_ANSWER = {"key": "{key}", "binding": "{binding}"}
_CALLED = {
    "role": "assistant",
    "tool_calls": [
        {"id": "{call}", "type": "function", "function": {"name": "locate", "arguments": "{}"}}
    ],
}
_RESULT = {"role": "tool", "tool_call_id": "{call}", "content": "here"}


def _ui_message(role: str, name: str, *parts: object) -> dict[str, object]:
    return {"id": name, "role": role, "parts": list(parts)}


def _run(messages: list[object], **fields: object) -> dict[str, object]:
    return {"threadId": "thread", "runId": "r", "messages": messages, **fields}


_APPROVAL = {
    "type": "tool-pay",
    "toolCallId": "c1",
    "state": "approval-responded",
    "input": {"amount": 3},
    "approval": {"id": "{question}", "approved": True},
}

TRIALS: Mapping[str, tuple[Trial, ...]] = {
    "GET /health": _open("/health"),
    "GET /ready": _open("/ready"),
    "GET /console": _open("/console"),
    "GET /console/": _open("/console/"),
    "GET /console/{version}/{name:path}": _open("/console/0/index.html"),
    "POST /console/sign-in": (Trial(path="/console/sign-in", body={"key": "hf_wrong"}, scope=""),),
    "GET /console/session": (Trial(path="/console/session", scope="any"),),
    "POST /console/sign-out": (Trial(path="/console/sign-out", body={}, scope="any"),),
    "GET /metrics": (Trial(path="/metrics", scope="admin", accept="*/*"),),
    "GET /api/v1/agents": _read("/api/v1/agents"),
    "GET /api/v1/endpoints": (Trial(path="/api/v1/endpoints", scope="admin"),),
    "GET /api/v1/openapi.json": _read("/api/v1/openapi.json"),
    "GET /api/v1/sessions": (
        Trial(path="/api/v1/sessions"),
        Trial(path="/api/v1/sessions?q=ALPHA"),
        Trial(path="/api/v1/sessions?status=waiting"),
        Trial(path="/api/v1/sessions?before=WzFlMTIsImFkYSJd"),  # [1e12, "ada"]
    ),
    "GET /api/v1/sessions/{session}": (
        Trial(path=ADA),
        Trial(path="/api/v1/sessions/{response_session}"),
    ),
    "PATCH /api/v1/sessions/{session}": _write(ADA, {"title": "Mine"}),
    "GET /api/v1/sessions/{session}/history": _read(f"{ADA}/history"),
    "GET /api/v1/sessions/{session}/export": (Trial(path=f"{ADA}/export", accept=NDJSON),),
    "GET /api/v1/sessions/{session}/turns/{turn}": (
        Trial(path=f"{ADA}/turns/1"),
        Trial(path=f"{ADA}/turns/1?wait=1"),
        Trial(path="/api/v1/sessions/{chat_session}/turns/1"),
    ),
    "GET /api/v1/sessions/{session}/events": (
        Trial(path=f"{ADA}/events"),
        Trial(path=f"{ADA}/events?after=2"),
        Trial(path="/api/v1/sessions/done/events?until=turn_end", accept="text/event-stream"),
    ),
    "GET /api/v1/sessions/{session}/questions": _read(f"{ADA}/questions"),
    "GET /api/v1/sessions/{session}/acts": _read(f"{ADA}/acts"),
    "GET /api/v1/questions": _read("/api/v1/questions"),
    "GET /api/v1/changes": (
        Trial(path="/api/v1/changes?seconds=0.01", accept="text/event-stream"),
    ),
    "GET /api/v1/usage": (
        Trial(path="/api/v1/usage?by=agent"),
        Trial(path="/api/v1/usage?by=model"),
    ),
    "GET /api/v1/media/{media}": (Trial(path="/api/v1/media/{media}", accept="*/*"),),
    "GET /v1/responses/{response}": (
        Trial(path="/v1/responses/{response}"),
        Trial(path="/v1/responses/{response}?stream=true", accept="text/event-stream"),
    ),
    "GET /v1/responses/{response}/input_items": _read("/v1/responses/{response}/input_items"),
    "GET /v1/conversations/{conversation}": _read("/v1/conversations/done"),
    "GET /v1/conversations/{conversation}/items": _read("/v1/conversations/done/items"),
    "GET /v1/conversations/{conversation}/items/{item}": _read(
        "/v1/conversations/done/items/{item}"
    ),
    "GET /v1/models": _read("/v1/models"),
    "GET /v1/models/{model}": _read("/v1/models/clerk"),
    "GET /vercel/{agent}/chat/{session}": _read("/vercel/clerk/chat/chat"),
    "GET /vercel/{agent}/chat/{session}/stream": (
        Trial(path="/vercel/clerk/chat/chat/stream"),
        Trial(path="/vercel/clerk/chat/chat/stream?ended=replay"),
    ),
    "GET /api/v1/queue": _read("/api/v1/queue"),
    "GET /api/v1/queue/entries": (
        Trial(path="/api/v1/queue/entries"),
        Trial(path="/api/v1/queue/entries?session=ada&state=ready"),
    ),
    "GET /api/v1/queue/entries/{entry}": _read("/api/v1/queue/entries/{entry}"),
    "GET /api/v1/workers": (Trial(path="/api/v1/workers", scope="admin"),),
    "GET /api/v1/schedules": _read("/api/v1/schedules"),
    "GET /api/v1/schedules/{schedule}/history": _read("/api/v1/schedules/daily/history"),
    # What follows changes something; what deletes comes last.
    "POST /api/v1/queue/entries/{entry}/drop": _write("/api/v1/queue/entries/{entry}/drop"),
    "POST /api/v1/queue/entries/{entry}/retry": _write("/api/v1/queue/entries/{entry}/retry"),
    "POST /api/v1/queue/entries/{entry}/cancel": _write("/api/v1/queue/entries/{entry}/cancel"),
    "POST /api/v1/queue/pause": _write("/api/v1/queue/pause", scope="admin"),
    "POST /api/v1/queue/drain": _write("/api/v1/queue/drain", scope="admin"),
    "POST /api/v1/queue/resume": _write("/api/v1/queue/resume", scope="admin"),
    "POST /api/v1/schedules": _write(
        "/api/v1/schedules",
        {"name": "report", "agent": "clerk", "message": "hello", "every": 3600},
        {"name": "report", "agent": "clerk", "message": "hello"},
    ),
    "POST /api/v1/schedules/{schedule}/pause": _write("/api/v1/schedules/daily/pause"),
    "POST /api/v1/schedules/{schedule}/resume": _write("/api/v1/schedules/daily/resume"),
    "POST /api/v1/schedules/{schedule}/run": _write("/api/v1/schedules/daily/run"),
    "POST /api/v1/sessions/{session}/fork": _write(
        f"{ADA}/fork", {"to": "copy"}, {"to": "copy2", "edit": {"turn": 1, "message": "hi"}}
    ),
    "POST /api/v1/turns": _write(
        "/api/v1/turns",
        {"agent": "clerk", "message": "hello", "session": "done", "wait": 10},
        {"agent": "clerk", "message": "hello", "session": "ada", "wait": 10},
        {
            "agent": "clerk",
            "message": [{"type": "media", "media": "{media}"}],
            "session": "seen",
            "wait": 10,
        },
    ),
    "POST /api/v1/sessions": _write(
        "/api/v1/sessions", {"title": "New", "session": "new"}, {"title": "New", "session": "ada"}
    ),
    "POST /api/v1/sessions/import": (
        Trial(
            path="/api/v1/sessions/import?session=moved",
            body="{export}",
            scope="import",
            kind=NDJSON,
        ),
        Trial(path="/api/v1/sessions/import?session=i", body="{}", scope="import", kind=NDJSON),
    ),
    "POST /api/v1/media": (
        Trial(path="/api/v1/media", body="ALPHA's picture", scope="run", kind="image/png"),
    ),
    "POST /api/v1/sessions/{session}/rewind": (
        *_write(f"{ADA}/rewind", {"to": 0}, {"to": 1}, {"to": 99}),
        *_write("/api/v1/sessions/done/rewind", {"to": 1}),
    ),
    "POST /api/v1/sessions/{session}/compact": _write(
        "/api/v1/sessions/done/compact", {"keep": 0}, {"keep": 0, "summary": "s"}
    ),
    "POST /api/v1/sessions/{session}/answers": _write(
        f"{ADA}/answers",
        {**_ANSWER, "answer": "deny"},
        {**_ANSWER, "answer": "approve", "arguments": {"amount": 1}},
        scope="answer",
    ),
    "POST /api/v1/sessions/{session}/resume": _write(f"{ADA}/resume"),
    "POST /api/v1/sessions/{session}/cancel": _write(f"{ADA}/cancel"),
    "POST /api/v1/sessions/{session}/abandon": _write(f"{ADA}/abandon"),
    "POST /v1/conversations": _write("/v1/conversations"),
    "POST /v1/conversations/{conversation}": _write("/v1/conversations/done", {"metadata": {}}),
    "POST /v1/conversations/{conversation}/items": _write("/v1/conversations/done/items"),
    "POST /v1/chat/completions": _write(
        "/v1/chat/completions",
        {"model": "clerk", "messages": [{"role": "user", "content": "hello"}]},
        {
            "model": "clerk",
            "messages": [USER, _CALLED, _RESULT],
            "tools": [{"type": "function", "function": LOCATE}],
        },
    ),
    "POST /v1/responses": _write(
        "/v1/responses",
        {"model": "clerk", "input": "hello"},
        {"model": "clerk", "input": "hello", "previous_response_id": "{response}"},
        {"model": "clerk", "input": "hello", "conversation": "done"},
        {
            "model": "clerk",
            "input": [{"type": "function_call_output", "call_id": "{call}", "output": "here"}],
        },
    ),
    "POST /v1/responses/compact": _write("/v1/responses/compact"),
    "POST /v1/responses/{response}/cancel": _write("/v1/responses/{response}/cancel"),
    "POST /vercel/{agent}/chat": (
        Trial(
            path="/vercel/clerk/chat",
            body={
                "id": "chat",
                "messages": [_ui_message("assistant", "{vercel_message}", _APPROVAL)],
            },
            scope="answer read",
            accept="text/event-stream",
        ),
        Trial(
            path="/vercel/clerk/chat",
            body={
                "id": "chat",
                "messages": [_ui_message("user", "m1", {"type": "text", "text": "hello"})],
            },
            scope="run",
            accept="text/event-stream",
        ),
    ),
    "POST /vercel/{agent}/chat/{session}/stop": _write("/vercel/clerk/chat/chat/stop"),
    "POST /agui/{agent}": (
        Trial(path="/agui/clerk", body=_run([]), accept="text/event-stream"),
        Trial(
            path="/agui/clerk",
            body=_run(
                [],
                resume=[
                    {
                        "interruptId": "{question}",
                        "status": "resolved",
                        "payload": {"approved": True},
                    }
                ],
            ),
            scope="answer read",
            accept="text/event-stream",
        ),
        Trial(
            path="/agui/clerk",
            body=_run([{"id": "u1", "role": "user", "content": "hello"}]),
            scope="run",
            accept="text/event-stream",
        ),
    ),
    "DELETE /v1/conversations/{conversation}": _write("/v1/conversations/seen", None),
    "DELETE /v1/responses/{response}": _write("/v1/responses/{response}", None),
    "DELETE /api/v1/schedules/{schedule}": _write("/api/v1/schedules/daily", None),
    "DELETE /api/v1/sessions/{session}": _write(ADA, None),
}
"""A request or several to each route."""


def list_routes(app: Starlette) -> Iterator[str]:
    """Yield the method and path of every route of a service. Raises TypeError for one of a new kind."""
    for path in FIXED_PATHS:
        yield f"{'POST' if path.startswith('/console/sign') else 'GET'} {path}"
    for route in app.routes:
        if isinstance(route, Mount):
            for method, path in list_mounted(route):
                yield f"{method} {route.path}{path}"
        else:
            assert isinstance(route, Route)
            yield f"GET {route.path}"


def list_mounted(mount: Mount) -> Iterator[tuple[str, str]]:
    """Yield the methods and paths below one path. Raises TypeError for a new kind of routes."""
    tables = {"/vercel": vercel.ROUTES, "/agui": agui.ROUTES}
    if isinstance(mount.app, NativeApi):
        yield from ((one.method, one.path) for one in mount.app.operations)
    elif mount.path in tables:
        yield from tables[mount.path]
    elif mount.path == "/console":
        yield from (("GET", inner.path) for inner in mount.routes if isinstance(inner, Route))
    else:
        raise TypeError(f"{mount!r} is of a kind that nobody here knows")


def list_takes(app: Starlette) -> dict[str, Takes]:
    """Return the budgets that each route of a service declares."""
    found: dict[str, Takes] = {}
    for route in app.routes:
        if isinstance(route, Mount) and isinstance(route.app, NativeApi):
            for one in route.app.operations:
                found[f"{one.method} {route.path}{one.path}"] = one.takes
    for prefix, table in (("/vercel", vercel.ROUTES), ("/agui", agui.ROUTES)):
        for (method, path), entry in table.items():
            found[f"{method} {prefix}{path}"] = entry.takes
    for name in set(list_routes(app)) - set(found):
        path = name.partition(" ")[2]
        # The files of the console are sent to anybody.
        found[name] = FIXED_PATHS.get(path, ("connections",) if "/console" in path else ())
    return found


def list_trials(app: Starlette) -> Iterator[tuple[str, Trial]]:
    """Yield the requests to the routes that a service has."""
    routes = set(list_routes(app))
    for route, trials in TRIALS.items():
        for trial in trials if route in routes else ():
            yield route, trial


def answer_message(request: ModelRequest) -> Reply | str:
    """Ask for a payment or the caller's tool if the message says so; otherwise repeat it."""
    last = request.messages[-1]
    if last.role == "user" and last.text.startswith("pay"):
        return Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    if last.role == "user" and last.text.startswith("locate"):
        return Reply((ToolCall("c1", "locate", "{}"),))
    return f"You said {last.text}."


def make_clerk() -> Agent[Any, Any]:
    """Return an agent that asks before it pays."""

    @tool(effect="write")
    async def pay(amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    model = ScriptedModel(*[answer_message] * 1000)
    return Agent(
        model,
        name="clerk",
        tools=[pay],
        middleware=[ToolPermission(allow=["locate*"], ask=["pay"])],
    )


def make_protected_app(journal: Journal | None = None) -> Starlette:
    """Return a service of the clerk that demands keys."""
    limits = AccessLimits(turns_per_minute=10_000, failed_tries=10_000)
    access = AccessOptions(auth="keys", limits=limits)
    return create_app(make_clerk(), journal=journal, access=access)


class Caller:
    """Somebody with a key of a tenant.

    Args:
        base: the address of the service.
        key: the key; "" for none.
    """

    def __init__(self, base: str, key: str = "") -> None:
        self._base = base
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = aiohttp.ClientSession(headers=headers)
        self.found: dict[str, str] = {}

    @classmethod
    async def make(cls, app: Starlette, base: str, tenant: str, *scopes: str) -> Caller:
        """Return somebody with a new key."""
        text, key = make_key("ci", scopes=scopes, now=0.0, tenant=tenant)
        await app.state.access.keys.store.add_key(key)
        return cls(base, text)

    async def send(
        self, method: str, trial: Trial, found: Mapping[str, str], **headers: str
    ) -> Answer:
        """Send a request in which names are replaced by what was found."""
        data = None
        if trial.body is not None:
            is_text = isinstance(trial.body, str)
            data = trial.body.encode() if is_text else msgspec.json.encode(trial.body)
            for name, value in found.items():
                written = value if is_text else msgspec.json.encode(value).decode()[1:-1]
                data = data.replace(f"{{{name}}}".encode(), written.encode())
            headers["Content-Type"] = trial.kind
        path = trial.path
        for name, value in found.items():
            path = path.replace(f"{{{name}}}", value)
        headers["Accept"] = trial.accept
        url = URL(self._base + path, encoded=True)
        async with self.http.request(
            method, url, data=data, headers=headers, allow_redirects=False
        ) as response:
            got = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, got, await response.read())

    async def post(self, path: str, body: object, **headers: str) -> Answer:
        """Send a body as it is, and return the answer to it, which is not a refusal."""
        answer = await self.send("POST", Trial(path=path, body=body), {}, **headers)
        assert answer.status < 300, (path, answer.body)
        return answer

    async def build_world(self, word: str) -> dict[str, str]:
        """Make a session of each kind with a word in it; return the ids of what was made."""
        key = {"Idempotency-Key": "once"}
        turn = {"agent": "clerk", "message": f"pay {word}", "session": "ada", "wait": 20}
        (asked,) = (await self.post("/api/v1/turns", turn, **key)).json["questions"]
        turn = {"agent": "clerk", "message": f"hello {word}", "session": "done", "wait": 20}
        await self.post("/api/v1/turns", turn)
        response = (
            await self.post("/v1/responses", {"model": "clerk", "input": f"hello {word}"}, **key)
        ).json
        messages = [{**USER, "content": f"locate {word}"}]
        tools = [{"type": "function", "function": LOCATE}]
        chat = (
            await self.post(
                "/v1/chat/completions",
                {"model": "clerk", "messages": messages, "tools": tools},
                **key,
            )
        ).json
        part = {"type": "text", "text": f"pay {word}"}
        await self.post(
            "/vercel/clerk/chat", {"id": "chat", "messages": [_ui_message("user", "m1", part)]}
        )
        await self.post(
            "/agui/clerk", _run([{"id": "u1", "role": "user", "content": f"pay {word}"}])
        )
        found = {
            "key": asked["key"],
            "binding": asked["binding"],
            "question": f"{asked['key']}~{asked['binding']}",
            "response": response["id"],
            "call": chat["choices"][0]["message"]["tool_calls"][0]["id"],
            "item": make_name("msg_", "done", "t1.input.0"),
            "vercel_message": "chat.t1",
            "media": "m_0123456789abcdef",
            "entry": str(await self.queue_turn()),
            "export": "{}",
        }
        sessions = await self.send("GET", Trial(path="/api/v1/sessions"), {})
        named = [one["session"] for one in sessions.json["sessions"]]
        random = [name for name in reversed(named) if len(name) == 32]
        found["response_session"], found["chat_session"] = random[0], random[1]
        media = await self.send(
            "POST",
            Trial(path="/api/v1/media", body=f"{word}'s picture", kind="image/png"),
            {},
        )
        if media.status == 201:
            found["media"] = media.json["media"]
        exported = await self.send("GET", TRIALS["GET /api/v1/sessions/{session}/export"][0], {})
        if exported.status == 200:
            found["export"] = exported.body.decode()
        return found

    async def queue_turn(self) -> int:
        """Put a turn into the queue by a schedule; return its number there, which no tenant shares."""
        path, schedule = "/api/v1/schedules", {"name": "daily", "agent": "clerk", "every": 86_400}
        await self.post(path, {**schedule, "message": "hello"})
        entry: int = (await self.post(f"{path}/daily/run", {})).json["entry"]
        return entry

    async def close(self) -> None:
        """Close its connections."""
        await self.http.close()
