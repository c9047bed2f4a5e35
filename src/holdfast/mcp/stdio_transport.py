"""The transport of an MCP server that is a child process: one JSON-RPC message a line, on its stdin and stdout.

The SDK's own transport reads lines of any length, and does not say whether a request was written. This one bounds a
line, keeps the end of stderr for errors, skips lines that are no message, and notes when a request goes out. The child
gets the SDK's short list of variables and those of `env`, never all of ours. This module must never leave a process
behind, and must never wait for one without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.mcp.call_failures import current_exchange

_log = logging.getLogger("holdfast.mcp")

_GRACE: Final = 2.0
"""Seconds for a server to end by itself after its stdin is closed, and then after SIGTERM."""
_POLL: Final = 0.01
_KEPT_STDERR: Final = 4_096
_LONGEST_WRITE: Final = 30.0
"""Seconds for a server to read what it is sent; one that does not read is taken for dead."""

_Message = SessionMessage | Exception


class StdioTransport:
    """The child process of a server, and the streams that the SDK reads and writes.

    Args:
        server: the name of the server, for errors.
        command: the program and its arguments.
        env: variables beside the short list.
        most_bytes: the longest line that is read.
    """

    def __init__(
        self, server: str, command: Sequence[str], env: Mapping[str, str], most_bytes: int
    ) -> None:
        self._server = server
        self._command = tuple(command)
        self._env = env
        self._most_bytes = most_bytes
        self._stderr = b""
        self.ended = asyncio.Event()
        """Set when the server has closed its stdout, or was given up."""
        self.problem = ""
        """Why the server was given up."""

    @property
    def last_words(self) -> str:
        """The end of the server's stderr, redacted; "" without any."""
        return redact(self._stderr.decode(errors="replace").strip())[-_KEPT_STDERR:]

    @asynccontextmanager
    async def open(
        self,
    ) -> AsyncIterator[tuple[MemoryObjectReceiveStream[_Message], _StdinStream]]:
        """Start the process, and yield its streams; it is stopped at the end.

        Raises:
            ConfigurationError: the program does not exist or cannot be started.
        """
        process = await self._start()
        send, receive = anyio.create_memory_object_stream[_Message](0)
        tasks = [
            asyncio.create_task(self._read_stdout(process, send)),
            asyncio.create_task(self._read_stderr(process)),
        ]
        try:
            yield receive, _StdinStream(process, self)
        finally:
            self.give_up("")
            receive.close()
            stopping = asyncio.create_task(_stop(process))
            try:
                await asyncio.shield(stopping)
            finally:
                for task in tasks:
                    task.cancel()
                if not stopping.done():
                    _stopping.add(stopping)
                    stopping.add_done_callback(_stopping.discard)
                send.close()

    async def _start(self) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=get_default_environment() | dict(self._env),
                limit=self._most_bytes,
                start_new_session=True,
            )
        except OSError as error:
            problem = (
                f"{self._command[0]!r} cannot be started: {error.strerror or type(error).__name__}"
            )
            raise ConfigurationError(
                f"mcp server {self._server!r}, command",
                problem,
                fix="Install it, or correct its path",
            ) from error

    def give_up(self, problem: str) -> None:
        """Note that nothing more can be sent or received."""
        if not self.ended.is_set():
            self.problem = problem
            self.ended.set()

    async def _read_stdout(self, process: Process, send: MemoryObjectSendStream[_Message]) -> None:
        stdout = process.stdout
        if stdout is None:
            return
        try:
            with send:
                while line := await stdout.readline():
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        _log.debug("server %s wrote a line that is no message", self._server)
                        continue
                    await send.send(SessionMessage(message))
            self.give_up("its process has ended")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is gone
        except ValueError:
            self.give_up(f"it sent a message of more than {self._most_bytes:,} bytes")
        except OSError as error:
            self.give_up(f"its stdout cannot be read: {type(error).__name__}")
        finally:
            self.give_up("its stdout is not read any more")

    async def _read_stderr(self, process: Process) -> None:
        stderr = process.stderr
        while stderr is not None and (data := await stderr.read(_KEPT_STDERR)):
            self._stderr = (self._stderr + data)[-_KEPT_STDERR:]


class _StdinStream:
    """The stream of messages to a server. A message is written whole, also if its sender is cancelled."""

    def __init__(self, process: Process, transport: StdioTransport) -> None:
        self._process = process
        self._transport = transport

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message. Raises BrokenResourceError if the server is gone."""
        stdin, transport = self._process.stdin, self._transport
        if stdin is None or transport.ended.is_set() or stdin.is_closing():
            raise anyio.BrokenResourceError
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        exchange = current_exchange.get()
        if exchange is not None and isinstance(item.message, types.JSONRPCRequest):
            exchange.is_sent = True
        stdin.write(data)
        try:
            async with asyncio.timeout(_LONGEST_WRITE):
                await stdin.drain()
        except (OSError, TimeoutError) as error:
            transport.give_up("it does not read its stdin")
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Do nothing: the transport closes stdin when it stops the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


_stopping: set[asyncio.Task[None]] = set()


async def _stop(process: Process) -> None:
    """Close stdin and wait; then end the process and its children, politely and then not."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_exited(process):
        _signal_all(process, signal.SIGTERM)
        if not await _has_exited(process):
            _signal_all(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            await _has_exited(process)
    # A grandchild may hold the pipes open; nothing of the process is read any more.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with contextlib.suppress(PermissionError):
            transport.close()


async def _has_exited(process: Process) -> bool:
    """Whether the process ends in time. Its pipes may stay open, so `wait` could wait longer."""
    deadline = asyncio.get_running_loop().time() + _GRACE
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_POLL)
    return True


def _signal_all(process: Process, number: int) -> None:
    """Send a signal to the process and its children, which have a process group of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
