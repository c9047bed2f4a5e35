"""A small HTTP server on loopback, which records what it gets and answers as a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from holdfast import Agent
from holdfast.core.messages import Media, ToolCall, ToolResult
from holdfast.openapi import OpenAPIOptions, OpenAPIToolset
from holdfast.testing import FakeClock, ScriptedModel

Answer = web.Response | Callable[[web.Request], web.Response | Awaitable[web.Response]]


class ApiServer:
    """The server; `answers` are used one after the other, and the last one remains."""

    def __init__(self) -> None:
        self.base_url = ""
        self.answers: list[Answer] = [web.json_response({"ok": True})]
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.method, request.raw_path, headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.Response):
            # A response is sent once; a copy may be sent again.
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        found = answer(request)
        return found if isinstance(found, web.StreamResponse) else await found


@asynccontextmanager
async def serve_api(*answers: Answer) -> AsyncIterator[ApiServer]:
    """Serve, and yield the server."""
    server = ApiServer()
    if answers:
        server.answers = list(answers)
    runner = web.ServerRunner(web.Server(server.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def document_of(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a document with these paths."""
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths, **more}


def make_toolset(document: Any, **keywords: Any) -> OpenAPIToolset:
    """Make a toolset; the keywords may be fields of `OpenAPIOptions`, too."""
    fields = OpenAPIOptions.__struct_fields__
    options = {name: keywords.pop(name) for name in list(keywords) if name in fields}
    return OpenAPIToolset.from_file(document, options=OpenAPIOptions(**options), **keywords)


async def call_tool(
    toolset: OpenAPIToolset, name: str, arguments: str = "{}", **keywords: Any
) -> ToolResult:
    """Return the result of one call by a model."""
    model = ScriptedModel(ToolCall("1", name, arguments), "Done.")
    agent = Agent(model, toolsets=[toolset], clock=FakeClock(), **keywords)
    messages = (await agent.run("Go.")).messages
    return next(
        part for message in messages for part in message.parts if isinstance(part, ToolResult)
    )


def media_of(result: ToolResult) -> list[Media]:
    """Return the media of a result."""
    return [part for part in result.content if isinstance(part, Media)]
