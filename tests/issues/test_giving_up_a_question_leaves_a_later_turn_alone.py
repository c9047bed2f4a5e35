"""AG-UI: a question is given up that another reader has given up before, and whose session has gone on since."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.live_server import LiveServer, Reply, serve
from tests.server.protocols.chatting import make_agent

from holdfast import ToolCall
from holdfast.hosting.tenant_service import TenantService
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

BOOK = ToolCall("c1", "book", '{"nights": 2}')
LOOK = {"threadId": "ada", "runId": "1", "messages": []}


async def post(server: LiveServer, path: str, body: object) -> Reply:
    return await server.request("POST", path, json.dumps(body).encode())


async def send(server: LiveServer, text: str) -> None:
    """Send a message of a chat, whose id is its text."""
    part = {"type": "text", "text": text}
    message = {"id": text, "role": "user", "parts": [part]}
    await post(server, "/vercel/clerk/chat", {"id": "ada", "messages": [message]})


async def test_only_the_turn_of_the_question_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(make_agent(ScriptedModel(BOOK, BOOK)))
    async with serve(app) as server:
        await send(server, "Book.")
        turn: Any = (await server.request("GET", "/api/v1/sessions/ada/turns/1")).json()
        (question,) = turn["questions"]
        cancel = TenantService.cancel

        async def cancel_late(tenant: TenantService, session: str, **given: Any) -> None:
            monkeypatch.setattr(TenantService, "cancel", cancel)
            await post(server, "/vercel/clerk/chat/ada/stop", {})
            await send(server, "Book again.")
            await cancel(tenant, session, **given)

        monkeypatch.setattr(TenantService, "cancel", cancel_late)
        name = f"{question['key']}~{question['binding']}"
        entry = {"interruptId": name, "status": "cancelled"}
        told = await post(server, "/agui/clerk", {**LOOK, "resume": [entry]})
        assert told.status == 200
        turns = [await server.request("GET", f"/api/v1/sessions/ada/turns/{n}") for n in (1, 2)]
        assert [turn.json()["status"] for turn in turns] == ["cancelled", "waiting"]
