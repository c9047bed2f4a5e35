"""The provider of the killed runs: an emulator over HTTP in a process that is not killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.crash.marked_runs import choose_reply, faults

from holdfast.testing import Emulator


@contextmanager
def provider() -> Iterator[str]:
    """Serve in a fork, and yield the base URL."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            asyncio.run(_serve(writing))
        finally:
            os._exit(1)
    os.close(writing)
    try:
        base_url = os.read(reading, 1000).decode()
        assert base_url, "the provider did not start"
        yield base_url
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def _serve(writing: int) -> None:
    async with Emulator(choose_reply, faults=faults) as emulator:
        os.write(writing, emulator.base_url.encode())
        await asyncio.Event().wait()
