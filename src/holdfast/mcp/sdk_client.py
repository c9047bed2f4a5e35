"""Opens a session with an MCP server by the SDK, over a child process or HTTP, and sends its requests.

Each HTTP exchange ends in an answer here, also if the connection fails: an exception would end the whole block of the
SDK's client, and every other call with it. An answer is bounded, and headers go to the stated host alone. This module
must never repeat a call of a tool, except once after a status 401, which proves that it did not run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from holdfast import __version__
from holdfast.mcp.call_failures import CONNECTION_CLOSED, McpExchange, current_exchange
from holdfast.mcp.elicitation import Continuation
from holdfast.mcp.mcp_options import McpOptions, check_headers
from holdfast.mcp.stdio_transport import StdioTransport
from holdfast.tools.connection_failures import ConnectionFailure, find_connection_failure
from holdfast.transport.client_pool import find_proxy

_HEADER_MISMATCH: Final = -32020
_MOST_PAGES: Final = 100
_CALL_RESULT: Final[TypeAdapter[Any]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class ListedTools:
    """One list of a server's tools.

    Args:
        tools: the tools as the server describes them.
        ttl: for how many seconds the list holds; None if the server does not say.
    """

    def __init__(self, tools: list[types.Tool], ttl: float | None) -> None:
        self.tools = tools
        self.ttl = ttl


class McpSession:
    """An open session with a server.

    Args:
        client: the SDK's client, which its own task has entered.
        transport: the child process; None for HTTP.
    """

    def __init__(self, client: Client, transport: StdioTransport | None) -> None:
        self._client = client
        self._transport = transport

    @property
    def ended(self) -> asyncio.Event | None:
        """Set when the server is gone; None if only an exchange can show that."""
        return None if self._transport is None else self._transport.ended

    @property
    def problem(self) -> str:
        """Why the server is gone."""
        return "" if self._transport is None else self._transport.problem

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks a version without sessions, from 2026-07-28 on."""
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def announces_changes(self) -> bool:
        """Whether the server says when its list of tools changes, without being asked."""
        tools = self._client.server_capabilities.tools
        return not self.is_modern and tools is not None and bool(tools.list_changed)

    async def list_tools(self, most: int) -> ListedTools:
        """Return the tools of the server, of all pages, but not many more than `most`."""
        tools: list[types.Tool] = []
        cursor: str | None = None
        ttl: float | None = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            tools += page.tools
            if page.ttl_ms:
                ttl = page.ttl_ms / 1000 if ttl is None else min(ttl, page.ttl_ms / 1000)
            cursor = page.next_cursor
            if cursor is None or len(tools) > most:
                break
        return ListedTools(tools, ttl)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object],
        on_progress: ProgressFnT | None,
        continuation: Continuation | None = None,
    ) -> Any:
        """Call a tool; return the result as it came, which may ask for input.

        Args:
            name: the tool.
            arguments: its arguments.
            on_progress: called with each report of progress.
            continuation: the answers to a result that asked for input.

        Raises:
            MCPError: the server refused the call, or the connection failed.
            ValidationError: the result breaks the protocol.
        """
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        if continuation is not None:
            answers: Any = {
                key: types.ElicitResult.model_validate(one)
                for key, one in continuation.responses.items()
            }
            changes = {"input_responses": answers, "request_state": continuation.state}
            params = params.model_copy(update=changes)
        request = types.CallToolRequest(params=params)
        session = self._client.session
        try:
            return await session.send_request(request, _CALL_RESULT, progress_callback=on_progress)
        except MCPError as error:
            if error.code != _HEADER_MISMATCH or not self.is_modern:
                raise
            # The schema that was listed is stale, and with it a header: the server did not run the call.
            await self._client.list_tools()
            return await session.send_request(request, _CALL_RESULT, progress_callback=on_progress)

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Return the contents of a resource."""
        return await self._client.read_resource(uri)

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> types.GetPromptResult:
        """Return the messages of a prompt."""
        return await self._client.get_prompt(name, arguments)


@asynccontextmanager
async def open_session(
    server: str, options: McpOptions, on_change: Callable[[], None]
) -> AsyncIterator[McpSession]:
    """Connect to a server, and yield the session; to be entered and left by one task.

    Args:
        server: the name of the server.
        options: its address and limits.
        on_change: called when the server says that its list of tools has changed.

    Raises:
        ConfigurationError: the command cannot be started.
        Exception: the server cannot be reached or speaks another protocol.
    """

    async def cancel(context: object, params: object) -> types.ElicitResult:  # noqa: ARG001  # REASON: the SDK's names
        # Only servers before 2026-07-28 ask so, and do not say which call it is about.
        return types.ElicitResult(action="cancel")

    async def handle(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    async with AsyncExitStack() as stack:
        transport: StdioTransport | None = None
        streams: Any
        if options.command is not None:
            limit = options.limits.message
            transport = StdioTransport(server, options.command, options.env, limit)
            streams = transport.open()
        else:
            http_client = await stack.enter_async_context(_make_http_client(options))
            streams = streamable_http_client(
                options.url or "",
                http_client=http_client,
                max_sse_event_size=options.limits.message,
            )
        client = Client(
            streams,
            client_info=types.Implementation(name="holdfast", version=__version__),
            message_handler=handle,
            elicitation_callback=cancel,
            cache=None,
        )
        try:
            await stack.enter_async_context(client)
        except Exception as error:
            words = "" if transport is None else transport.last_words
            if not words:
                raise
            raise ServerStartError(
                f"{type(error).__name__}: {error}. Its stderr: {words}"
            ) from error
        yield McpSession(client, transport)


class ServerStartError(Exception):
    """A server was started, and did not answer as an MCP server does."""


def _make_http_client(options: McpOptions) -> httpx2.AsyncClient:
    # A call has its own limit, and a stream of events stays open; only the connection is limited here.
    timeout = httpx2.Timeout(None, connect=options.timeouts.start)
    auth = cast("httpx2.Auth | None", options.auth)
    transport = _AnsweringTransport(options)
    return httpx2.AsyncClient(transport=transport, timeout=timeout, auth=auth, trust_env=False)


class _AnsweringTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and answers with an error of JSON-RPC where there is no answer.

    Args:
        options: the address, headers and limits of the server.
    """

    def __init__(self, options: McpOptions) -> None:
        self._origin = _find_origin(httpx2.URL(options.url or ""))
        proxy = find_proxy(*self._origin[:2])
        address = None if proxy is None else str(proxy)
        self._inner = httpx2.AsyncHTTPTransport(proxy=address)
        unkept = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        self._inner_once = httpx2.AsyncHTTPTransport(proxy=address, limits=unkept)
        self._headers = options.headers
        self._most_bytes = options.limits.message

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current_exchange.get() or McpExchange()
        request.headers["accept-encoding"] = "identity"
        response = await self._send(request, exchange)
        if response.status_code == 401 and not isinstance(self._headers, Mapping):
            await response.aclose()
            response = await self._send(request, exchange)  # with fresh headers
        exchange.status = response.status_code
        exchange.retry_after = _read_seconds(response.headers.get("retry-after"))
        return response

    async def _send(self, request: httpx2.Request, exchange: McpExchange) -> httpx2.Response:
        await self._add_headers(request)
        exchange.is_sent = True
        try:
            inner = self._inner_once if exchange.is_once else self._inner
            response = await inner.handle_async_request(request)
            if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                return response
            return await self._read_whole(response, exchange)
        except httpx2.TransportError as error:
            failure = find_connection_failure(error)
            if failure is ConnectionFailure.NOT_SENT:
                exchange.is_sent = False
            else:
                exchange.failure = failure or ConnectionFailure.LOST
            exchange.note = f"{type(error).__name__}: {error}"
            return _make_answer(exchange.note)

    async def _add_headers(self, request: httpx2.Request) -> None:
        """Add the headers of the program, if the request goes to the stated scheme, host and port."""
        if _find_origin(request.url) != self._origin:
            return
        headers = self._headers
        if not isinstance(headers, Mapping):
            headers = await headers()
            check_headers(headers)
        for name, value in headers.items():
            request.headers[name] = value

    async def _read_whole(
        self, response: httpx2.Response, exchange: McpExchange
    ) -> httpx2.Response:
        """Read an answer that is no stream of events, up to the limit."""
        data = bytearray()
        try:
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > self._most_bytes:
                    exchange.failure = ConnectionFailure.LOST
                    exchange.note = f"it sent an answer of more than {self._most_bytes:,} bytes"
                    return _make_answer(exchange.note)
        finally:
            await response.aclose()
        hidden = ("content-length", "content-encoding", "transfer-encoding")
        headers = [one for one in response.headers.multi_items() if one[0].lower() not in hidden]
        return httpx2.Response(response.status_code, headers=headers, content=bytes(data))

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._inner_once.aclose()


def _find_origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _make_answer(problem: str) -> httpx2.Response:
    error = {"code": CONNECTION_CLOSED, "message": problem}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(502, headers={"content-type": "application/json"}, text=body)


def _read_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and len(text) < 7 else None
