"""A process with a real agent, computed from the outcomes that it received.

The agent, its runtime and its journal port are the real ones; every touch of the outside (read the
journal, keep a record, act, ask a person) stops at a gate and goes on with the outcome that the
explorer gave. The same log of outcomes always leads to the same place, so a process need not live
between two looks at it.
"""

from __future__ import annotations

import asyncio
from asyncio import events as running
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Self, TypeAlias

from tests.crash.explored_turns import RUN, Story

from holdfast import Agent, Limits, Middleware, RecoveryStatus, RetryOptions, tool
from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.errors import (
    ConflictError,
    ErrorCategory,
    ErrorInfo,
    ProviderError,
    TransportError,
)
from holdfast.core.events import Event
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import Approved, PermissionQuestion
from holdfast.core.session_state import Phase
from holdfast.journal.journal_errors import LeaseLostError, RunChangedError
from holdfast.journal.port import Record, RunEntry
from holdfast.middleware import AfterIteration, BeforeTurn, Deny, Stop
from holdfast.resilience.pipeline import CallContext, Done, Outcome, failed_outcome
from holdfast.tools.context import ToolContext
from holdfast.tools.tool import ToolEffect

CANCEL = "cancel"
CONFLICT = "conflict"
OUTAGE = "outage"
FENCED = "fenced"
CHANGED = "changed"

Kind: TypeAlias = Literal["leases", "keys"]
"""A journal with leases, or one without."""

Log = tuple[tuple[str, Any], ...]
"""What a process was told, in order: the label of a gate and the outcome there."""


@dataclass(frozen=True)
class View:
    """The state of a process: what it waits for, what it streamed, and how it ended."""

    waiting: Mapping[str, Any]
    shown: tuple[Event, ...]
    ended: str
    """ "" while it runs, "returned", or the name of what it raised."""


class StillLoop(asyncio.BaseEventLoop):
    """An event loop that runs ready callbacks and in which no time passes."""

    def settle(self) -> None:
        """Run until nothing is ready."""
        running._set_running_loop(self)
        try:
            while self._ready:  # type: ignore[attr-defined]
                self._ready.popleft()._run()  # type: ignore[attr-defined]
        finally:
            running._set_running_loop(None)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def time(self) -> float:
        return 0.0


class StillClock:
    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.get_running_loop().create_future()


@dataclass
class Gates:
    """The gates at which the process waits."""

    loop: StillLoop
    waiting: dict[str, tuple[asyncio.Future[Any], Any]] = field(default_factory=dict)
    closed: bool = False

    async def pass_through(self, label: str, payload: Any = None) -> Any:
        if self.closed:
            raise asyncio.CancelledError
        while label in self.waiting:
            label += "'"
        future = self.loop.create_future()
        self.waiting[label] = (future, payload)
        try:
            outcome = await future
        finally:
            self.waiting.pop(label, None)
        if outcome == CONFLICT:
            raise ConflictError("another driver was faster")
        if outcome == FENCED:
            raise LeaseLostError(RUN, "another driver has taken over")
        if outcome == CHANGED:
            raise RunChangedError(RUN)
        return outcome


class GatedLog:
    """The records of the run, behind gates."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await self.gates.pass_through(f"keep {event.key}", (event, effect, marker, None))

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        if run != RUN:
            return ()  # no tool of a story is an agent
        records: tuple[Record, ...] = await self.gates.pass_through("read")
        return records[after:]


class GatedJournal(GatedLog):
    """A journal without leases."""

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        machine = SessionMachine()
        for record in await self.read(RUN):
            machine.apply(record.event)
        if machine.phase is Phase.IDLE:
            return ()
        return (RunEntry(RUN, machine.event_count, 0.0, 0.0, turn_open=True, agent="agent"),)

    tenant = ""

    def for_tenant(self, tenant: str) -> Self:
        raise NotImplementedError

    async def find_request(self, request: str) -> tuple[str, str] | None:
        raise NotImplementedError

    async def find_requests(self, first: str, last: str) -> Sequence[str]:
        raise NotImplementedError

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        raise NotImplementedError

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        raise NotImplementedError

    async def save_act(self, act: Act) -> None:
        raise NotImplementedError

    async def find_act(self, act_id: str) -> Act | None:
        raise NotImplementedError

    async def list_acts(self, session: str, limit: int = 100) -> Sequence[Act]:
        raise NotImplementedError


class GatedLease(GatedLog):
    run = RUN

    def __init__(self, gates: Gates, token: int) -> None:
        super().__init__(gates)
        self.token = token

    async def release(self) -> None:
        """A released lease counts as an expired one."""


class PreparedLease(GatedLease):
    """A lease that its first append claims, if the run has this many records."""

    def __init__(self, gates: Gates, records: int) -> None:
        super().__init__(gates, 0)
        self.version = (1, records)

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        version = None if self.token else self.version[1]
        label = f"keep {event.key}"
        token = await self.gates.pass_through(label, (event, effect, marker, version))
        self.token = self.token or token


class SharedGatedJournal(GatedJournal):
    """A journal with leases; the explorer decides when a lease expires."""

    lease_seconds = 30.0

    async def claim(self, run: str) -> GatedLease:
        return GatedLease(self.gates, await self.gates.pass_through("claim"))

    def prepare_lease(self, run: str, version: tuple[int, int]) -> PreparedLease:
        return PreparedLease(self.gates, version[1])


REFUSED = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="no", status=400)


class GatedModel:
    name = "gated:model"
    model = "model"
    account = "nobody"

    def __init__(self, gates: Gates, story: Story) -> None:
        self._gates = gates
        self._story = story

    def describe(self) -> Mapping[str, object]:
        return {"model": self.name}

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        messages = tuple(call.payload.messages)
        if await self._gates.pass_through(f"act {call.key}", messages) == OUTAGE:
            return failed_outcome(TransportError("the provider is down"))
        if self._story.refuses(messages):
            return failed_outcome(ProviderError("no", info=REFUSED))
        return Done(self._story.reply(messages))


@cache
def _tool(name: str, effect: ToolEffect, *, asks: bool) -> Any:
    """Return a tool, made once; `deps` has the gates of the process."""

    @tool(name=name, effect=effect)
    async def act(context: ToolContext[Gates]) -> str:
        """Act."""
        if asks:
            answer = await context.ask(PermissionQuestion(tool=name), timeout=None)
            if not isinstance(answer, Approved):
                return "denied"
        await context.deps.pass_through(f"act {context.key}", name)
        return f"{name} did {context.key}"

    return act


class AskBefore(Middleware):
    async def before_turn(self, context: BeforeTurn) -> Deny | None:
        answer = await context.ask(PermissionQuestion(tool="begin"), timeout=None)
        return None if isinstance(answer, Approved) else Deny("denied")


class AskAfter(Middleware):
    async def after_iteration(self, context: AfterIteration) -> Stop | None:
        answer = await context.ask(PermissionQuestion(tool="go on"), timeout=None)
        return None if isinstance(answer, Approved) else Stop("denied")


_JOURNALS: Mapping[Kind, Callable[[Gates], GatedJournal]] = {
    "leases": SharedGatedJournal,
    "keys": GatedJournal,
}


def _middleware(story: Story) -> list[Middleware]:
    before: list[Middleware] = [AskBefore()] if story.asks_before else []
    after: list[Middleware] = [AskAfter()] if story.asks_after else []
    return before + after


def _agent(gates: Gates, story: Story, kind: Kind) -> Agent[str]:
    async def person(request: PermissionQuestion) -> object:
        await gates.pass_through(f"ask {request.key}")
        return request.approve()

    return Agent(
        GatedModel(gates, story),
        tools=[_tool(name, plan.effect, asks=plan.asks) for name, plan in story.tools.items()],
        middleware=_middleware(story),
        journal=_JOURNALS[kind](gates),
        on_question=person,
        limits=Limits(),
        retry=RetryOptions(max_retries=0),
        clock=StillClock(),
        rng=lambda: 0.5,
    )


def view(story: Story, begins: str, log: Log, kind: Kind) -> View:
    """Start a process, give it all outcomes so far, and return its state.

    Args:
        story: the conversation.
        begins: "run" for the first message, "message" for another one, "resume" or "recover".
        log: the outcomes so far.
        kind: the kind of journal.
    """
    loop = StillLoop()
    loop.set_exception_handler(lambda *_: None)
    gates = Gates(loop)
    shown: list[Event] = []
    agent = _agent(gates, story, kind)

    async def main() -> None:
        if begins == "resume":
            await agent.resume(RUN, deps=gates)
            return
        if begins == "recover":
            for one in await agent.recover(deps=gates, seconds=None):
                if one.error is not None and one.status is not RecoveryStatus.LEFT_OPEN:
                    raise one.error
            return
        async with agent.stream(f"please {begins}", session=RUN, deps=gates) as run:
            async for item in run:
                if isinstance(item, Event):  # type: ignore[misc,arg-type]
                    shown.append(item)  # noqa: PERF401  # REASON: kept also when it is cut short
            assert run.result.output

    task = loop.create_task(main())
    loop.settle()
    for label, outcome in log:
        if label == CANCEL:
            task.cancel()
        else:
            gates.waiting[label][0].set_result(outcome)
        loop.settle()
    ended = _ended(task)
    waiting = {label: payload for label, (_, payload) in gates.waiting.items()}
    _forget(gates)
    return View(waiting, tuple(shown), ended)


def _ended(task: asyncio.Task[None]) -> str:
    if not task.done():
        return ""
    if task.cancelled():
        return "CancelledError"
    error = task.exception()
    return "returned" if error is None else f"{type(error).__name__}: {error}"


def _forget(gates: Gates) -> None:
    """Let the tasks end, so that none is destroyed while it is pending."""
    gates.closed = True
    while tasks := asyncio.all_tasks(gates.loop):
        for task in tasks:
            task.cancel()
        gates.loop.settle()
    gates.loop.close()
