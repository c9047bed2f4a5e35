"""A worker: drives the turns of an inbox with the agents of this process.

It stops at the end of its block or at a signal: it cuts model calls and reading tools,
awaits writing tools for a while, and hands back the turns that have not ended. This module must never speak HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    contextmanager,
    nullcontext,
)
from functools import partial
from types import TracebackType
from typing import Annotated, Self

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import HoldfastError
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.token_quota import TokenQuota
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, name_queue
from holdfast.journal.inbox.driving import EntryOutcome
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox import InboxChanges, QueueDepth
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.inbox.opening_inbox import open_inbox, open_schedules
from holdfast.journal.inbox.worker_entries import WorkerInfo, find_seconds_to_live
from holdfast.journal.journal_errors import JournalError, JournalVersionError
from holdfast.journal.port import Journal, SharedJournal, VisibleProcesses
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.open_runs.turn_entries import find_entry_of_last_turn
from holdfast.worker.dispatcher import DirectTurns, Dispatcher
from holdfast.worker.engines.engine_opening import open_engine, share_link
from holdfast.worker.entry_driver import EntryDriver, is_answered
from holdfast.worker.loop_watchdog import watch_loop
from holdfast.worker.quarantine import Quarantine, QuarantineOptions
from holdfast.worker.sweep import SteadyBeats, Sweep

_SECONDS_BETWEEN_LOOKS = 0.25
_PAUSE = 0.5  # seconds before something is tried again that the journal could not save
_log = logging.getLogger("holdfast.worker")

HANDED_BACK = "handed_back"
"""The outcome of an entry that another worker is to have."""


class Worker:
    """Drives submitted turns: `async with Worker(agents, journal=...) as worker: await worker.run()`.

    Any number of workers, on any number of machines, may share a PostgreSQL journal. With a journal in
    memory or in a SQLite file, the worker drives the turns that its own process submits.

    Args:
        agents: one agent, or several with different names.
        journal: the journal or its address; by default that of the first agent.
        engine: carries the jobs: "postgres" in the database of the journal, "nats://host:4222", or
            "asyncio" in this process; by default the one that fits the journal.
        parallel: how many turns it drives at once.
        tenants: serve these tenants alone, which are then served by such workers alone.
        grace: how long the end waits for writing tools, in seconds.
        quarantine: when a turn is driven alone and when it is parked, since workers die of it.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> import asyncio
    >>> from holdfast import Agent
    >>> from holdfast.journal import MemoryJournal
    >>> from holdfast.testing import ScriptedModel
    >>> async def main():
    ...     agent = Agent(ScriptedModel("Hello."), name="greeter", journal=MemoryJournal())
    ...     async with Worker(agent):
    ...         run = await agent.submit("Hi.")
    ...         return await run.wait()
    >>> asyncio.run(main()).text
    'Hello.'
    """

    def __init__(
        self,
        agents: AnyAgent | Iterable[AnyAgent],
        *,
        journal: Journal | str | None = None,
        engine: DispatchEngine | str | None = None,
        parallel: int = 16,
        tenants: Collection[str] = (),
        grace: float = 60.0,
        quarantine: QuarantineOptions | None = None,
    ) -> None:
        service = ServiceTenants(agents, journal)
        lifetime = ServiceLifetime(service, grace)
        self._driving = EntryWorker(
            service,
            lifetime,
            engine,
            parallel=parallel,
            tenants=tenants,
            quarantine=quarantine,
        )

    @property
    def id(self) -> str:
        """The id of the worker, which `holdfast queue workers` and the console show."""
        return self._driving.info.id

    async def __aenter__(self) -> Self:
        await self._driving.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._driving.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Work until the process is told to stop, by SIGTERM or SIGINT, and what is due then is done."""
        await self._driving.run()

    def begin_stop(self) -> None:
        """Begin no more turns, and hand back those in progress; on the event loop."""
        self._driving.begin_stop()


class EntryWorker:
    """Drives the entries of an inbox with the agents of a process: `async with` enters its lifetime, too.

    Args:
        service: the agents of the process, for each tenant.
        lifetime: the lifetime of the service.
        engine: as for `Worker`; so are the arguments that follow.
        parallel: how many turns it drives at once.
        tenants: the tenants that it serves alone.
        quarantine: when a turn is driven alone and when it is parked.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        service: ServiceTenants,
        lifetime: ServiceLifetime,
        engine: DispatchEngine | str | None = None,
        *,
        parallel: int = 16,
        tenants: Collection[str] = (),
        quarantine: QuarantineOptions | None = None,
    ) -> None:
        check_value("quarantine", quarantine, QuarantineOptions | None)
        check_value("parallel", parallel, Annotated[int, between(1, 10_000)])
        check_value("tenants", tuple(tenants), tuple[str, ...])
        self._tenants, self._lifetime = service, lifetime
        service.prepare.append(self._prepare_tenant)
        shared = service.journal
        lease = shared.lease_seconds if isinstance(shared, SharedJournal) else math.inf
        seconds_to_live = find_seconds_to_live(lease)
        if engine is None or isinstance(engine, str):
            engine = open_engine(engine, shared, stall=seconds_to_live)
        self._engine = engine
        self._inbox = open_inbox(service.journal)
        self._schedules = open_schedules(service.journal)
        self._quota = TokenQuota(self._inbox, lifetime.grace)
        self._options = quarantine or QuarantineOptions()
        self._lease = lease
        self._driver = EntryDriver(service, self._quota, self._inbox, self._options.deaths_alone)
        self.info = WorkerInfo(
            id=new_run_id(),
            host=socket.gethostname(),
            process=os.getpid(),
            agents=tuple(service.agents),
            tenants=tuple(tenants),
            slots=parallel,
            engine=engine.name,
            started_at=time.time(),
            seconds_to_live=seconds_to_live,
            presence=shared.process if isinstance(shared, VisibleProcesses) else "",
        )
        """The entry of the worker that the others see."""
        self.counts = WorkerCounts()
        self._slots = JobSlots(parallel)
        self._quarantine = Quarantine(service, self._inbox, self._slots, self._options)
        self._beats = SteadyBeats(seconds_to_live)
        self._handled: dict[int, InboxEntry] = {}
        self._beginning: set[int] = set()
        self._turns: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._delivery: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    @property
    def driving(self) -> int:
        """How many entries it has now."""
        return len(self._handled)

    @property
    def is_stopping(self) -> bool:
        """Whether it begins no more turns."""
        return self._stopping is not None

    async def check(self) -> None:
        """Raise if it cannot work: the inbox does not answer, or nothing delivers jobs.

        Raises:
            JournalError: the inbox cannot be read.
            EngineError: the engine has stopped.
        """
        if self._delivery is None or self._delivery.done():
            raise EngineError(self._engine.name, "delivers no jobs", fix="Start the worker again")
        await self._inbox.find_cancelled(self.info.id)

    async def count_queued(self) -> Sequence[QueueDepth]:
        """Return how many entries each tenant has in each state. Raises JournalError."""
        return await self._inbox.count_entries()

    def _prepare_tenant(self, tenant: TenantService) -> None:
        """Leave the turns of the inbox to the inbox."""

        async def find_entry(session: str) -> InboxEntry | None:
            known = await find_entry_of_last_turn(self._inbox, tenant.journal, session)
            return known or await self._inbox.find_active(tenant.tenant, session)

        tenant.open_turns.leave_to_others(find_entry)
        self._quota.watch(tenant)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._engine.close)
            await self._engine.open()
            share_link(self._tenants, self._engine)
            await self._quota.read_limits()
            await self._inbox.note_worker(self.info)
            stack.push_async_callback(self._forget_worker)
            self._lifetime.on_stop = self.begin_stop
            await stack.enter_async_context(self._lifetime)
            stack.push_async_callback(self._stop)
            queues = self._name_queues()
            direct = DirectTurns(self.info.id, queues, self._slots, self._begin_taken)
            changes = stack.enter_context(self._inbox.watch(of_ends=False))
            self._dispatcher = Dispatcher(self._inbox, changes, self._engine, direct)
            steps = [self._fire_schedules, self._begin_forgotten]
            self._sweep = Sweep(self._inbox, self._engine, self._dispatcher, steps)
            self._sweep.note_failure = self.counts.note_failed_sweep
            self._sweep.may_take_over = self._beats.are_steady
            self._tenants.note_departed = partial(self._sweep.run_after, 0)
            if self._options.ends_when_blocked:
                stack.enter_context(self._watch_loop())
            self._delivery = asyncio.create_task(
                self._engine.run(self._handle, queues, self._slots), name="holdfast-delivery"
            )
            self._tasks = [
                asyncio.create_task(self._dispatcher.run(), name="holdfast-dispatcher"),
                asyncio.create_task(self._sweep.run(), name="holdfast-sweep"),
                asyncio.create_task(self._beat(), name="holdfast-heartbeat"),
                asyncio.create_task(
                    self._look_for_cancelled(changes.share()), name="holdfast-cancelling"
                ),
            ]
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def run(self) -> None:
        """Work until the process is told to stop, by SIGTERM or SIGINT, and what is due then is done."""
        with stop_at_sigterm(self._lifetime.begin_stop), ExitStack() as stack:
            if self._options.ends_when_blocked is None:
                stack.enter_context(self._watch_loop())
            await self._lifetime.wait_for_stop()

    def _watch_loop(self) -> AbstractContextManager[None]:
        """Return the watchdog that ends the process if its loop is blocked for longer than a lease."""
        return nullcontext() if math.isinf(self._lease) else watch_loop(self._lease)

    def begin_stop(self) -> None:
        """Begin no more turns, and hand back those in progress; on the event loop."""
        self._quarantine.note_change()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._say_stopping(), name="holdfast-stopping")
            if self._delivery is not None:
                self._delivery.cancel()
                self._dispatcher.is_stopping = True

    async def _stop(self) -> None:
        self.begin_stop()
        await self._lifetime.begin_stop()
        if self._delivery is not None:
            await asyncio.wait([self._delivery])  # the handlers hand their entries back
        while self._turns:
            await asyncio.wait(self._turns)
        if self._stopping is not None:
            await asyncio.wait([self._stopping])
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _say_stopping(self) -> None:
        """Let nothing more be admitted for the slots of this worker."""
        self.info = self.info.mark_stopping()
        try:
            await self._inbox.note_worker(self.info)
        except HoldfastError as error:
            _log.warning("the end of the worker cannot be saved now: %s", error)

    async def _forget_worker(self) -> None:
        try:
            await self._inbox.remove_worker(self.info.id)
        except HoldfastError as error:
            _log.warning("the worker cannot be removed now: %s", error)

    def _name_queues(self) -> list[str]:
        tenants = self.info.tenants or (None,)
        return [name_queue(agent, tenant) for agent in self.info.agents for tenant in tenants]

    async def _handle(self, entry_id: int) -> None:
        """Do a job; a job of an entry that is not to be driven here does nothing."""
        if entry_id in self._handled or entry_id in self._beginning:
            return
        self._beginning.add(entry_id)
        try:
            entry = await self._inbox.begin(entry_id, self.info.id)
        finally:
            self._beginning.discard(entry_id)
        if entry is not None:
            self._handled[entry_id] = entry
            await self._do(entry)

    async def _do(self, entry: InboxEntry) -> None:
        """Drive an entry, and save its outcome."""
        try:
            if self._quarantine.is_needed(entry) and self._quarantine.entry is None:
                await self._do_alone(entry)
                return
            is_refused = self._quarantine.entry is not None
            outcome = None if is_refused else await self._drive(entry)
            await self._save_outcome(entry, outcome)
            self.counts.note_outcome(outcome)
        finally:
            self._forget(entry)

    def _forget(self, entry: InboxEntry) -> None:
        """Note that an entry is not driven here any more, unless it was begun here again."""
        if self._handled.get(entry.id) is entry:
            del self._handled[entry.id]
        self._quarantine.note_change()

    async def _do_alone(self, entry: InboxEntry) -> None:
        """Drive an entry when the worker drives nothing else, and take nothing until that is saved."""
        self._quarantine.begin(entry)
        try:
            await self._save_isolating(is_isolating=True)
            alone = await self._quarantine.wait_until_alone(
                entry, self._handled, lambda: self.is_stopping
            )
            outcome = None if alone is None else await self._drive(alone)
            await self._save_outcome(entry, outcome)
            self.counts.note_outcome(outcome)
        finally:
            self._quarantine.end()
            await self._save_isolating(is_isolating=False)
            self._dispatcher.wake()

    async def _save_isolating(self, *, is_isolating: bool) -> None:
        """Let no more turns be admitted for the other slots of this worker, or let them be again."""
        self.info = replace(self.info, is_isolating=is_isolating)
        try:
            await self._inbox.note_worker(self.info)
        except HoldfastError as error:
            _log.info("it cannot be saved now that the worker drives a turn alone: %s", error)

    def _begin_taken(self, entry: InboxEntry) -> None:
        """Drive an entry that an admission gave to this worker, in a slot that is taken for it."""
        if entry.id in self._handled or entry.id in self._beginning:  # it was found by a sweep
            self._slots.release()
        else:
            self._handled[entry.id] = entry
            self._start(self._do(entry))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        """Do work in a slot that is taken for it."""
        task = asyncio.create_task(work, name="holdfast-entry")
        self._turns.add(task)
        task.add_done_callback(self._end_turn)

    def _end_turn(self, task: asyncio.Task[None]) -> None:
        self._turns.discard(task)
        self._slots.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a turn is begun again by the next sweep: %s", type(error).__name__)

    async def _begin_forgotten(self) -> None:
        """Begin the entries that this worker has and does not drive: the answer to an admission was lost."""
        for entry_id in await self._inbox.list_held(self.info.id):
            is_known = entry_id in self._handled or entry_id in self._beginning
            if not is_known and not self.is_stopping and self._slots.take(1):
                self._start(self._handle(entry_id))

    async def _drive(self, entry: InboxEntry) -> EntryOutcome | None:
        """Drive an entry; wait for the journal where it cannot be used."""
        while True:
            try:
                return await self._driver.drive(entry)
            except JournalVersionError as error:
                _log.error("the worker stops, since a newer one is needed: %s", error)
                self.begin_stop()
                return None
            except JournalError as error:
                if self._stopping is not None:
                    return None
                _log.warning("a turn waits for the journal: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _save_outcome(self, entry: InboxEntry, outcome: EntryOutcome | None) -> None:
        """Save the outcome of an entry; wait for the journal where it cannot be written."""
        while True:
            try:
                if outcome is None:
                    jobs = await self._inbox.hand_back(entry.id, self.info.id)
                    self._forget(entry)  # before this worker itself may get the job again
                    await self._dispatcher.put(jobs)
                else:
                    await self._end(entry, outcome)
            except JournalError as error:
                if self._stopping is not None:
                    return  # the heartbeat ends, and another worker finds the entry
                _log.warning("the end of a turn waits for the inbox: %s", error)
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _end(self, entry: InboxEntry, outcome: EntryOutcome) -> None:
        await self._dispatcher.end(entry.id, outcome)
        if outcome.retry_after is not None:
            self._sweep.run_after(outcome.retry_after)
        if outcome.state is EntryState.WAITING:
            # An answer that was saved before the entry waited has woken nothing.
            tenant = self._tenants.for_tenant(entry.tenant)
            if await is_answered(tenant, entry.session):
                await self._inbox.wake(entry.id)

    async def _fire_schedules(self) -> None:
        """Submit the turns of schedules that are due; exactly one worker does so for each tick."""
        for fired in await self._schedules.fire_due():
            _log.debug("a schedule was fired: %s", fired)

    async def _beat(self) -> None:
        """Save that the worker is alive, and cancel the turns that somebody wants cancelled."""
        while True:
            try:
                for entry_id, by in (await self._inbox.note_worker(self.info)).items():
                    self._cancel(entry_id, by)
                self._beats.note_beat()
                await self._quota.read_limits()
            except HoldfastError as error:
                _log.warning("the heartbeat cannot be saved now: %s", error)
            await asyncio.sleep(self.info.seconds_between_heartbeats)

    async def _look_for_cancelled(self, changes: InboxChanges) -> None:
        """Cancel turns soon after somebody wants that: a change of the inbox may be such a wish."""
        while True:
            await changes.wait()
            try:
                if self._handled:
                    wished = await self._inbox.find_cancelled(self.info.id)
                    for entry_id, by in wished.items():
                        self._cancel(entry_id, by)
            except HoldfastError as error:
                _log.info("the cancelled turns cannot be read now: %s", error)
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def _cancel(self, entry_id: int, by: str) -> None:
        entry = self._handled.get(entry_id)
        if entry is not None:
            driven = self._tenants.for_tenant(entry.tenant).runner.find(entry.session)
            if driven is not None:
                driven.cancel(by)


@contextmanager
def stop_at_sigterm(begin_stop: Callable[[], object]) -> Iterator[None]:
    """Call a function at SIGTERM, where it would end the process at once.

    Args:
        begin_stop: the function.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # a server, which has a handler, stops as well
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, begin_stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


class WorkerCounts(Struct):
    """The work of a worker so far.

    Args:
        handled: how many entries it has had, by their outcomes: a state, or "handed_back".
        failed_sweeps: how many parts of its sweeps failed.

    >>> counts = WorkerCounts()
    >>> counts.note_outcome(None)
    >>> dict(counts.handled)
    {'handed_back': 1}
    """

    handled: Counter[str] = field(default_factory=Counter)
    failed_sweeps: int = 0

    def note_outcome(self, outcome: EntryOutcome | None) -> None:
        """Count an entry."""
        self.handled[HANDED_BACK if outcome is None else outcome.state.value] += 1

    def note_failed_sweep(self) -> None:
        """Count a part of a sweep that failed."""
        self.failed_sweeps += 1
