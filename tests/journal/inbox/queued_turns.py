"""An inbox under test, with a clock that the test sets, and what its tables say when nobody looks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from holdfast.journal.inbox.admitting import Admission
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import EntryState, InboxEntry, Submission
from holdfast.journal.inbox.inbox import Inbox, InboxStore
from holdfast.journal.inbox.statements import Row, Statement, Transaction
from holdfast.journal.inbox.submitting import submit_turn
from holdfast.journal.inbox.worker_entries import WorkerInfo
from holdfast.journal.port import Journal

ACTIVE = frozenset(
    {EntryState.READY, EntryState.ADMITTED, EntryState.WAITING, EntryState.POSTPONED}
)
QUEUED = frozenset({EntryState.SCHEDULED, EntryState.BLOCKED, EntryState.READY})
NOON = 1_800_014_400.0 - 1_800_014_400.0 % 86_400 + 43_200
"""A time at noon, UTC."""


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self, at: float = NOON) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


def make_submission(session: str, request: str, **changes: object) -> Submission:
    """A turn, with a body and a digest made of its names."""
    fields: dict[str, object] = {
        "tenant": "acme",
        "agent": "cook",
        "session": session,
        "request": request,
        "body": json.dumps([session, request]).encode(),
        **changes,
    }
    text = json.dumps({name: str(value) for name, value in fields.items()}, sort_keys=True)
    return Submission(**{"digest": sha256(text.encode()).hexdigest(), **fields})  # type: ignore[arg-type]


def make_worker(name: str, slots: int = 100, **changes: object) -> WorkerInfo:
    """A worker with the agents "cook" and "baker"."""
    fields: dict[str, object] = {
        "id": name,
        "host": "here",
        "process": 1,
        "agents": ("cook", "baker"),
        "slots": slots,
        "engine": "none",
        "started_at": 0.0,
        **changes,
    }
    return WorkerInfo(**fields)  # type: ignore[arg-type]


@dataclass
class InboxUnderTest:
    """An inbox, its journal and its clock."""

    store: InboxStore
    journal: Journal
    clock: SetClock
    open_again: Callable[[], InboxStore]
    inbox: Inbox = field(init=False)
    requests: int = 0

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.store)

    async def submit(self, session: str = "", **changes: object) -> InboxEntry:
        """Submit a turn, of a session of its own unless one is named."""
        self.requests += 1
        request = f"r{self.requests}"
        return await self.inbox.submit(
            make_submission(session or f"s{self.requests}", request, **changes)
        )

    async def submit_many(self, submissions: Sequence[Submission]) -> Sequence[InboxEntry]:
        """Submit turns in one transaction."""

        def submit_all() -> Transaction[Sequence[InboxEntry]]:
            entries = []
            for submission in submissions:
                entries.append((yield from submit_turn(submission)))  # noqa: PERF401  # REASON: a comprehension cannot yield
            return entries

        return await self.store.perform(submit_all)

    async def add_worker(self, name: str = "w", slots: int = 100, **changes: object) -> str:
        await self.inbox.note_worker(make_worker(name, slots, **changes))
        return name

    async def admit(self) -> list[int]:
        """Admit, and return the numbers of the entries in order."""
        return get_ids(await self.inbox.admit())

    async def begin(self, worker: str = "w") -> InboxEntry:
        """Admit one turn and begin it."""
        admitted = await self.admit()
        return await self.begin_admitted(admitted[0], worker)

    async def begin_admitted(self, entry_id: int, worker: str = "w") -> InboxEntry:
        entry = await self.inbox.begin(entry_id, worker)
        assert entry is not None
        return entry

    async def end(
        self, entry: InboxEntry, state: EntryState = EntryState.DONE, **changes: object
    ) -> list[int]:
        """End an entry; return what was admitted in its place."""
        outcome = EntryOutcome(state=state, **changes)  # type: ignore[arg-type]
        return get_ids(await self.inbox.end([EndedEntry(entry.id, outcome)], entry.worker))

    async def state(self, entry: InboxEntry) -> EntryState:
        found = await self.inbox.find(entry.id)
        assert found is not None
        return found.state

    async def states(self, *entries: InboxEntry) -> list[EntryState]:
        return [await self.state(entry) for entry in entries]

    async def check(self) -> None:
        """Compare the counts, and look for what must never be."""
        check_tables(await self.store.perform(read_tables))


def get_ids(admission: Admission) -> list[int]:
    return [job.id for job in admission.jobs]


def read_tables() -> Transaction[Sequence[Row]]:
    """Read all entries and the counts, in the state of one commit."""
    return (
        yield Statement(
            "SELECT tenant, session, state, id FROM holdfast_inbox"
            " UNION ALL SELECT tenant, '', '', queued FROM holdfast_inbox_tenants"
        )
    )


def check_tables(rows: Collection[Row], running: int | None = None) -> None:
    """The counts are right, a session has one active entry at most, and nothing is blocked by nothing.

    Args:
        rows: all rows.
        running: how many turns of a tenant may run at once.
    """
    entries = [row for row in rows if row[2]]
    counts = [(row[0], row[3]) for row in rows if not row[2]]
    queued: dict[object, int] = {}
    active: dict[tuple[object, object], int] = {}
    blocked: set[tuple[object, object]] = set()
    for tenant, session, state, _ in entries:
        queued[tenant] = queued.get(tenant, 0) + (state in QUEUED)
        if state in ACTIVE:
            active[tenant, session] = active.get((tenant, session), 0) + 1
        if state == EntryState.BLOCKED:
            blocked.add((tenant, session))
    known: Mapping[object, int] = {row[0]: int(str(row[1])) for row in counts}
    for tenant, count in queued.items():
        assert known.get(tenant, 0) == count, (tenant, known, count)
    assert all(known[tenant] == queued.get(tenant, 0) for tenant in known)
    assert all(count == 1 for count in active.values()), active
    assert blocked <= active.keys(), blocked - active.keys()
    admitted = Counter(row[0] for row in entries if row[2] == EntryState.ADMITTED)
    assert running is None or all(count <= running for count in admitted.values()), admitted
