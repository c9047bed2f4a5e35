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
    """A kept connection cannot carry the request; no byte of the request was sent on it."""


class UsedConnections:
    """Checks each connection that has carried a request before it carries another one."""

    __slots__ = ("_used",)

    def __init__(self) -> None:
        # With each connection a function that tells whether bytes wait on its socket.
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
