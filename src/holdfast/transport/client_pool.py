"""One client session per event loop, opened at its first use and closed with its loop.

A suspended asynchronous generator owns the session: a loop closes its generators when it ends, so
the user does not have to close anything. Two loops never share a connection. A pool that is dropped closes its
sessions at once: nothing here refers to it in a circle, since a garbage collector would take session and owner
together, and the library warns of a session that was not closed.

A server may send bytes that nobody asked for on an idle connection, such as a second response. The
client library would take them for the response to the next request. A connection that the server has
closed meanwhile looks the same: its socket is readable. So a kept connection is looked at before it
carries another request.

The environment names the proxy of a request: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY. The
library's own option for this also reads `.netrc` and would send passwords from there, so it is not
used. Errors never show the user and the password of a proxy's URL.
"""

from __future__ import annotations

import asyncio
import atexit
import ipaddress
import select
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet, ref

from aiohttp import ClientSession
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from holdfast.core.errors import ConfigurationError
from holdfast.transport.network_waits import NetworkWaits, find_network_waits
from holdfast.transport.timers import TimerWheel

Keeper = AsyncGenerator[ClientSession, None]


class LoopSession(NamedTuple):
    """The objects that the requests of one loop share."""

    session: ClientSession
    timers: TimerWheel
    waits: NetworkWaits
    closer: Keeper


class ClientPool:
    """The open sessions, by loop.

    Args:
        opener: creates a session for the running loop.
    """

    def __init__(self, opener: Callable[[], ClientSession]) -> None:
        self._opener = opener
        self._by_loop: dict[AbstractEventLoop, LoopSession] = {}
        _ALL.add(self)

    def find_open(self) -> LoopSession | None:
        """Return the open session of the running loop, or None."""
        opened = self._by_loop.get(asyncio.get_running_loop())
        return None if opened is None or opened.session.closed else opened

    async def open(self) -> LoopSession:
        """Open the session of the running loop."""
        loop = asyncio.get_running_loop()
        self._forget_closed_loops()
        keeper = _keep_open(ref(self), self._opener, loop)
        # It runs to its yield without suspending, so no other task of this loop runs in between.
        session = await anext(keeper)
        waits = find_network_waits(loop)
        opened = self._by_loop[loop] = LoopSession(session, TimerWheel(loop), waits, keeper)
        return opened

    async def aclose(self) -> None:
        """Close the session of this loop, and schedule the closing of those in other threads."""
        running = asyncio.get_running_loop()
        for loop, (_, _, _, keeper) in list(self._by_loop.items()):
            if loop is running:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close_keeper(keeper), loop)

    def forget(self, session: ClientSession, loop: AbstractEventLoop) -> None:
        """Forget a session that closes, unless its loop has another one already."""
        current = self._by_loop.get(loop)
        if current is not None and current.session is session:
            del self._by_loop[loop]

    def _forget_closed_loops(self) -> None:
        for loop, (session, _, _, _) in list(self._by_loop.items()):
            if loop.is_closed():
                self._by_loop.pop(loop, None)
                _abandon_session(session)

    def close_idle_loops(self) -> None:
        """Close the sessions of loops that are still open when the program ends, as in a notebook."""
        for loop, (session, _, _, keeper) in list(self._by_loop.items()):
            if loop.is_closed():
                _abandon_session(session)
            elif not loop.is_running():
                loop.run_until_complete(keeper.aclose())


async def _keep_open(
    owner: ref[ClientPool], opener: Callable[[], ClientSession], loop: AbstractEventLoop
) -> Keeper:
    session = opener()
    try:
        yield session
    finally:
        if (pool := owner()) is not None:
            pool.forget(session, loop)
        await session.close()


async def _close_keeper(keeper: Keeper) -> None:
    await keeper.aclose()


def _abandon_session(session: ClientSession) -> None:
    """Detach a session whose loop is already closed, so that its `__del__` does not warn."""
    connector = session.connector
    session.detach()
    if connector is not None:
        # The loop is closed, so this coroutine runs to its end without suspending.
        with suppress(StopIteration):
            connector.close().__await__().__next__()


_ALL: WeakSet[ClientPool] = WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for sessions in list(_ALL):
        sessions.close_idle_loops()


class UnusableConnectionError(Exception):
    """A kept connection cannot carry the request; no byte of the request was sent on it."""


class UsedConnections:
    """Checks each connection that has carried a request before it carries another one."""

    __slots__ = ("_used",)

    def __init__(self) -> None:
        # With each connection a function that returns whether bytes wait on its socket.
        self._used: dict[ref[ResponseHandler], Callable[[], object]] = {}

    def check_connection(self, connection: Connection, *, must_be_new: bool) -> bool:
        """Return whether a connection was used before.

        Args:
            connection: the connection.
            must_be_new: refuse a used one. One that its server has closed is seldom the only one.

        Raises:
            UnusableConnectionError: it was used before, and bytes wait on it, or it must be new.
        """
        protocol = connection.protocol
        if protocol is None:
            return False
        has_waiting_bytes = self._used.get(ref(protocol))
        if has_waiting_bytes is None:
            self._used[ref(protocol, self._used.pop)] = _watch_socket(protocol)
            return False
        if must_be_new or protocol.should_close or has_waiting_bytes():
            raise UnusableConnectionError
        return True


def _watch_socket(protocol: ResponseHandler) -> Callable[[], object]:
    """Return a function that returns whether the socket has bytes that the loop has not read, or its end."""
    transport = protocol.transport
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None:
        return bool
    number = sock.fileno()
    if not hasattr(select, "poll"):
        return lambda: select.select([number], [], [], 0)[0]
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return partial(poll.poll, 0)


def find_proxy(scheme: str, host: str) -> URL | None:
    """Return the proxy for a request to `host`, or None for a direct connection.

    A loopback address never uses a proxy, which would connect to its own machine.

    Raises:
        ConfigurationError: the environment names a proxy that is not an HTTP proxy.
    """
    if _is_loopback(host):
        return None
    proxies = {kind: address.strip() for kind, address in getproxies().items()}
    address = proxies.get(scheme) or proxies.get("all")
    if not address or proxy_bypass(host):
        return None
    if "://" not in address:
        address = f"http://{address}"
    variable = f"{scheme.upper()}_PROXY" if proxies.get(scheme) else "ALL_PROXY"
    try:
        proxy = URL(address)
    except ValueError:
        raise ConfigurationError(
            variable, "is not an address", fix="Write http://host:port"
        ) from None
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ConfigurationError(
            variable,
            f"a proxy of the kind {proxy.scheme or 'unknown'!r} is not supported",
            fix=f"Set {scheme.upper()}_PROXY to http://host:port, or NO_PROXY to {host}",
        )
    return proxy


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
