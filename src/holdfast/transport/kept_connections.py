"""Tells whether a kept connection can carry another request.

A server may send bytes that nobody asked for on an idle connection, such as a second response. The
client library would take them for the response to the next request. A connection that the server has
closed meanwhile looks the same: its socket is readable.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import partial
from weakref import ref

from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection


class UnusableConnectionError(Exception):
    """A kept connection has bytes that nobody asked for; no byte of the request was sent on it."""


class UsedConnections:
    """Checks each connection that has carried a request before it carries another one."""

    __slots__ = ("_used",)

    def __init__(self) -> None:
        # With each connection a function that tells whether bytes wait on its socket.
        self._used: dict[ref[ResponseHandler], Callable[[], object]] = {}

    def check_connection(self, connection: Connection) -> None:
        """Raise UnusableConnectionError if bytes wait on a connection that was used before."""
        protocol = connection.protocol
        if protocol is None:
            return
        has_waiting_bytes = self._used.get(ref(protocol))
        if has_waiting_bytes is None:
            self._used[ref(protocol, self._used.pop)] = _watch_socket(protocol)
        elif protocol.should_close or has_waiting_bytes():
            raise UnusableConnectionError


def _watch_socket(protocol: ResponseHandler) -> Callable[[], object]:
    """Return a function that tells whether the socket has bytes that the loop has not read, or its end."""
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
