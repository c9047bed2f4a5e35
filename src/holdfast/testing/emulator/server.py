"""The emulator: an HTTP server on loopback that speaks the wires of providers and fails by script.

Any framework can use its `base_url`. It uses no network, and checks requests as strictly as the
provider does.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Server
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from ssl import SSLContext
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ConfigurationError
from holdfast.testing.emulator.connection import Connection
from holdfast.testing.emulator.faults import FaultScript
from holdfast.testing.emulator.script import Replies, Script, echo
from holdfast.testing.emulator.serving import Behaviour, EmulatorService, LoggedRequest
from holdfast.testing.emulator.wires.dresses import Dress, get_dress
from holdfast.testing.emulator.wires.emulator_wire import WIRES, Chunking, get_wire


class Listen(Struct, frozen=True):
    """The address of the emulator; by default a free port of loopback, without TLS."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: SSLContext | None = None


class Emulator:
    """An emulated provider with the given replies and faults.

    Args:
        replies: a list of replies, each repeated until it was delivered completely, or a sync or
            async function of the request. A reply is text, parts, or a `Reply`.
        faults: one entry for each model call (a fault, several, or None), or a function of the
            request. After the end of the list there are no faults.
        chunking: how streamed texts are cut: "words", "whole", or every n characters.
        models: the names that `GET /v1/models` lists.
        listen: address and TLS.
        on_request: called with the log entry of each request when it has ended.
        strict: whether requests are judged as the provider judges them: unknown fields, values out
            of range, tools. If not, only their histories are.
        dress: the endpoint of the Chat Completions wire whose rules it has, and whose errors and
            streams: a name, such as "groq" or "vllm", or a `Dress`. The other wires have one provider each.

    Raises:
        ConfigurationError: no dress has this name.

    >>> import urllib.request
    >>> with Emulator(["Hello"]) as emulator:
    ...     _ = urllib.request.urlopen(emulator.base_url + "/models").read()
    ...     [entry.format_line() for entry in emulator.requests]
    ['#0 GET /v1/models 200']
    """

    @check_arguments
    def __init__(
        self,
        replies: Replies = echo,
        *,
        faults: FaultScript = (),
        chunking: Chunking = "words",
        models: Sequence[str] = ("emulated-model",),
        listen: Listen | None = None,
        on_request: Callable[[LoggedRequest], None] | None = None,
        strict: bool = True,
        dress: str | Dress = "openai",
    ) -> None:
        self._behaviour = Behaviour(
            script=Script(replies),
            faults=faults,
            chunking=chunking,
            models=models,
            on_request=on_request,
            strict=strict,
            dress=get_dress(dress),
            dress_name=dress if isinstance(dress, str) else "your dress",
        )
        self._listen = listen or Listen()
        self._connections: set[Connection] = set()
        self._opened = 0
        self._server: Server | None = None
        self._service: EmulatorService | None = None
        self._thread: _EmulatorThread | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        """The base URL for a client of OpenAI's wires, `http://127.0.0.1:PORT/v1`."""
        return f"{self.origin}/v1"

    def base_url_for(self, wire: str) -> str:
        """Return the base URL for a client of one wire.

        Args:
            wire: "openai_chat", "openai_responses", "anthropic" or "gemini".

        Raises:
            ConfigurationError: the wire is unknown.
        """
        if wire not in WIRES:
            raise ConfigurationError(
                "wire", f"{wire!r} is not supported", fix=f"Use one of {', '.join(WIRES)}"
            )
        return self.origin + get_wire(wire).BASE_PATH

    @property
    def origin(self) -> str:
        """The URL of the emulator without a path. Raises ConfigurationError if it is not running."""
        if not self._port:
            raise ConfigurationError(
                "emulator", "is not running", fix="Use it in `with` or `async with`"
            )
        scheme = "http" if self._listen.tls is None else "https"
        host = self._listen.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._port}"

    @property
    def requests(self) -> list[LoggedRequest]:
        """All requests in order of arrival; new requests are appended to the same list."""
        return self._service.log if self._service is not None else []

    @property
    def connections(self) -> int:
        """The number of connections opened so far."""
        return self._opened

    async def wait_idle(self) -> None:
        """Wait until no request is being served; all log entries are then complete."""
        if self._service is not None:
            await self._service.idle.wait()

    def wait_idle_sync(self, seconds: float = 10.0) -> None:
        """Block until no request is being served; for use in `with`."""
        if self._thread is not None:
            self._thread.wait_for(self.wait_idle(), seconds)

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigurationError: the address cannot be used.
        """
        listen = self._listen
        self._service = EmulatorService(self._behaviour)
        try:
            self._server = await self._listen_on_new_port()
        except OSError as error:
            raise ConfigurationError(
                "listen", f"cannot listen on {listen.host}:{listen.port}: {error.strerror}"
            ) from error
        self._port = _port_of(self._server)

    async def _listen_on_new_port(self) -> Server:
        """Listen on the given port, or on one that no emulator of this process has used.

        The runtime remembers the state of an address, such as an open circuit breaker, for longer
        than an emulator lives.
        """
        loop, listen = asyncio.get_running_loop(), self._listen
        known: list[Server] = []
        try:
            while True:
                server = await loop.create_server(
                    self._new_connection, listen.host, listen.port, ssl=listen.tls, backlog=4096
                )
                if _is_new_port(_port_of(server)) or listen.port or len(known) == _MOST_TRIES:
                    return server
                known.append(server)  # stays open, so that the system assigns another port
        finally:
            for server in known:
                server.close()

    async def stop(self) -> None:
        """Stop listening and abort all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            await connection.abandon()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self._thread = _EmulatorThread(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def _new_connection(self) -> Connection:
        assert self._service is not None  # noqa: S101  # set before the server listens
        return Connection(self._service.serve, self._register_connection, self._connections.discard)

    def _register_connection(self, connection: Connection) -> int:
        self._connections.add(connection)
        self._opened += 1
        return self._opened


_MOST_TRIES = 100
_had: set[int] = set()
_lock = Lock()


def _is_new_port(port: int) -> bool:
    with _lock:
        new = port not in _had
        _had.add(port)
    return new


def _port_of(server: Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


class _EmulatorThread:
    """Runs an emulator in a thread with its own event loop, for `with`."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._ready: Future[tuple[AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = Thread(target=self._run_loop, name="holdfast-emulator", daemon=True)
        self._thread.start()
        self._loop, self._stop_event = self._ready.result()

    def wait_for(self, work: Coroutine[object, object, None], seconds: float) -> None:
        """Run a coroutine in the thread and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def stop(self) -> None:
        """Stop the emulator and the thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop_event.set)
        self._thread.join()

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._run_emulator())
        except ConfigurationError as error:
            self._ready.set_exception(error)

    async def _run_emulator(self) -> None:
        async with self._emulator:
            stop_event = asyncio.Event()
            self._ready.set_result((asyncio.get_running_loop(), stop_event))
            await stop_event.wait()


def serve(
    replies: Replies = echo,
    *,
    faults: FaultScript = (),
    chunking: Chunking = "words",
    listen: Listen | None = None,
    on_start: Callable[[str], None] | None = None,
    on_request: Callable[[LoggedRequest], None] | None = None,
    strict: bool = True,
    dress: str | Dress = "openai",
) -> None:
    """Run an emulator until the program is interrupted.

    Args:
        replies: the replies of the model; by default it repeats the user's text.
        faults: the faults.
        chunking: how streamed texts are cut.
        listen: address and TLS; by default port 8089 of loopback.
        on_start: called with the base URL.
        on_request: called with the log entry of each request when it has ended.
        strict: whether requests are judged as the provider judges them.
        dress: the endpoint of the Chat Completions wire whose rules it has.

    Raises:
        ConfigurationError: the address cannot be used, or no dress has this name.
    """
    emulator = Emulator(
        replies,
        faults=faults,
        chunking=chunking,
        listen=listen or Listen(port=8089),
        on_request=on_request,
        strict=strict,
        dress=dress,
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever(emulator, on_start))


async def _serve_forever(emulator: Emulator, on_start: Callable[[str], None] | None) -> None:
    async with emulator:
        if on_start is not None:
            on_start(emulator.base_url)
        await asyncio.Event().wait()
