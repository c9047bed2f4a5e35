"""The lifespans of toolsets: opened with the first turn that needs them, closed after the last.

Each event loop has its own, because a connection belongs to one loop. A lifespan is entered and left
in one task, which some libraries require. This module must never call a tool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from holdfast.core.errors import MiddlewareError
from holdfast.core.redaction import redact
from holdfast.middleware.hooks import HOOK_TIMEOUT
from holdfast.tools.toolset import Lifespan

A = TypeVar("A")

_log = logging.getLogger("holdfast")
_closing: set[asyncio.Task[None]] = set()


class _OpenResource:
    """One lifespan on one event loop: the task that holds it open, and the number of its users."""

    __slots__ = ("_close", "_opened", "_task", "users")

    def __init__(self, lifespan: Lifespan, toolset: str) -> None:
        self.users = 0
        self._close = asyncio.Event()
        self._opened: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold_open(lifespan, toolset))

    async def _hold_open(self, lifespan: Lifespan, toolset: str) -> None:
        try:
            async with AsyncExitStack() as stack:
                limit = asyncio.timeout(HOOK_TIMEOUT)
                async with limit:
                    value = await stack.enter_async_context(lifespan())
                if not self._opened.done():
                    self._opened.set_result(value)
                await self._close.wait()
        except asyncio.CancelledError:
            self._opened.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # REASON: the lifespan is the user's code
            self._note_failure(error, toolset)

    def _note_failure(self, error: Exception, toolset: str) -> None:
        kind = type(error).__name__
        private = redact(f"{kind}: {error}")
        if self._opened.done():
            _log.warning("the lifespan of toolset %s failed to close: %s", toolset, private)
            return
        failure = MiddlewareError(
            "toolset", f"{toolset}.lifespan", f"raised {kind}", private=private
        )
        failure.__cause__ = error
        self._opened.set_exception(failure)

    async def wait_until_open(self) -> object:
        """Return what the lifespan has yielded. Raises MiddlewareError when it failed."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Leave the lifespan, and wait until that is done."""
        self._close.set()
        if not self._opened.done():
            self._task.cancel()  # nobody waits for it any more
        _closing.add(self._task)
        self._task.add_done_callback(_closing.discard)
        await asyncio.wait([self._task])


class ResourcePool:
    """The open lifespans of one agent."""

    __slots__ = ("_kept", "_open")

    def __init__(self) -> None:
        self._open: dict[tuple[asyncio.AbstractEventLoop, Lifespan], _OpenResource] = {}
        self._kept: dict[asyncio.AbstractEventLoop, list[AsyncExitStack]] = {}

    async def enter(self, lifespans: Mapping[Lifespan, str], owner: A) -> A:
        """Keep lifespans open until `leave` is called on the same event loop; return the owner."""
        stack = AsyncExitStack()
        await stack.enter_async_context(self.keep_open(lifespans))
        self._kept.setdefault(asyncio.get_running_loop(), []).append(stack)
        return owner

    async def leave(self) -> None:
        """End what the last `enter` on this event loop has begun."""
        loop = asyncio.get_running_loop()
        stack = self._kept[loop].pop()
        if not self._kept[loop]:
            del self._kept[loop]
        await stack.aclose()

    @asynccontextmanager
    async def keep_open(
        self, lifespans: Mapping[Lifespan, str]
    ) -> AsyncIterator[Mapping[Lifespan, object]]:
        """Keep lifespans open, and yield what each has yielded.

        Args:
            lifespans: the lifespans, each with the name of its toolset.

        Raises:
            MiddlewareError: a lifespan raised, or did not open in time.
        """
        async with AsyncExitStack() as stack:
            yield {
                lifespan: await stack.enter_async_context(self._use(lifespan, toolset))
                for lifespan, toolset in lifespans.items()
            }

    @asynccontextmanager
    async def _use(self, lifespan: Lifespan, toolset: str) -> AsyncIterator[object]:
        key = (asyncio.get_running_loop(), lifespan)
        resource = self._open.get(key)
        if resource is None:
            resource = self._open[key] = _OpenResource(lifespan, toolset)
        resource.users += 1
        try:
            yield await resource.wait_until_open()
        finally:
            resource.users -= 1
            if not resource.users:
                del self._open[key]
                await resource.close()
