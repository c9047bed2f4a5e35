"""The lifespans of toolsets: each is open while a turn or the agent's block needs it, and opened anew when it dies.

A lifespan is opened with the first turn that needs it, and closed after the last. Each event loop has its own,
because a connection belongs to one loop. A lifespan is entered and left in one task, which some libraries
require.

A resource dies when its lifespan ends by itself, or when somebody says so. It is opened anew by the next list of
tools, and the dead one is left when no turn holds it any more: a turn holds the resource of its last list. This
module must never list or run a tool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from holdfast.core.errors import MiddlewareError
from holdfast.core.redaction import redact
from holdfast.middleware.hooks import HOOK_TIMEOUT
from holdfast.tools.toolset import Lifespan, LifespanUse, Resource

A = TypeVar("A")

_FIRST_WAIT: Final = 0.2  # seconds
_LONGEST_WAIT: Final = 30.0

_log = logging.getLogger("holdfast")
_closing: set[asyncio.Task[None]] = set()


class _OpenResource:
    """One opening of one lifespan: the task that holds it open, and the number of turns that hold it."""

    __slots__ = ("_close", "_opened", "_task", "holders", "is_retired")

    def __init__(self, lifespan: Lifespan, toolset: str) -> None:
        self.holders = 0
        self.is_retired = False
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
        except asyncio.CancelledError as error:
            if self._close.is_set():
                self._opened.cancel()
                raise
            self._record_failure(error, toolset)
        except Exception as error:  # noqa: BLE001  # REASON: the lifespan is the user's code
            self._record_failure(error, toolset)

    def _record_failure(self, error: BaseException, toolset: str) -> None:
        kind = type(error).__name__
        private = redact(f"{kind}: {error}")
        if self._opened.done():
            problem = "failed to close" if self._close.is_set() else "ended by itself"
            _log.warning("the lifespan of toolset %s %s: %s", toolset, problem, private)
            return
        failure = MiddlewareError(
            "toolset", f"{toolset}.lifespan", f"raised {kind}", private=private
        )
        failure.__cause__ = error
        self._opened.set_exception(failure)
        self._opened.exception()  # whoever waits for it gets it; nobody may

    @property
    def is_dead(self) -> bool:
        """Whether it cannot be used: its lifespan has ended, or somebody has said so."""
        return self.is_retired or self._task.done()

    async def wait_until_open(self) -> object:
        """Return the value that the lifespan has yielded. Raises MiddlewareError when it failed."""
        return await asyncio.shield(self._opened)

    def begin_close(self) -> asyncio.Task[None]:
        """Begin to leave the lifespan; return the task that does it."""
        if not self._close.is_set():
            self._close.set()
            if not self._opened.done():
                self._task.cancel()  # nobody waits for it any more
            if not self._task.done():
                _closing.add(self._task)
                self._task.add_done_callback(_closing.discard)
        return self._task


class _Slot:
    """One lifespan on one event loop, while somebody needs it: its resource, and when it is opened anew.

    Args:
        lifespan: the lifespan.
        use: the toolset that needs it.
    """

    __slots__ = (
        "_current",
        "_failure",
        "_failures",
        "_lifespan",
        "_next_try",
        "_retired",
        "use",
        "users",
    )

    def __init__(self, lifespan: Lifespan, use: LifespanUse) -> None:
        self._lifespan = lifespan
        self.use = use
        self.users = 0
        self._current: _OpenResource | None = None
        self._retired: set[_OpenResource] = set()
        self._failure: MiddlewareError | None = None
        self._failures = 0
        self._next_try = 0.0

    def begin_open(self) -> _OpenResource | None:
        """Return the resource that is open or is being opened; None before the time of the next try."""
        current = self._current
        if current is not None and current.is_dead:
            self.retire(current)
            current = None
        if current is None:
            if self._failures and asyncio.get_running_loop().time() < self._next_try:
                return None
            current = self._current = _OpenResource(self._lifespan, self.use.toolset)
        return current

    async def open(self) -> tuple[_OpenResource, object] | None:
        """Return the open resource and its value; None if it cannot be opened now.

        Raises:
            MiddlewareError: it cannot be opened, and is required.
        """
        resource = self.begin_open()
        if resource is not None:
            try:
                value = await resource.wait_until_open()
            except MiddlewareError as error:
                self._record_failure(resource, error)
            else:
                self._failures = 0
                return resource, value
        if self.use.is_required and self._failure is not None:
            raise self._failure.with_traceback(None)
        return None

    def _record_failure(self, resource: _OpenResource, error: MiddlewareError) -> None:
        """Note that an opening failed, once for all that waited for it."""
        if self._current is not resource:
            return
        self._current = None
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self._failures, 10))
        self._failures += 1
        self._failure = error
        self._next_try = asyncio.get_running_loop().time() + wait
        if not self.use.is_required:
            _log.warning(
                "the lifespan of toolset %s cannot be opened, so its tools are left out: %s",
                self.use.toolset,
                error.info.private,
            )

    def retire(self, resource: _OpenResource) -> None:
        """Note that a resource is dead: the next use opens the lifespan anew."""
        if resource is self._current:
            self._current = None
            resource.is_retired = True
            self._retired.add(resource)
            self._leave_retired(resource)

    def release(self, resource: _OpenResource) -> None:
        """Note that a turn does not hold a resource any more."""
        resource.holders -= 1
        self._leave_retired(resource)

    def _leave_retired(self, resource: _OpenResource) -> None:
        if resource.is_retired and not resource.holders:
            task = resource.begin_close()
            task.add_done_callback(lambda _: self._retired.discard(resource))

    async def close(self) -> None:
        """Leave the lifespan, and wait until that is done."""
        left = set(self._retired) if self._current is None else {self._current, *self._retired}
        if left:
            await asyncio.wait([one.begin_close() for one in left])


class TurnResources:
    """The resources that one turn holds: for each lifespan that of the turn's last list of tools.

    Args:
        slots: the lifespans of the turn.
    """

    __slots__ = ("_held", "_recent", "_slots")

    def __init__(self, slots: Mapping[Lifespan, _Slot]) -> None:
        self._slots = slots
        self._held: dict[Lifespan, _OpenResource] = {}
        self._recent: list[Resource] = []

    async def find(self, lifespan: Lifespan) -> Resource | None:
        """Return the open resource of a lifespan; None if it cannot be opened now.

        Raises:
            MiddlewareError: it cannot be opened, and is required.
        """
        slot = self._slots[lifespan]
        opened = await slot.open()
        if opened is None:
            self._hold(lifespan, None)
            return None
        resource, value = opened
        self._hold(lifespan, resource)
        found = Resource(value, partial(slot.retire, resource))
        self._recent.append(found)
        return found

    def _hold(self, lifespan: Lifespan, resource: _OpenResource | None) -> None:
        before = self._held.pop(lifespan, None)
        if resource is not None:
            resource.holders += 1
            self._held[lifespan] = resource
        if before is not None:
            self._slots[lifespan].release(before)

    def take_recent(self) -> list[Resource]:
        """Return the resources that were found since the last call."""
        recent, self._recent = self._recent, []
        return recent

    def release(self) -> None:
        """Hold nothing any more."""
        for lifespan in list(self._held):
            self._hold(lifespan, None)


NO_RESOURCES: Final = TurnResources({})
"""Those of a turn without a lifespan."""


class ResourcePool:
    """The open lifespans of one agent."""

    __slots__ = ("_kept", "_slots")

    def __init__(self) -> None:
        self._slots: dict[tuple[asyncio.AbstractEventLoop, Lifespan], _Slot] = {}
        self._kept: dict[asyncio.AbstractEventLoop, list[AsyncExitStack]] = {}

    async def enter(self, lifespans: Mapping[Lifespan, LifespanUse], owner: A) -> A:
        """Keep lifespans open until `leave` is called on the same event loop; return the owner.

        Raises:
            MiddlewareError: a required lifespan cannot be opened.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.keep_open(lifespans))
            self._kept.setdefault(asyncio.get_running_loop(), []).append(stack.pop_all())
        return owner

    async def leave(self) -> None:
        """Release the lifespans of the last `enter` on this event loop."""
        loop = asyncio.get_running_loop()
        stack = self._kept[loop].pop()
        if not self._kept[loop]:
            del self._kept[loop]
        await stack.aclose()

    @asynccontextmanager
    async def keep_open(
        self, lifespans: Mapping[Lifespan, LifespanUse]
    ) -> AsyncIterator[TurnResources]:
        """Open lifespans at the same time, keep them open, and yield their resources.

        One that cannot be opened and is not required is tried again when it is needed.

        Args:
            lifespans: the lifespans.

        Raises:
            MiddlewareError: a required lifespan raised, or did not open in time.
        """
        async with AsyncExitStack() as stack:
            slots: dict[Lifespan, _Slot] = {}
            for lifespan, use in lifespans.items():
                slots[lifespan] = self._use(lifespan, use)
                stack.push_async_callback(self._stop_use, lifespan)
                slots[lifespan].begin_open()
            for slot in slots.values():
                await slot.open()
            resources = TurnResources(slots)
            stack.callback(resources.release)
            yield resources

    def _use(self, lifespan: Lifespan, use: LifespanUse) -> _Slot:
        key = (asyncio.get_running_loop(), lifespan)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(lifespan, use)
        slot.users += 1
        return slot

    async def _stop_use(self, lifespan: Lifespan) -> None:
        """Stop to use a lifespan, and leave it after its last use."""
        key = (asyncio.get_running_loop(), lifespan)
        slot = self._slots[key]
        slot.users -= 1
        if not slot.users:
            del self._slots[key]
            await slot.close()
