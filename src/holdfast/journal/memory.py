"""A journal in memory: its records live as long as the object.

It neither copies nor encodes events, so it costs almost nothing.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from holdfast.core.acts import Act
from holdfast.core.effects import Effect, effect_digest
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.core.run_fold import RunFold
from holdfast.journal.encoding import encode_event
from holdfast.journal.inbox_schema import WAKING_EVENTS
from holdfast.journal.journal_errors import RequestExistsError, conflict_error
from holdfast.journal.journal_names import DEFAULT_TENANT, check_name
from holdfast.journal.open_questions import (
    ListedQuestion,
    QuestionQuery,
    find_asking,
    find_title,
    pick_questions,
)
from holdfast.journal.port import MOST_REQUESTS, Record, RunEntry
from holdfast.journal.run_summary import select_recent
from holdfast.journal.session_rows import SessionQuery, SessionRow, make_row, select_sessions

_Saved: TypeAlias = tuple[Event, Effect | str | None]
"""An event with the effect that it ends, or with the digest of that effect."""


class _Tenants:
    """The journals of all tenants by name; one object for one store.

    Attributes:
        journals: the journals.
        note_answer: called with tenant and run of a record that lets a waiting turn go on, and the status
            with which the turn has ended, or ""; as the trigger of a database does.
    """

    def __init__(self) -> None:
        self.journals: dict[str, MemoryJournal] = {}
        self.note_answer: Callable[[str, str, str], None] | None = None


class _Fold:
    """The row of a run in a list, as far as it was computed.

    Args:
        saved: the records of the run.
    """

    __slots__ = ("_count", "_entry", "_fold", "_lock", "saved")

    def __init__(self, saved: dict[str, _Saved]) -> None:
        self.saved = saved
        self._fold = RunFold()
        self._count = 0
        self._entry = RunEntry("", 0, float("inf"), -float("inf"))
        self._lock = threading.Lock()

    def make_row(self, run: str) -> SessionRow:
        """Return the row, with the records that came meanwhile."""
        with self._lock:
            if len(self.saved) > self._count:
                for event, _ in list(self.saved.values())[self._count :]:
                    self._add(run, event)
            return make_row(self._entry, self._fold.state)

    def _add(self, run: str, event: Event) -> None:
        self._count += 1
        self._fold.add(event)
        self._entry = RunEntry(
            run=run,
            records=self._count,
            opened_at=min(self._entry.opened_at, event.at),
            changed_at=max(self._entry.changed_at, event.at),
            turn_open=self._fold.state.turn_open,
            agent=event.agent if isinstance(event, TurnOpened) else self._entry.agent,
        )


class MemoryJournal:
    """Saves records in memory; for tests, scripts, and runs that end with the process.

    >>> import asyncio
    >>> asyncio.run(MemoryJournal().read("unknown"))
    []
    """

    __slots__ = (
        "__weakref__",
        "_acts",
        "_folds",
        "_requests",
        "_runs",
        "_sizes",
        "_sorted_requests",
        "_tenants",
        "tenant",
    )

    def __init__(self) -> None:
        self._start(DEFAULT_TENANT, _Tenants())

    def _start(self, tenant: str, tenants: _Tenants) -> None:
        self.tenant = tenant
        self._runs: dict[str, dict[str, _Saved]] = {}
        self._folds: dict[str, _Fold] = {}
        self._requests: dict[str, tuple[str, str]] = {}
        self._sorted_requests: list[str] = []
        self._acts: dict[str, Act] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._tenants = tenants

    def for_tenant(self, tenant: str) -> MemoryJournal:
        """Return the journal of another tenant; it lives as long as this one."""
        check_name("tenant", tenant)
        journal = object.__new__(type(self))
        journal._start(tenant, self._tenants)  # REASON: an object of this class
        self._tenants.journals.setdefault(self.tenant, self)
        # Atomic, as threads may ask at once.
        return self._tenants.journals.setdefault(tenant, journal)

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Save one event, or an event and its marker. Raises ConflictError if a key is taken."""
        saved = self._runs.get(run)
        if saved is None:
            saved = {}  # it is stored below, if nothing is wrong
        elif event.key in saved:
            raise conflict_error(run, event.key)
        if marker is not None and (marker.key in saved or marker.key == event.key):
            raise conflict_error(run, marker.key)
        if isinstance(event, TurnOpened) and event.request:
            turn = (run, event.key)
            if self._requests.setdefault(event.request, turn) != turn:
                raise RequestExistsError(event.request)
            insort(self._sorted_requests, event.request)
        if act is not None:
            self._add_act(act)
        if not saved:
            saved = self._runs.setdefault(run, saved)
        if marker is None:
            saved[event.key] = (event, effect)
        else:
            # At once, as another thread may read meanwhile.
            saved.update({event.key: (event, effect), marker.key: (marker, None)})
        if self._tenants.note_answer is not None and (
            isinstance(event, WAKING_EVENTS) or isinstance(marker, WAKING_EVENTS)
        ):
            last = marker or event
            end = last.status.value if isinstance(last, TurnClosed) else ""
            self._tenants.note_answer(self.tenant, run, end)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of one run in order, without the first `after`."""
        # Here and below, `list` copies at once, because another thread may append meanwhile.
        saved = list(self._runs.get(run, {}).values())[after:]
        return [Record(event, _get_digest(effect)) for event, effect in saved]

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs sorted by name, or only those whose last turn has not ended."""
        found = list(self._runs.items())
        if turn_open:  # at first, because few of many are open
            found = [(run, saved) for run, saved in found if not _has_ended(saved)]
        runs = sorted((run, list(saved.values())) for run, saved in found)
        entries = (_make_entry(run, [event for event, _ in saved]) for run, saved in runs)
        return [entry for entry in entries if entry.turn_open or not turn_open]

    async def find_runs(self, first: str, last: str) -> Sequence[RunEntry]:
        """Return the runs from one name to another, both included, sorted by name."""
        if first != last:
            return [entry for entry in await self.runs() if first <= entry.run <= last]
        saved = self._runs.get(first)
        return [_make_entry(first, [event for event, _ in list(saved.values())])] if saved else []

    async def recent_runs(
        self, limit: int, before: tuple[float, str] | None = None
    ) -> Sequence[RunEntry]:
        """Return the runs that changed last, without those of subagents; the latest first."""
        return select_recent(await self.runs(), limit, before)

    async def list_sessions(self, wanted: SessionQuery) -> Sequence[SessionRow]:
        """Return the sessions of a page; see `SessionIndex`."""
        rows = {run: self._make_row(run, saved) for run, saved in list(self._runs.items())}
        return select_sessions(
            rows.values(), wanted, lambda run: rows[run].title if run in rows else None
        )

    async def list_questions(self, wanted: QuestionQuery) -> Sequence[ListedQuestion]:
        """Return the open questions of a page; see `SessionIndex`."""
        rows = {run: self._make_row(run, saved) for run, saved in list(self._runs.items())}
        return [
            question
            for row in find_asking(rows.values(), wanted)
            for question in pick_questions(row, find_title(rows, row), await self.read(row.run))
        ]

    def _make_row(self, run: str, saved: dict[str, _Saved]) -> SessionRow:
        """Fold the records since the last list."""
        fold = self._folds.get(run)
        if fold is None or fold.saved is not saved:  # it was deleted and made again meanwhile
            fold = self._folds[run] = _Fold(saved)
        return fold.make_row(run)

    async def keys(self, run: str) -> Sequence[str]:
        """Return the keys of a run, in order of the records."""
        return list(self._runs.get(run, {}))

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records of a run that have one of these keys, in order."""
        wanted = set(keys)
        return [record for record in await self.read(run) if record.event.key in wanted]

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:  # noqa: ARG002  # REASON: the search checks the text
        """Return run and key of every record, the latest changed run first."""
        entries = sorted(await self.runs(), key=attrgetter("changed_at"), reverse=True)
        return [(one.run, key) for one in entries for key in reversed(await self.keys(one.run))]

    async def find_request(self, request: str) -> tuple[str, str] | None:
        """Return run and key of the turn that was opened with this request."""
        return self._requests.get(request)

    async def find_requests(self, first: str, last: str) -> Sequence[str]:
        """Return the requests from one to another that turns were opened with, sorted."""
        found = self._sorted_requests
        begin, end = bisect_left(found, first), bisect_right(found, last)
        return found[begin : min(end, begin + MOST_REQUESTS)]

    async def count_bytes(self, run: str = "") -> int:
        """Return the bytes that the events of all runs, or of one, would have as JSON.

        Only events are encoded that are new since the last count.
        """
        if run:
            events = [event for event, _ in list(self._runs.get(run, {}).values())]
            return sum(len(encode_event(event).encode()) for event in events)
        known, self._sizes = self._sizes, {}
        for name, saved in list(self._runs.items()):
            count, size = known.get(name, (0, 0))
            events = [event for event, _ in list(saved.values())]
            size = size if count <= len(events) else 0
            new = events[count if count <= len(events) else 0 :]
            size += sum(len(encode_event(event).encode()) for event in new)
            self._sizes[name] = (len(events), size)
        return sum(size for _, size in self._sizes.values())

    async def tenants(self, *, turn_open: bool = False) -> Sequence[str]:
        """Return the tenants that have runs, or only those with an open turn, sorted."""
        views: list[MemoryJournal] = [self, *list(self._tenants.journals.values())]
        found = [view.tenant for view in views if await view.runs(turn_open=turn_open)]
        return sorted(set(found))

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        """Save whole runs. Raises ConflictError if one of them exists."""
        for run in runs:
            if run in self._runs:
                raise ConflictError(f"the journal already has a run {run!r}")
        if act is not None:
            self._add_act(act)
        for run, records in runs.items():
            self._runs[run] = {one.event.key: (one.event, one.digest) for one in records}
            for event in (one.event for one in records):
                if isinstance(event, TurnOpened) and event.request:
                    self._requests.setdefault(event.request, (run, event.key))
        self._sorted_requests = sorted(self._requests)

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        """Delete runs permanently; return the number of their records."""
        if act is not None:
            self._add_act(act)
        for old in list(self._acts.values()):
            if old.session in runs and old is not act:
                del self._acts[old.id]
        for request, (run, _) in list(self._requests.items()):
            if run in runs:
                del self._requests[request]
        self._sorted_requests = sorted(self._requests)
        count = sum(len(self._runs.pop(run, {})) for run in runs)
        for run in runs:
            self._folds.pop(run, None)
        return count

    async def save_act(self, act: Act) -> None:
        """Save an act. Raises RequestExistsError if its id is taken."""
        self._add_act(act)

    def _add_act(self, act: Act) -> None:
        if self._acts.setdefault(act.id, act) is not act:
            raise RequestExistsError(act.id)

    async def find_act(self, act_id: str) -> Act | None:
        """Return the act with this id."""
        return self._acts.get(act_id)

    async def list_acts(self, session: str, limit: int = 100) -> Sequence[Act]:
        """Return the latest acts on a session, the oldest of them first."""
        acts = [act for act in list(self._acts.values()) if act.session == session]
        return sorted(acts, key=attrgetter("at", "id"))[-limit:] if limit > 0 else []


def _has_ended(saved: dict[str, _Saved]) -> bool:
    """Whether the last record of a run ends a turn; no while another thread appends."""
    try:
        event, _ = next(reversed(saved.values()))
    except RuntimeError:
        return False
    return type(event) is TurnClosed


def _get_digest(effect: Effect | str | None) -> str:
    if isinstance(effect, str):
        return effect
    return effect_digest(effect) if effect else ""


def _make_entry(run: str, events: list[Event]) -> RunEntry:
    times = [event.at for event in events]
    ends = (event for event in reversed(events) if isinstance(event, TurnOpened | TurnClosed))
    last = next(ends, None)
    opened = last
    while opened is not None and not isinstance(opened, TurnOpened):
        opened = next(ends, None)
    return RunEntry(
        run,
        len(events),
        min(times),
        max(times),
        turn_open=last is opened is not None,
        agent=opened.agent if isinstance(opened, TurnOpened) else "",
    )
