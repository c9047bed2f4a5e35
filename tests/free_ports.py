"""Ports for servers that a test stops and starts again at the same address."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """Return a port of loopback that nobody uses, below those that systems give to connections.

    One of those may be taken by any connection while the server is away.
    """
    dice = random.SystemRandom()  # Hypothesis seeds the other one
    while True:
        port = dice.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
