"""Every protocol lets only those start turns and read who may, and counts what they do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.applications import Starlette
from tests.server.live_server import LiveServer, Reply, serve

from holdfast import Agent, ClarificationQuestion, ToolCall, ToolContext, ToolPermission, tool
from holdfast.server import AccessLimits, AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import ScriptedModel

TEXT = "Tell me a joke."
STARTS: Mapping[str, tuple[str, object]] = {
    "native": ("/api/v1/turns", {"agent": "greeter", "message": TEXT, "wait": 10}),
    "responses": ("/v1/responses", {"model": "greeter", "input": TEXT}),
    "chat": (
        "/v1/chat/completions",
        {"model": "greeter", "messages": [{"role": "user", "content": TEXT}]},
    ),
    "vercel": (
        "/vercel/greeter/chat",
        {
            "id": "chat-ID",
            "trigger": "submit-message",
            "messages": [{"id": "m-ID", "role": "user", "parts": [{"type": "text", "text": TEXT}]}],
        },
    ),
    "agui": (
        "/agui/greeter",
        {
            "threadId": "thread-ID",
            "runId": "run-ID",
            "state": {},
            "messages": [{"id": "m-ID", "role": "user", "content": TEXT}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
    ),
}
"""How each protocol starts a turn. ID is replaced by something new in each request."""


class Callers:
    """Keys of one service, and requests with them."""

    def __init__(self, app: Starlette, server: LiveServer) -> None:
        self._store = app.state.access.keys.store
        self._server = server
        self._count = 0

    async def make_key(self, *scopes: str, tenant: str = "acme") -> str:
        text, key = make_key("ci", scopes=scopes, now=0.0, tenant=tenant)
        await self._store.add_key(key)
        return f"Bearer {text}"

    async def start(self, protocol: str, key: str) -> Reply:
        self._count += 1
        path, body = STARTS[protocol]
        text = json.dumps(body).replace("ID", str(self._count))
        return await self._server.request("POST", path, text.encode(), authorization=key)

    async def list_sessions(self, key: str) -> list[Any]:
        reply = await self._server.request("GET", "/api/v1/sessions", authorization=key)
        sessions = reply.json()["sessions"]
        assert isinstance(sessions, list)
        return sessions


def make_app(**limits: int) -> Starlette:
    agent = Agent(ScriptedModel(*["Ha."] * 20), name="greeter")
    return create_app(agent, access=AccessOptions(auth="keys", limits=AccessLimits(**limits)))


@pytest.mark.parametrize("protocol", STARTS)
async def test_a_turn_needs_a_key_with_its_scope(protocol: str) -> None:
    app = make_app()
    async with serve(app) as server:
        callers = Callers(app, server)
        reader, runner = await callers.make_key("read"), await callers.make_key("run", "read")
        assert (await callers.start(protocol, "")).status == 401
        assert (await callers.start(protocol, reader)).status == 403
        assert await callers.list_sessions(reader) == []
        started = await callers.start(protocol, runner)
        assert started.status == 200, started.body


@pytest.mark.parametrize("protocol", STARTS)
async def test_a_turn_belongs_to_the_tenant_of_the_key(protocol: str) -> None:
    app = make_app()
    async with serve(app) as server:
        callers = Callers(app, server)
        runner = await callers.make_key("run", "read")
        assert (await callers.start(protocol, runner)).status == 200
        assert len(await callers.list_sessions(runner)) == 1
        for tenant in ("", "other"):
            assert await callers.list_sessions(await callers.make_key("admin", tenant=tenant)) == []


@pytest.mark.parametrize("protocol", STARTS)
async def test_the_turns_of_a_key_are_counted(protocol: str) -> None:
    app = make_app(turns_per_minute=2)
    async with serve(app) as server:
        callers = Callers(app, server)
        runner, other = await callers.make_key("run", "read"), await callers.make_key("run", "read")
        statuses = [(await callers.start(protocol, runner)).status for _ in range(3)]
        assert statuses == [200, 200, 429]
        refused = await callers.start(protocol, runner)
        assert 1 <= int(refused.header("retry-after")) <= 30
        assert (await callers.start(protocol, other)).status == 200


async def test_the_turns_that_a_key_takes_from_a_schedule_are_counted() -> None:
    async with serve(app := make_app(turns_per_minute=3)) as server:
        runner = await Callers(app, server).make_key("run")
        schedule = {"name": "report", "agent": "greeter", "message": "Hi.", "every": 3600}
        await ask(server, runner, "/api/v1/schedules", schedule)  # takes one too
        path = "/api/v1/schedules/report/run"
        told = [await server.request("POST", path, b"{}", authorization=runner) for _ in range(3)]
        assert [one.status for one in told] == [202, 202, 429]


async def ask(server: LiveServer, key: str, path: str, body: object = None) -> Any:
    method, data = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    accept = "application/json"
    reply = await server.request(method, path, data, authorization=key, accept=accept)
    assert reply.status < 300, (path, reply.body)
    return json.loads(reply.body) if reply.body.startswith((b"{", b"[")) else None


@pytest.mark.parametrize("protocol", STARTS)
async def test_the_journal_says_who_began_and_who_cancelled_a_turn(protocol: str) -> None:
    @tool
    async def place(context: ToolContext) -> str:
        """Ask where."""
        return await context.ask(ClarificationQuestion(question="Where?"))

    agent = Agent(ScriptedModel(ToolCall("c1", "place", "{}")), name="greeter", tools=[place])
    app = create_app(agent, access=AccessOptions(auth="keys"))
    async with serve(app) as server:
        callers = Callers(app, server)
        runner = await callers.make_key("run", "read", "answer")
        started = await callers.start(protocol, runner)
        (session,) = await callers.list_sessions(runner)
        name = session["session"]
        assert session["turn_status"] == "waiting"
        if protocol == "vercel":
            await ask(server, runner, f"/vercel/greeter/chat/{name}/stop", {})
        elif protocol == "agui":
            (question,) = await ask(server, runner, f"/api/v1/sessions/{name}/questions")
            asked = f"{question['key']}~{question['binding']}"
            entry = {"interruptId": asked, "status": "cancelled"}
            run = json.loads(json.dumps(STARTS["agui"][1]).replace("ID", "1"))
            await ask(server, runner, "/agui/greeter", {**run, "messages": [], "resume": [entry]})
        elif protocol == "responses":
            response = started.json()["id"]
            await ask(server, runner, f"/v1/responses/{response}/cancel", {})
        else:  # Chat has no word for it
            await ask(server, runner, f"/api/v1/sessions/{name}/cancel", {})
        saved = await ask(server, runner, f"/api/v1/sessions/{name}/events")
        events = {one["event"]["type"]: one["event"] for one in saved["items"] if "event" in one}
        assert events["turn_opened"]["options"]["by"] == "ci"
        assert events["turn_interrupted"]["by"] == "ci"


async def test_an_approval_needs_the_right_to_answer_in_every_protocol() -> None:
    @tool
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    calls = [ToolCall(f"c{number}", "pay", '{"euros": 1}') for number in range(5)]
    agent = Agent(
        ScriptedModel(*calls), name="greeter", tools=[pay], middleware=[ToolPermission(ask=["pay"])]
    )
    app = create_app(agent, access=AccessOptions(auth="keys"))
    async with serve(app) as server:
        callers = Callers(app, server)
        runner = await callers.make_key("run", "read")
        path, body = "/v1/responses", {"model": "greeter", "input": TEXT}
        asked = await server.request("POST", path, json.dumps(body).encode(), authorization=runner)
        assert asked.status == 200, asked.body
        output = asked.json()["output"]
        assert isinstance(output, list)
        (request,) = [one for one in output if one["type"] == "mcp_approval_request"]
        answer = {
            "type": "mcp_approval_response",
            "approval_request_id": request["id"],
            "approve": True,
        }
        body = {"model": "greeter", "previous_response_id": asked.json()["id"], "input": [answer]}
        text = json.dumps(body).encode()
        refused = await server.request("POST", path, text, authorization=runner)
        assert refused.status == 403, refused.body
        reader = await callers.make_key("read")
        inbox = await server.request("GET", "/api/v1/questions", authorization=reader)
        (question,) = json.loads(inbox.body)["questions"]
        session = question["session"]
        native = {"key": question["key"], "binding": question["binding"], "answer": "approve"}
        answers = (f"/api/v1/sessions/{session}/answers", json.dumps(native).encode())
        for key in (reader, runner):
            refused = await server.request("POST", *answers, authorization=key)
            assert refused.status == 403, refused.body
