"""The rules of a shared journal, and the state that the explorer keeps.

Each rule is a small method, so that a mutant overrides one method.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
from tests.crash.process import CANCEL, CONFLICT, FENCED, Kind, Log

from holdfast.core.effects import Effect, effect_digest
from holdfast.core.events import Event
from holdfast.journal.port import Record


@dataclass(frozen=True)
class Process:
    """A process that runs, or ended without being killed.

    Args:
        number: the number of the driver.
        begins: how it started.
        log: the outcomes that it received.
        token: the fencing token of its lease; 0 without a lease.
        waiting: what it waits for.
        ended: how it ended.
    """

    number: int
    begins: str
    log: Log
    token: int = 0
    waiting: Mapping[str, Any] = field(default_factory=dict)
    ended: str = ""

    @cached_property
    def place(self) -> object:
        """Everything that its future depends on."""
        order = tuple(
            label if outcome is None else f"{label}!{_size(outcome)}"
            for label, outcome in self.log
            if not label.startswith("act") or outcome is not None
        )
        waiting = tuple(sorted(self.waiting))
        return (
            self.number,
            self.token,
            self.begins,
            order,
            waiting,
            self.ended,
            CANCEL in dict(self.log),
        )


@dataclass(frozen=True)
class State:
    """The state between two moves."""

    store: tuple[Record, ...] = ()
    lost_at_crash: int = 0
    """How many of the last records are not kept yet; a right journal has none."""
    begun: int = 0
    lease: int = 0
    acked: frozenset[str] = frozenset()
    acts: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    crashes: int = 0
    overlaps: int = 0
    cancels: int = 0
    outages: int = 0

    @cached_property
    def place(self) -> object:
        """Return the same value for two states with the same future."""
        return (
            tuple(map(_encoded, self.store)),
            self.lost_at_crash,
            (self.begun, self.lease),
            self.acked,
            tuple(sorted(self.acts.items())),
            tuple(process.place for process in self.processes),
            (self.crashes, self.overlaps, self.cancels, self.outages),
        )

    @cached_property
    def keys(self) -> Counter[str]:
        """Count the outcomes of each key."""
        return Counter(record.event.key for record in self.store)


def _size(outcome: object) -> object:
    return len(outcome) if isinstance(outcome, tuple | str) else outcome


_texts: dict[int, tuple[Record, bytes]] = {}


def _encoded(record: Record) -> bytes:
    found = _texts.get(id(record))
    if found is None:
        found = _texts[id(record)] = (record, msgspec.json.encode(record.event))
    return found[1]


class Rules:
    """A journal with one outcome per key; only the last driver that claimed the run can write."""

    kind: Kind = "leases"

    def claim(self, state: State) -> int:
        """Return the token of a driver that claims the run now."""
        return state.lease + 1

    def has_version(self, state: State, records: int) -> bool:
        """Whether the run is as a driver knows it that claims it with its first append."""
        return len(state.store) == records

    def may_write(self, state: State, process: Process) -> bool:
        """Whether this driver has the lease, checked in the transaction of the append."""
        return process.token == state.lease

    def is_free(self, state: State, key: str) -> bool:
        """Whether the key has no outcome yet."""
        return not state.keys[key]

    def unsafe(self, state: State, process: Process) -> int:
        """Return how many of the last records a crash loses after this one is acknowledged."""
        return 0

    def append(
        self,
        state: State,
        process: Process,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
    ) -> tuple[dict[str, Any], str | None]:
        """Return the change and the answer to the driver. An event and its marker are saved together."""
        if not self.may_write(state, process):
            return {}, FENCED
        records = [Record(event, effect_digest(effect) if effect else "")]
        if marker is not None:
            records.append(Record(marker))
        keys = [record.event.key for record in records]
        if not all(self.is_free(state, key) for key in keys):
            return {}, CONFLICT
        return {
            "store": (*state.store, *records),
            "acked": state.acked | set(keys),
            "lost_at_crash": self.unsafe(state, process),
        }, None


class KeysOnly(Rules):
    """A journal without leases: one outcome per key, and the slower driver stops."""

    kind: Kind = "keys"

    def may_write(self, state: State, process: Process) -> bool:
        return True
