"""Tells whether a kept connection can carry another request.

A server may send bytes that nobody asked for on an idle connection, such as a second response. The
client library would take them for the response to the next request. A connection that the server has
closed meanwhile looks the same: its socket is readable.
"""

from __future__ import annotations

import select
from weakref import ref

from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection


class UnusableConnectionError(Exception):
    """A kept connection has bytes that nobody asked for; no byte of the request was sent on it."""


class UsedConnections:
    """Checks each connection that has carried a request before it carries another one."""

    __slots__ = ("_used",)

    def __init__(self) -> None:
        self._used: set[ref[ResponseHandler]] = set()

    def check_connection(self, connection: Connection) -> None:
        """Raise UnusableConnectionError if bytes wait on a connection that was used before."""
        protocol = connection.protocol
        if protocol is None:
            return
        if ref(protocol) not in self._used:
            self._used.add(ref(protocol, self._used.discard))
        elif protocol.should_close or _has_waiting_bytes(protocol):
            raise UnusableConnectionError


def _has_waiting_bytes(protocol: ResponseHandler) -> bool:
    """Whether the socket has bytes that the event loop has not read yet, or its end."""
    transport = protocol.transport
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None:
        return False
    number = sock.fileno()
    if not hasattr(select, "poll"):
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
