"""The rules of a journal that several processes share, and what the explorer knows of the world.

Each rule is one small method, so that a mutant is one small method too.
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
    """A process that lives, or has ended by itself.

    Args:
        number: drivers of a run are counted.
        begins: how it began.
        log: what it was told.
        token: of its lease; 0 before it has one.
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
        """All that its future depends on."""
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
    """The world between two moves."""

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
        """Two states with the same place have the same future."""
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
        """How many outcomes each key has."""
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
    """A journal with one outcome per key, in which the driver that claimed the run last may write."""

    kind: Kind = "leases"

    def claim(self, state: State) -> int:
        """The token of a driver that claims the run now."""
        return state.lease + 1

    def may_write(self, state: State, process: Process) -> bool:
        """Whether this driver holds the run, asked in the transaction of the append."""
        return process.token == state.lease

    def is_free(self, state: State, key: str) -> bool:
        """Whether the key has no outcome yet."""
        return not state.keys[key]

    def unsafe(self, state: State, process: Process) -> int:
        """How many records at the end a crash takes, once this one is acknowledged."""
        return 0

    def append(
        self,
        state: State,
        process: Process,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
    ) -> tuple[dict[str, Any], str | None]:
        """What changes, and what the driver is told; an event and its marker are saved at once."""
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
    """A journal without leases, as within one process: one outcome per key, and the slower one stops."""

    kind: Kind = "keys"

    def may_write(self, state: State, process: Process) -> bool:
        return True
