"""Mutants of the protocol with one broken rule each. The explorer must detect every one.

A mutant of the journal is a subclass of its rules; a mutant of the runtime swaps one function of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import msgspec
from tests.crash.explored_turns import RUN
from tests.crash.protocol import KeysOnly, Process, Rules, State

from holdfast.core.batch import NOT_RUN_TEXT, Batch
from holdfast.core.effects import Effect, RunTool, begun_key
from holdfast.core.errors import ConflictError, ErrorInfo
from holdfast.core.events import Event, QuestionAnswered, ToolFinished, ToolsBegun
from holdfast.core.messages import Message, tool_results
from holdfast.journal.journal_errors import LeaseLostError
from holdfast.journal.port import Lease, SharedJournal
from holdfast.runtime import driver, perform
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.runtime.turn_state import leaving_open
from holdfast.runtime.turn_state.turn_log import TurnLog

Swap = tuple[object, str, object]


@dataclass(frozen=True)
class Mutant:
    """A broken rule, and the story in which the explorer must detect it."""

    name: str
    story: str
    rules: type[Rules] = Rules
    swaps: tuple[Swap, ...] = ()

    @contextmanager
    def planted(self) -> Iterator[Rules]:
        """Break the runtime while the rules are in use."""
        with ExitStack() as stack:
            for place, name, wrong in self.swaps:
                stack.enter_context(patch.object(place, name, wrong))
            yield self.rules()


class AnyKeyIsFree(KeysOnly):
    def is_free(self, state: State, key: str) -> bool:
        return True


class AnybodyWrites(Rules):
    def may_write(self, state: State, process: Process) -> bool:
        return True


class LeaseCheckedAtClaim(Rules):
    """The lease is checked when the driver or the append begins, and not at the commit."""

    def may_write(self, state: State, process: Process) -> bool:
        return any(one is process for one in state.processes)


class TornBatch(Rules):
    """All appends of a group are acknowledged when the first one is saved."""

    def unsafe(self, state: State, process: Process) -> int:
        together = [label for label in process.waiting if label.startswith("keep")]
        return int(len(together) > 1)


class TornPair(Rules):
    """A crash loses the marker and keeps its reply."""

    def append(
        self,
        state: State,
        process: Process,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
    ) -> tuple[dict[str, Any], str | None]:
        change, outcome = super().append(state, process, event, effect, marker)
        if change and marker is not None:
            change["lost_at_crash"] = 1
        return change, outcome


class MarkerFirst(Rules):
    """The marker is saved before its reply."""

    def append(
        self,
        state: State,
        process: Process,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
    ) -> tuple[dict[str, Any], str | None]:
        change, outcome = super().append(state, process, event, effect, marker)
        if change and marker is not None:
            *before, reply, begun = change["store"]
            change["store"] = (*before, begun, reply)
        return change, outcome


class LateLease:
    """The lease is claimed at the first append only."""

    run = RUN

    def __init__(self, journal: SharedJournal) -> None:
        self._journal = journal
        self._lease: Lease | None = None
        self.read = journal.read

    @property
    def token(self) -> int:
        return self._lease.token if self._lease is not None else 0

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self._lease is None:
            self._lease = await self._journal.claim(run)
        await self._lease.append(run, event, effect, marker=marker)

    async def release(self) -> None:
        """As in a right one."""


async def claim_after_read(self: SessionPool, run: str, patience: float = 0.0) -> Any:
    return LateLease(cast("SharedJournal", self.journal))


class AnyVersion(Rules):
    """A driver claims a run with its first append, whatever others have saved meanwhile."""

    def has_version(self, state: State, records: int) -> bool:
        return True


class TwoHold(Rules):
    """A new driver receives the lease of another driver."""

    def claim(self, state: State) -> int:
        return 1


real_commit = TurnLog.commit
real_batch = driver._run_tools


def apply_now(log: TurnLog, *events: Event | None) -> None:
    for event in filter(None, events):
        log._pending_events.append(event)
        log._apply(event)


async def believe_first(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    apply_now(self, event, marker)
    await self._journal.append(self._run_id, event, effect, marker=marker)


async def show_first(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    if self._emit is not None:
        self._emit(event)
    await real_commit(self, event, effect, marker=marker)


async def swallow_conflict(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    try:
        await real_commit(self, event, effect, marker=marker)
    except (ConflictError, LeaseLostError):
        self.error = None
        apply_now(self, event, marker)


async def forget_answers(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    if isinstance(event, QuestionAnswered):
        apply_now(self, event)
    else:
        await real_commit(self, event, effect, marker=marker)


async def key_by_position(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    """The first outcome is taken for that of the first effect."""
    if isinstance(event, ToolFinished):
        effect = self.machine.pending_effects()[0]
        event = msgspec.structs.replace(event, key=effect.key)
    await real_commit(self, event, effect, marker=marker)


async def believe_any_outcome(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    """A cancelled append is taken for saved when its key exists."""
    try:
        await self._journal.append(self._run_id, event, effect, marker=marker)
    except asyncio.CancelledError:
        if any(one.event.key == event.key for one in await self.read()):
            apply_now(self, event, marker)
        raise
    apply_now(self, event, marker)


async def forget_cancelled_append(
    self: TurnLog, event: Event, effect: Effect | None = None, *, marker: Event | None = None
) -> None:
    await self._journal.append(self._run_id, event, effect, marker=marker)
    apply_now(self, event, marker)


def no_marker(run: ActiveTurn, event: Event) -> None:
    return None


async def batch_without_mark(run: ActiveTurn, effects: tuple[Effect, ...]) -> None:
    await asyncio.gather(*(driver._run_effect(run, effect) for effect in effects))


async def batch_marked_late(run: ActiveTurn, effects: tuple[Effect, ...]) -> None:
    machine = run.machine
    events = await asyncio.gather(*(perform.perform_effect(run, effect) for effect in effects))
    if not machine.has_begun_tools:
        await run.log.commit(ToolsBegun(begun_key(machine.turn, machine.iteration), 0.0))
    for event, effect in zip(events, effects, strict=True):
        await run.log.commit(event, effect)


async def batch_starts_early(run: ActiveTurn, effects: tuple[Effect, ...]) -> None:
    """The marker is written at the same time as the tools run, and not before."""
    machine = run.machine
    mark = []
    if not machine.has_begun_tools:
        mark.append(run.log.commit(ToolsBegun(begun_key(machine.turn, machine.iteration), 0.0)))
    await asyncio.gather(*mark, *(driver._run_effect(run, effect) for effect in effects))


def may_always_repeat(run: ActiveTurn, effect: RunTool) -> bool:
    return True


def may_never_repeat(run: ActiveTurn, effect: RunTool) -> bool:
    return False


def in_order_of_ending(self: Batch) -> Message:
    return tool_results(self.results.values())


def say_not_run(self: Batch, text: str, started: tuple[str, ...]) -> None:
    real_fill(self, NOT_RUN_TEXT, ())


def close_whatever_failed(error: ErrorInfo) -> bool:
    return True


real_fill = Batch.fill_missing

MUTANTS = (
    Mutant("apply before append", "one write", swaps=((TurnLog, "commit", believe_first),)),
    Mutant(
        "no begun marker",
        "one write",
        swaps=((driver, "_run_tools", batch_without_mark), (driver, "marker_after", no_marker)),
    ),
    Mutant(
        "begun marker after the tools",
        "one write",
        swaps=((driver, "_run_tools", batch_marked_late), (driver, "marker_after", no_marker)),
    ),
    Mutant(
        "begun marker beside the tools",
        "one write",
        swaps=((driver, "_run_tools", batch_starts_early), (driver, "marker_after", no_marker)),
    ),
    Mutant(
        "in-doubt write repeated", "one write", swaps=((perform, "_may_repeat", may_always_repeat),)
    ),
    Mutant(
        "in-doubt read not repeated",
        "one read",
        swaps=((perform, "_may_repeat", may_never_repeat),),
    ),
    Mutant("unique key not enforced", "one write", AnyKeyIsFree),
    Mutant(
        "results in order of ending",
        "read and write at once",
        swaps=((Batch, "build_message", in_order_of_ending),),
    ),
    Mutant(
        "keys by position",
        "read and write at once",
        swaps=((TurnLog, "commit", key_by_position),),
    ),
    Mutant("zombie not fenced", "one write", AnybodyWrites),
    Mutant("lease checked only at claim", "one write", LeaseCheckedAtClaim),
    Mutant(
        "claimed after the read",
        "one write",
        swaps=((SessionPool, "acquire_lease", claim_after_read),),
    ),
    Mutant("two drivers with one lease", "one write", TwoHold),
    Mutant("claimed without its version", "another message", AnyVersion),
    Mutant("torn batch acknowledged", "read and write at once", TornBatch),
    Mutant("answer not kept", "a question", swaps=((TurnLog, "commit", forget_answers),)),
    Mutant("conflict swallowed", "one write", swaps=((TurnLog, "commit", swallow_conflict),)),
    Mutant(
        "foreign outcome believed",
        "two writes at once",
        swaps=((TurnLog, "commit", believe_any_outcome),),
    ),
    Mutant(
        "cancelled append forgotten",
        "cancelled",
        swaps=((TurnLog, "commit", forget_cancelled_append),),
    ),
    Mutant(
        "started tool said not run",
        "another message",
        swaps=((Batch, "fill_missing", say_not_run),),
    ),
    Mutant("reply and marker torn by a crash", "one write", TornPair),
    Mutant("marker saved before its reply", "one write", MarkerFirst),
    Mutant("shown before it was saved", "one write", swaps=((TurnLog, "commit", show_first),)),
    Mutant(
        "a recovery that is stopped closes the turn",
        "recovered, cancelled and recovered",
        swaps=((leaving_open.Recovery, "is_stopping", False),),
    ),
    Mutant(
        "an outage closes the turn",
        "recovered in an outage",
        swaps=((leaving_open, "closes_turn", close_whatever_failed),),
    ),
)
