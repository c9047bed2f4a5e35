"""The connection to a server below the toolset: its breaker, authentication, and the context of a caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from pathlib import Path

import httpx2
import pytest

from holdfast.core.errors import Landed, ToolFailedError
from holdfast.mcp.mcp_options import McpLimits, McpOptions, McpTimeouts
from holdfast.mcp.sdk_client import _AnsweringTransport
from holdfast.mcp.server_connection import ServerConnection
from holdfast.resilience.breaker.strategy import BreakerOpenError
from holdfast.testing.mcp_emulator import McpEmulator

pytestmark = pytest.mark.slow  # each test starts a server

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


async def test_a_server_that_always_fails_is_not_called_for_a_while() -> None:
    options = McpOptions(command=["/nonexistent/server"], timeouts=McpTimeouts(start=0.05))
    connection = ServerConnection("gone", options)
    async with connection.run():
        for _ in range(8):
            with pytest.raises(ToolFailedError) as caught:
                await connection.call_tool("pay", {})
            assert caught.value.info.landed is Landed.NO
        with pytest.raises(BreakerOpenError) as opened:
            await connection.call_tool("pay", {})
    assert opened.value.info.landed is Landed.NO


async def test_a_call_has_the_context_variables_of_its_caller(tmp_path: Path) -> None:
    seen: list[str] = []

    async def make_headers() -> dict[str, str]:
        seen.append(tenant.get())
        return {}

    async with McpEmulator(tmp_path).serve_http() as url:
        connection = ServerConnection("shop", McpOptions(url=url, headers=make_headers))
        async with connection.run():
            await connection.list_tools(begins_turn=True)
            seen.clear()

            async def look(name: str) -> None:
                tenant.set(name)
                await connection.call_tool("look", {})

            await asyncio.gather(look("ada"), look("bob"))
    assert sorted(seen) == ["ada", "bob"]


async def test_an_authentication_of_the_sdk_signs_each_request(tmp_path: Path) -> None:
    class Signing(httpx2.Auth):
        def __init__(self) -> None:
            self.signed = 0

        async def async_auth_flow(
            self, request: httpx2.Request
        ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            self.signed += 1
            request.headers["authorization"] = "Bearer x"
            yield request

    auth = Signing()
    async with McpEmulator(tmp_path).serve_http() as url:
        connection = ServerConnection("shop", McpOptions(url=url, auth=auth))
        async with connection.run():
            await connection.call_tool("look", {})
    assert auth.signed >= 2


async def test_no_more_calls_than_the_limit_are_under_way(tmp_path: Path) -> None:
    emulator = McpEmulator(tmp_path, faults=["silent", "silent"])
    options = McpOptions(command=emulator.command, limits=McpLimits(concurrent=2))
    connection = ServerConnection("shop", options)
    async with connection.run():
        tasks = [asyncio.create_task(connection.call_tool("look", {"n": n})) for n in range(5)]
        while len([one for one in emulator.log if one["kind"] == "call"]) < 2:
            await asyncio.sleep(0.005)
        # The two that get no answer hold both places.
        await asyncio.sleep(0)
        assert len([one for one in emulator.log if one["kind"] == "call"]) == 2
        for one in tasks[:2]:
            one.cancel()
        assert len(await asyncio.gather(*tasks[2:])) == 3
        await asyncio.wait(tasks)


async def test_headers_go_to_the_stated_scheme_host_and_port_alone() -> None:
    options = McpOptions(url="https://shop.example/mcp", headers={"x-token": "secret"})
    transport = _AnsweringTransport(options)
    for url, has_token in (
        ("https://shop.example/other", True),
        ("https://shop.example:443/mcp", True),
        ("http://shop.example/mcp", False),
        ("https://shop.example:8443/mcp", False),
        ("https://login.shop.example/", False),
    ):
        request = httpx2.Request("POST", url)
        await transport._add_headers(request)  # REASON: no server has these names
        assert ("x-token" in request.headers) is has_token, url
    await transport.aclose()
