"""The metrics had a line for each chat of a page, with the name of its session."""

from __future__ import annotations

from tests.server.live_server import serve

from holdfast import Agent
from holdfast.server import create_app
from holdfast.testing import ScriptedModel


async def test_metrics_name_no_session_of_a_chat() -> None:
    app = create_app(Agent(ScriptedModel("Hi."), name="greeter"))
    async with serve(app) as server:
        for name in ("ada-lovelace", "grace-hopper"):
            await server.request("GET", f"/vercel/greeter/chat/{name}")
            await server.request("GET", f"/vercel/greeter/chat/{name}/stream")
        metrics = (await server.request("GET", "/metrics")).body.decode()
    assert "ada-lovelace" not in metrics
    assert 'route="/vercel/{agent}/chat/{session}/stream"' in metrics
