"""Checks that an asyncio event loop is running, before anything is started on it.

Without the check, other event loops such as trio fail somewhere inside, and leave coroutines that were
never awaited. This module must never start a loop.
"""

from __future__ import annotations

import asyncio

from holdfast.core.errors import ConfigurationError


def require_asyncio() -> None:
    """Raise ConfigurationError unless the caller runs on an asyncio event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_running = False
    else:
        is_running = True
    if not is_running:
        raise ConfigurationError(
            "event loop",
            "an agent runs on asyncio, and no asyncio event loop is running here",
            fix="Start the program with asyncio.run(...). From trio, call agent.run_sync(...) in a "
            "thread: await trio.to_thread.run_sync(agent.run_sync, prompt)",
        )
