"""`McpServer`: the tools of an MCP server as a toolset.

The lifespan of the toolset yields a connection at once, and never the SDK's client, so that a server that is not there
delays nothing else. The list of tools is made of the last list of the server. This module must never offer a tool whose
schema cannot be checked, and must never show a value of `env` or `headers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from typing import Any, Unpack

import msgspec

from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.messages import Media, Text
from holdfast.core.notices import CustomNotice
from holdfast.mcp.elicitation import Continuation, call_with_questions
from holdfast.mcp.mcp_options import McpKeywords, McpOptions, read_options
from holdfast.mcp.server_connection import ServerConnection
from holdfast.mcp.server_results import (
    describe,
    find_effect,
    make_name,
    read_content,
    read_resource_part,
    read_text,
    take_digest,
    take_public_digest,
)
from holdfast.middleware.decisions import Patch
from holdfast.middleware.hook_contexts import BeforeIteration, ToolsetContext
from holdfast.middleware.hooks import Middleware
from holdfast.tools.context import ToolContext
from holdfast.tools.tool import Tool, copy_as_foreign
from holdfast.tools.tool_failures import ToolError
from holdfast.tools.toolset import Toolset

_RESOURCE_TOOL = "read_resource"
_RESOURCE_SCHEMA = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The address of the resource."}},
    "required": ["uri"],
    "additionalProperties": False,
}


class McpServerChanged(CustomNotice, frozen=True, kw_only=True):
    """The tools of an MCP server came, went or changed since they were listed last.

    Args:
        server: the name of the server.
        is_available: whether its tools are offered.
        reason: why they are not.
        tools: the names of those that are offered.
        refused: those that cannot be offered, as the server names them, with the reasons.
    """

    server: str
    is_available: bool
    reason: str = ""
    tools: tuple[str, ...] = ()
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)


class McpProgress(CustomNotice, frozen=True, kw_only=True):
    """An MCP server reported the progress of a call.

    Args:
        server: the name of the server.
        progress: how much is done.
        total: of how much; None if the server does not say.
        message: what it says about it.
    """

    server: str
    progress: float
    total: float | None = None
    message: str = ""


class McpServer(Toolset):
    """The tools of an MCP server: a toolset for `Agent(toolsets=[...])`.

    One connection serves all turns of an agent, whoever they are for: the server sees one client. It is made anew when
    the server dies. While the server cannot be reached, its tools are left out and the model reads a line about it.

    Args:
        name: names the server in errors, logs and notices.
        keywords: either `command`, the program that is the server and its arguments, or `url`. `env` has variables
            for the program, which gets no others of ours but PATH, HOME and the like. `headers` are sent to the host
            of the `url` alone; an async function that returns them is called for each request. `auth` is an
            authentication of the SDK, such as its OAuth provider. `prefix` comes before the name of each tool.
            `tools` names the tools that are offered, where * stands for any characters. `trust=True` believes the
            server which tools only read and which may be repeated; otherwise each is a "write". `effects` states the
            effect of a tool by its name at the server, and counts more. `checks` look whether a write took effect, by
            the name of the tool, as `tool(check=...)` does; such a tool is a write. `resources=True` adds a tool that reads
            resources. `required=True` makes a server that cannot be reached an error. `timeouts` and `limits` bound
            it.

    Raises:
        ConfigurationError: a keyword is wrong, or the extra `mcp` is not installed.

    >>> McpServer("files", command=["mcp-server-files", "/srv/docs"], tools=["read_*"])
    McpServer('files')
    """

    options: McpOptions
    """The keywords, checked."""

    def __init__(self, name: str, **keywords: Unpack[McpKeywords]) -> None:
        options = read_options(name, keywords)
        super().__init__(name, self._list_offered, lifespan=self._open, required=options.required)
        self.__dict__.update(
            options=options,
            middlewares=(McpAvailability(),),
            _connections={},
        )

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ServerConnection]:
        """Begin to connect, and yield the connection; wait for a required server."""
        loop = asyncio.get_running_loop()
        connections: dict[asyncio.AbstractEventLoop, list[ServerConnection]] = self.__dict__[
            "_connections"
        ]
        connection = ServerConnection(self.name, self.options)
        async with connection.run():
            if self.options.required:
                await connection.connect(self.options.timeouts.start)
            connections.setdefault(loop, []).append(connection)
            try:
                yield connection
            finally:
                connections[loop].remove(connection)
                if not connections[loop]:
                    del connections[loop]

    async def _list_offered(self, context: ToolsetContext[Any]) -> list[Tool]:
        """List the tools of the server for one model call; none if it cannot be reached."""
        connection = context.resource
        if not isinstance(connection, ServerConnection):
            raise ConfigurationError("mcp", f"server {self.name!r} has no connection")
        missing = context.shared(MissingServers).reasons
        listed = await connection.list_tools(begins_turn=context.iteration == 0)
        if listed is None:
            if self.options.required:
                problem = "cannot be reached"
                raise MiddlewareError("mcp server", self.name, problem, private=connection.problem)
            missing[self.name] = connection.problem
            self._report_tools(context, connection, (), {})
            return []
        missing.pop(self.name, None)
        tools, refused = self._make_tools(connection, listed.tools)
        self._report_tools(context, connection, tuple(one.name for one in tools), refused)
        return tools

    def _make_tools(
        self, connection: ServerConnection, listed: list[Any]
    ) -> tuple[list[Tool], dict[str, str]]:
        """Return the tools to offer, and those that cannot be, with the reasons."""
        tools: dict[str, Tool] = {}
        refused: dict[str, str] = {}
        limit = self.options.limits.tools
        for one in listed:
            if not self._is_chosen(one.name):
                continue
            if len(tools) >= limit:
                refused[one.name] = f"there are more than {limit}: raise McpLimits(tools=...)"
                continue
            made = self._make_tool(connection, one)
            if isinstance(made, str):
                refused[one.name] = made
            elif made.name in tools:
                refused[one.name] = "the server lists it twice"
            else:
                tools[made.name] = made
        if self.options.resources:
            reader = self._make_resource_tool(connection)
            tools.setdefault(reader.name, reader)
        return list(tools.values()), refused

    def _is_chosen(self, name: str) -> bool:
        patterns = self.options.tools
        return patterns is None or any(fnmatchcase(name, one) for one in patterns)

    def _make_tool(self, connection: ServerConnection, listed: Any) -> Tool | str:
        """Return the tool of a description, the same one for the same description; or why there is none."""
        digest = take_digest(listed)
        known = connection.made.get(digest)
        if isinstance(known, Tool | str):
            return known
        options = self.options
        check = options.checks.get(listed.name)
        effect = options.effects.get(listed.name) or find_effect(listed, is_trusted=options.trust)
        if check is not None:
            effect = "write"  # whatever the server says of it
        made: Tool | str
        try:
            made = Tool.from_schema(
                make_name(options.prefix or "", listed.name),
                describe(listed),
                listed.input_schema,
                _make_call(connection, listed.name, is_once=effect == "write"),
                effect=effect,
                timeout=options.timeouts.call,
                result_limit=options.limits.result,
                check=check,
            )
            made = copy_as_foreign(made, self.name, take_public_digest(listed))
        except ConfigurationError as error:
            made = error.problem
        connection.made[digest] = made
        return made

    def _make_resource_tool(self, connection: ServerConnection) -> Tool:
        known = connection.made.get(b"")
        if isinstance(known, Tool):
            return known

        async def read(arguments: dict[str, object]) -> list[Text | Media]:
            return await _read_resource(connection, str(arguments["uri"]))

        made: Tool = Tool.from_schema(
            make_name(self.options.prefix or "", _RESOURCE_TOOL),
            f"Read a resource of the server {self.name} by its address.",
            _RESOURCE_SCHEMA,
            read,
            effect="read",
            timeout=self.options.timeouts.call,
            result_limit=self.options.limits.result,
        )
        connection.made[b""] = made
        return made

    def _report_tools(
        self,
        context: ToolsetContext[Any],
        connection: ServerConnection,
        tools: tuple[str, ...],
        refused: dict[str, str],
    ) -> None:
        """Emit a notice if the tools are others than those of the last list of this connection."""
        is_available = self.name not in context.shared(MissingServers).reasons
        facts = (is_available, tools, tuple(refused.items()))
        if connection.reported == facts or (
            connection.reported is None and is_available and not refused
        ):
            connection.reported = facts
            return
        connection.reported = facts
        context.emit(
            McpServerChanged(
                server=self.name,
                is_available=is_available,
                reason="" if is_available else connection.problem,
                tools=tools,
                refused=refused,
            )
        )

    async def resource(self, uri: str) -> list[Text | Media]:
        """Return the contents of a resource of the server.

        Args:
            uri: its address.

        Raises:
            ConfigurationError: no turn and no `async with agent` has the server open.
            ToolError: the server refused it.
            ToolFailedError: the server did not answer.
        """
        return await _read_resource(self._find_connection(), uri)

    async def prompt(self, name: str, /, **arguments: str) -> list[Text | Media]:
        """Return the contents of a prompt of the server, of all its messages in order.

        Args:
            name: the prompt.
            arguments: its arguments.

        Raises:
            ConfigurationError: no turn and no `async with agent` has the server open.
            ToolError: the server refused it.
            ToolFailedError: the server did not answer.
        """
        connection = self._find_connection()
        found = await connection.ask(lambda session: session.get_prompt(name, arguments), name)
        return read_content([one.content for one in found.messages])

    def _find_connection(self) -> ServerConnection:
        connections: Mapping[asyncio.AbstractEventLoop, list[ServerConnection]] = self.__dict__[
            "_connections"
        ]
        found = connections.get(asyncio.get_running_loop())
        if not found:
            fix = "Use it in a tool, or in `async with agent:`"
            raise ConfigurationError("mcp", f"server {self.name!r} is not open here", fix=fix)
        return found[-1]

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"


async def _read_resource(connection: ServerConnection, uri: str) -> list[Text | Media]:
    found = await connection.ask(lambda session: session.read_resource(uri), uri)
    return [read_resource_part(one) for one in found.contents] or read_content(())


def _make_call(
    connection: ServerConnection, name: str, *, is_once: bool
) -> Callable[[dict[str, object], ToolContext], Awaitable[list[Text | Media]]]:
    """Return the function of a tool, which calls it at the server."""

    async def call(arguments: dict[str, object], context: ToolContext) -> list[Text | Media]:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.emit(
                McpProgress(
                    server=connection.server, progress=progress, total=total, message=message or ""
                )
            )

        async def send(continuation: Continuation | None) -> Any:
            return await connection.call_tool(
                name, arguments, report, continuation=continuation, is_once=is_once
            )

        result = await call_with_questions(context, connection.server, send, is_once=is_once)
        if result.is_error:
            raise ToolError(read_text(result.content)[: connection.options.limits.result])
        return read_content(result.content, result.structured_content)

    return call


class MissingServers:
    """The MCP servers of a turn that cannot be reached, with the reasons."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}


class McpAvailability(Middleware[Any]):
    """Writes into the instructions which servers cannot be reached, a line for each."""

    async def before_iteration(self, context: BeforeIteration[Any]) -> Patch | None:
        """Append a line for each server that is missing, unless it is there already."""
        lines = [_format_missing(name) for name in context.shared(MissingServers).reasons]
        missing = [line for line in lines if line not in context.instructions]
        if not missing:
            return None
        given = context.instructions.rstrip()
        return Patch(instructions="\n\n".join([given, *missing] if given else missing))


def _format_missing(name: str) -> str:
    return f"The server {name} cannot be reached at the moment, so its tools are missing."
