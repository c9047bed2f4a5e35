"""Counts the tasks of each event loop that wait for the network, so that a fake clock can hold.

A request on a real socket takes real time. Virtual time that went on meanwhile would end the waits
of other tasks, such as those in the queue of the rate limiter, before the response can come. This
module imports no HTTP client.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from weakref import WeakKeyDictionary


class NetworkWaits:
    """How many tasks of one event loop wait for the network now; each of them counts itself."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_BY_LOOP: WeakKeyDictionary[AbstractEventLoop, NetworkWaits] = WeakKeyDictionary()


def find_network_waits(loop: AbstractEventLoop | None = None) -> NetworkWaits:
    """Return the waits of an event loop, of the running one by default.

    >>> async def count_waits():
    ...     return find_network_waits().count
    >>> asyncio.run(count_waits())
    0
    """
    loop = loop or asyncio.get_running_loop()
    waits = _BY_LOOP.get(loop)
    if waits is None:
        waits = _BY_LOOP[loop] = NetworkWaits()
    return waits
