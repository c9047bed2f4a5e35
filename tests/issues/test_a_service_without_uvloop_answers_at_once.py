"""Each request to `holdfast serve` took 44 ms where uvloop was not installed: asyncio sends small pieces
at once only for sockets that name their protocol, and the kernel held the second piece of an answer back.
"""

from __future__ import annotations

import socket
from contextlib import closing

from holdfast.cli.listening import listen


def test_a_service_without_uvloop_answers_at_once() -> None:
    with (
        closing(listen("--port", "127.0.0.1", 0)) as listener,
        closing(socket.create_connection(listener.getsockname())),
    ):
        accepted, _ = listener.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
