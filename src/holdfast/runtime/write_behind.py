"""The records of a turn that are on their way into its journal while the turn goes on.

A reply of the model is kept together with the record that follows it, tools that change nothing run
meanwhile, and the model is asked while the results that came last are being kept. Nothing else may
happen before what it rests on is kept: no tool begins that may change something, no hook is called,
the model is not asked again, and nobody is shown anything. This module must never let a record be
kept whose predecessor was not.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context

from holdfast.core.effects import Effect, RunTool
from holdfast.core.events import Event, ModelReplied, ToolFinished, ToolsBegun
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import ReplyKind
from holdfast.core.notices import Notice
from holdfast.journal.port import Enqueue, HandedOver, RunLog, Then
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout
from holdfast.runtime.channel import wake_all
from holdfast.runtime.plan import AgentPlan
from holdfast.telemetry.observers import Publish


def enqueue_of(log: RunLog) -> Enqueue | None:
    """How records are handed over to this log; None when each must be waited for.

    Also for a journal, or a subclass, with an `append` of its own and no `enqueue` of its own: it
    wants to see each.
    """
    for members in (getattr(log, "__dict__", {}), *map(vars, type(log).__mro__)):
        if "append" in members or "enqueue" in members:
            enqueue: Enqueue | None = getattr(log, "enqueue", None)
            return enqueue if "enqueue" in members else None
    return None


def goes_ahead(
    machine: SessionMachine, event: Event, plan: AgentPlan, *, all_kept: bool, keeping: int
) -> bool:
    """Whether the turn may go on before this event is kept.

    After a reply it may when the next record follows at once and is waited for: the marker before
    its tools, or the end of the turn. After the marker it may when none of the tools changes
    anything. After the last result of a reply it may when the reply is kept, as what comes next is
    to ask the model, or again the end of the turn; and then it need not wait for the others either.

    Args:
        machine: before the event.
        event: what happened.
        plan: of the agent; answers that it checks are not gone ahead of.
        all_kept: whether all records before this one are, but for other results of the reply.
        keeping: how many events are being kept and not believed yet, with this one.
    """
    kind = type(event)
    if kind is ToolFinished:
        return all_kept and len(machine.pending_effects()) == keeping
    if kind is ToolsBegun:
        return all(_only_reads(effect, plan) for effect in machine.pending_effects())
    if isinstance(event, ModelReplied):
        reply = event.reply
        checked = plan.output is not None
        return bool(reply.calls) or not (checked or reply.kind is ReplyKind.PAUSED)
    return False


def _only_reads(effect: Effect, plan: AgentPlan) -> bool:
    tool = plan.registry.get(effect.call.name) if isinstance(effect, RunTool) else None
    return tool is not None and tool.effect == "read"


class WriteBehind:
    """The records of one turn that are not kept yet, and what may not be shown before they are.

    Args:
        enqueue: hands a record over.
        show: shows an event or a notice; None when nobody looks.
    """

    __slots__ = (
        "_context",
        "_enqueue",
        "_last",
        "_limit",
        "_on_the_way",
        "_results",
        "_show",
        "_unshown",
        "_waiters",
        "error",
    )

    def __init__(self, enqueue: Enqueue, show: Publish | None) -> None:
        self._enqueue = enqueue
        self._show = show
        self._context: Context | None = None
        self._last: HandedOver | None = None
        self._limit: PausableTimeout | None = None
        self._on_the_way = 0
        self._results: list[asyncio.Future[None]] = []
        self._unshown: list[Event | Notice] = []
        self._waiters: list[asyncio.Future[None]] = []
        self.error: BaseException | None = None
        """Why a record could not be kept; none is kept after it."""

    @property
    def all_kept(self) -> bool:
        """Whether nothing is on its way that was not waited for."""
        return self._on_the_way == len(self._results)

    async def hand_over(
        self, run: str, event: Event, effect: Effect | None, limit: PausableTimeout | None
    ) -> None:
        """Let an event be kept; returns at once.

        Args:
            run: the run.
            event: what happened.
            effect: what it ends.
            limit: that of the turn, which is over when the event cannot be kept.
        """
        self._hand_over(run, event, effect, limit, self._over)

    async def keep_result(
        self, run: str, event: Event, effect: Effect | None, limit: PausableTimeout | None
    ) -> None:
        """Keep the result of a tool; returns when it is kept, or when `let_go` is called.

        Args:
            run: the run.
            event: the result.
            effect: the call.
            limit: that of the turn.

        Raises:
            BaseException: it cannot be kept.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def over(error: BaseException | None) -> None:
            if waiter in self._results:
                self._results.remove(waiter)
            if not waiter.done():
                waiter.set_result(None)
            self._over(error)

        self._hand_over(run, event, effect, limit, over)
        self._results.append(waiter)
        await waiter
        if self.error is not None:
            raise self.error

    def let_go(self) -> None:
        """The last result of a reply has come: nobody waits for the others any more."""
        wake_all(self._results)

    def _hand_over(
        self,
        run: str,
        event: Event,
        effect: Effect | None,
        limit: PausableTimeout | None,
        then: Then,
    ) -> None:
        self._last = self._enqueue(run, event, effect, after=self._last, then=then)
        self._limit = limit
        self._on_the_way += 1
        if self._show is not None:
            # Observers look into it for whose request it is, and the journal's thread has another.
            self._context = copy_context()

    async def append(self, run: str, event: Event, effect: Effect | None) -> None:
        """Keep an event after all those before; returns when it is kept, and they are."""
        await self._enqueue(run, event, effect, after=self._last)

    def tell(self, item: Event | Notice) -> None:
        """Show this once everything before it is kept; never when that cannot be kept."""
        if not self.all_kept:
            self._unshown.append(item)
        elif self.error is None and self._show is not None:
            self._show(item)

    async def until_kept(self) -> None:
        """Wait until everything that was handed over is kept.

        Raises:
            BaseException: why it cannot be kept; a HoldfastError unless the log knows others.
        """
        await self.until_settled()
        if self.error is not None:
            raise self.error

    async def until_settled(self) -> None:
        """Wait until everything that was handed over is kept or cannot be."""
        while not self.all_kept:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _over(self, error: BaseException | None) -> None:
        self._on_the_way -= 1
        if error is not None and self.error is None:
            self.error = error
            if self._limit is not None:
                self._limit.expire_now()  # the model would be asked for nothing
        if not self._on_the_way:
            self._last = None
        if not self.all_kept:
            return
        unshown, self._unshown = self._unshown, []
        wake_all(self._waiters)
        context, self._context = self._context, None
        if self.error is None and self._show is not None and context is not None:
            for item in unshown:
                context.run(self._show, item)
