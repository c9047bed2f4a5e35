"""Tries every order of whole transactions, crashes, and jobs that are lost or doubled, the shortest first.

A path ends when nothing is left to do. Then each submitted turn was done exactly once, in order for each
session. From every state such an end can be reached.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.crash.inbox_world import (
    MOST_DEATHS,
    NOW,
    InboxActs,
    InboxStory,
    InboxTables,
    Tables,
    make_info,
)

from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.sweeping import StalledEntry

Phase = tuple[Any, ...]
IDLE: Phase = ("idle",)
DEAD: Phase = ("dead",)
KILLED: Phase = ("killed",)
Move = tuple[Any, ...]
_ACTIVE = ("ready", "admitted", "waiting", "postponed")
_QUEUED = ("scheduled", "blocked", "ready")


class InboxViolation(Exception):
    """Something that must never be."""


@dataclass(frozen=True)
class InboxState:
    """All that the future depends on.

    Args:
        tables: the rows of the inbox.
        phases: what each worker is about to do.
        gone: the workers that count as gone.
        jobs: the jobs that the engine carries.
        turns: what the journal says of each turn: "", "open", "asked", "answered" or "closed".
        leases: who has the lease of a session.
        submitted: how many turns were submitted.
        killed: how many workers have died of a turn.
        faults: how many crashes, pauses, losses, doubles and lost answers there were.
    """

    tables: Tables
    phases: tuple[Phase, ...]
    turns: tuple[str, ...]
    gone: frozenset[int] = frozenset()
    jobs: tuple[int, ...] = ()
    leases: tuple[tuple[str, int], ...] = ()
    faults: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    submitted: int = 0
    killed: int = 0


@dataclass
class InboxFound:
    """What was found: how many states, moves and ends, or a violation and the shortest path to it."""

    states: int
    moves: int
    ends: int
    violation: str = ""
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.violation:
            return f"{self.states} states, {self.moves} moves, {self.ends} ends"
        return "\n".join((self.violation, *(f"  {n}. {m}" for n, m in enumerate(self.path, 1))))


@dataclass
class InboxExplorer:
    """Explores one story, with the acts of the inbox or those of a mutant.

    Args:
        story: the story.
        acts: the transactions.
        renames: whether states that differ only in the names of the workers are one. A path then
            names a worker by its place in each state.
    """

    story: InboxStory
    acts: InboxActs = field(default_factory=InboxActs)
    renames: bool = False

    def explore(self) -> InboxFound:
        self.tables = InboxTables(self.acts.broken)
        try:
            return self._explore()
        finally:
            self.tables.close()

    def _explore(self) -> InboxFound:
        first = self._start()
        known: dict[InboxState, tuple[InboxState | None, str]] = {first: (None, "")}
        before: dict[InboxState, list[InboxState]] = {}
        queue, ends, moves = deque([first]), list[InboxState](), 0
        while queue:
            state = queue.popleft()
            move: Move = ()
            is_end = True
            try:
                for move, is_fault in self._moves(state):
                    is_end = is_end and is_fault
                    moves += 1
                    after = self._after(state, move)
                    self._check(after)
                    after = self._rename(after) if self.renames else after
                    before.setdefault(after, []).append(state)
                    if after not in known:
                        known[after] = state, " ".join(map(str, move))
                        queue.append(after)
                if is_end:
                    move = ()
                    ends.append(state)
                    self._check_end(state)
            except InboxViolation as error:
                path = (*_path(known, state), " ".join(map(str, move)))
                return InboxFound(len(known), moves, len(ends), str(error), path)
        stuck = known.keys() - _reach(ends, before)
        if stuck:
            path = _path(known, next(iter(stuck)))
            return InboxFound(len(known), moves, len(ends), "no end can be reached", path)
        return InboxFound(len(known), moves, len(ends))

    def _start(self) -> InboxState:
        tables = self.tables.dump()
        for number in range(self.story.workers):
            text = (
                "INSERT INTO holdfast_workers (id, info, seen_at, alive_until) VALUES (?, ?, 0, ?)"
            )
            tables = self.tables.change(tables, text, f"w{number}", make_info(number), NOW + 1)
        if self.story.running is not None:
            text = "INSERT INTO holdfast_inbox_limits VALUES ('tenant', ?)"
            tables = self.tables.change(tables, text, f'{{"running": {self.story.running}}}')
        turns = ("",) * len(self.story.turns)
        return InboxState(tables, (IDLE,) * self.story.workers, turns)

    # --- moves

    def _moves(self, state: InboxState) -> Iterator[tuple[Move, bool]]:
        """Yield what can happen, and whether it is a fault, which need not."""
        if state.submitted < len(self.story.turns):
            yield ("submit", state.submitted), False
        for number, turn in enumerate(state.turns):
            if turn == "asked":
                yield ("answer", number), False
        for worker, phase in enumerate(state.phases):
            for what in self._find_acts(state, worker, phase):
                yield (worker, *what), False
        for move in self._find_faults(state):
            yield move, True

    def _find_faults(self, state: InboxState) -> Iterator[Move]:
        crashes, pauses, losses, doubles, lost_answers = state.faults
        for worker, phase in enumerate(state.phases):
            if phase[0] == "hears" and lost_answers < self.story.lost_answers:
                yield (worker, "does not hear")
            if phase not in (DEAD, KILLED) and crashes < self.story.crashes:
                yield (worker, "crash")
            if (
                phase not in (DEAD, KILLED)
                and worker not in state.gone
                and pauses < self.story.pauses
            ):
                yield (worker, "pauses")
        for job in sorted(set(state.jobs)):
            if losses < self.story.losses:
                yield ("lose", job)
            if doubles < self.story.doubles:
                yield ("double", job)

    def _find_acts(self, state: InboxState, worker: int, phase: Phase) -> Iterator[Move]:
        if phase == DEAD:
            if worker not in state.gone:
                yield ("is gone",)
            return
        if phase == KILLED:
            # Another process takes its place; it has another name, so nothing may have the old one.
            if worker not in state.gone:
                yield ("is gone",)
            elif not self._list_held(state, worker):
                yield ("is replaced",)
            return
        if worker in state.gone:
            yield ("beats",)
        if phase != IDLE:
            yield ("goes on",)
            if phase[0] == "ends":
                yield ("ends, and takes nothing",)
            return
        yield from self._find_acts_of_idle(state, worker)

    def _find_acts_of_idle(self, state: InboxState, worker: int) -> Iterator[Move]:
        for job in sorted(set(state.jobs)):
            yield ("takes", job)
        # Its slot may be taken for a job that is being fetched.
        for slots in (0, 1):
            if self._admit(state, worker, slots)[1] != state.tables:
                yield ("admits", slots)
        for entry in self._list_held(state, worker):
            yield ("finds", entry)
        if self._promote(state) != state.tables:
            yield ("promotes",)
        if self._find_stalled(state):
            yield ("sweeps",)

    def _admit(self, state: InboxState, worker: int, slots: int) -> tuple[Any, Tables]:
        name = f"w{worker}" if slots else ""
        return self.tables.perform(
            state.tables, ("admit", name), lambda: self.acts.admit(name, slots)
        )

    def _list_held(self, state: InboxState, worker: int) -> Sequence[int]:
        """What a worker without a turn has, since it did not hear of it."""
        name = f"w{worker}"
        rows, _ = self.tables.perform(
            state.tables, ("held", name), lambda: self.acts.list_held(name)
        )
        return [row[0] for row in rows]

    def _promote(self, state: InboxState) -> Tables:
        return self.tables.perform(state.tables, "promote", self.acts.promote)[1]

    def _find_stalled(self, state: InboxState) -> Sequence[Any]:
        """What a sweep puts again: entries of workers that are gone, and those without a job."""
        found, _ = self.tables.perform(state.tables, "stalled", self.acts.find_stalled)
        under_way = set(state.jobs)
        for phase in state.phases:
            under_way.update(phase[1] if phase[0] in ("puts", "hears") else ())
        return [one for one in found if one.worker or one.id not in under_way]

    def _after(self, state: InboxState, move: Move) -> InboxState:
        who, what = move[0], move[1]
        if who == "submit":
            turn = self.story.turns[what]
            _, tables = self.tables.perform(
                state.tables, ("submit", what), lambda: self.acts.submit(what, turn)
            )
            return replace(state, tables=tables, submitted=what + 1)
        if who == "answer":
            session = self.story.turns[what].session
            _, tables = self.tables.perform(
                state.tables, ("answer", session), lambda: self.acts.answer(session)
            )
            return replace(state, tables=tables, turns=_set(state.turns, what, "answered"))
        if who == "lose":
            return replace(state, jobs=_without(state.jobs, what), faults=_add(state.faults, 2))
        if who == "double":
            jobs = tuple(sorted((*state.jobs, what)))
            return replace(state, jobs=jobs, faults=_add(state.faults, 3))
        return self._act(state, who, move[1:])

    def _act(self, state: InboxState, worker: int, move: Move) -> InboxState:
        what = move[0]
        if what == "crash":
            return replace(_go(state, worker, DEAD), faults=_add(state.faults, 0))
        if what in ("is gone", "pauses", "beats", "is replaced"):
            return self._note_life(state, worker, what)
        if what == "ends, and takes nothing":
            return self._end(state, worker, state.phases[worker], 0)
        if what == "does not hear":
            return replace(_go(state, worker, IDLE), faults=_add(state.faults, 4))
        if what == "takes":
            jobs = _without(state.jobs, move[1])
            return self._begin(replace(state, jobs=jobs), worker, move[1])
        if what == "finds":
            return self._begin(state, worker, move[1])
        if what == "admits":
            admission, tables = self._admit(state, worker, move[1])
            return _hear_next(replace(state, tables=tables), worker, admission)
        if what == "promotes":
            return replace(state, tables=self._promote(state))
        if what == "sweeps":
            return _go(state, worker, ("again", tuple(self._find_stalled(state))))
        return self._go_on(state, worker, state.phases[worker])

    def _note_life(self, state: InboxState, worker: int, what: str) -> InboxState:
        """Let a worker count as gone, or be there again."""
        is_back = what in ("beats", "is replaced")
        until = NOW + 1 if is_back else 0.0
        text = "UPDATE holdfast_workers SET alive_until = ? WHERE id = ?"
        tables = self.tables.change(state.tables, text, until, f"w{worker}")
        gone = state.gone - {worker} if is_back else state.gone | {worker}
        if what == "is replaced":
            leases = tuple(one for one in state.leases if one[1] != worker)
            state = replace(_go(state, worker, IDLE), leases=leases)
        faults = _add(state.faults, 1) if what == "pauses" else state.faults
        return replace(state, tables=tables, gone=gone, faults=faults)

    def _begin(self, state: InboxState, worker: int, job: int) -> InboxState:
        name = f"w{worker}"
        entry, tables = self.tables.perform(
            state.tables, ("begin", job, name), lambda: self.acts.begin(job, name)
        )
        state = replace(state, tables=tables)
        if entry is None:
            return state
        number = int(entry.request)
        if entry.parking or entry.deaths_alone >= MOST_DEATHS:
            return _go(state, worker, ("parks", job, number))
        if entry.deaths >= MOST_DEATHS:
            return _go(state, worker, ("isolates", job, number))
        return _go(state, worker, ("began", job, number))

    def _go_on(self, state: InboxState, worker: int, phase: Phase) -> InboxState:
        kind = phase[0]
        if kind == "hears":
            return replace(
                _go(state, worker, phase[2]), jobs=tuple(sorted((*state.jobs, *phase[1])))
            )
        if kind == "puts":
            return _go(replace(state, jobs=tuple(sorted((*state.jobs, *phase[1])))), worker, IDLE)
        if kind == "again":
            jobs, tables = self.tables.perform(
                state.tables, phase, lambda: self.acts.put_again(phase[1])
            )
            return _put_next(replace(state, tables=tables), worker, jobs)
        if kind == "began":
            return self._open(state, worker, phase)
        if kind == "drives":
            return self._drive(state, worker, phase)
        if kind in ("isolates", "parks", "closes"):
            return self._isolate_or_park(state, worker, phase)
        return self._end(state, worker, phase, 1)

    def _end(self, state: InboxState, worker: int, phase: Phase, slots: int) -> InboxState:
        name = f"w{worker}"
        admission, tables = self.tables.perform(
            state.tables,
            (*phase, name, slots),
            lambda: self.acts.end(phase[1], name, phase[3], slots),
        )
        return _hear_next(replace(state, tables=tables), worker, admission)

    def _isolate_or_park(self, state: InboxState, worker: int, phase: Phase) -> InboxState:
        """Drive a turn alone, or park it: tell the inbox first, and then close it with its entry."""
        kind, job, number = phase
        name, session = f"w{worker}", self.story.turns[number].session
        if kind == "isolates":
            entry, tables = self.tables.perform(
                state.tables, (kind, job, name), lambda: self.acts.isolate(job, name)
            )
            after: Phase = IDLE if entry is None else ("began", job, number)
            return _go(replace(state, tables=tables), worker, after)
        holder = dict(state.leases).get(session)
        if holder not in (None, worker) and holder not in state.gone:
            return _go(state, worker, ("ends", job, number, EntryState.POSTPONED))
        parked: Phase = ("ends", job, number, EntryState.PARKED)
        if kind == "parks":
            if state.turns[number] in ("", "closed"):
                return _go(state, worker, parked)
            has_it, tables = self.tables.perform(
                state.tables, (kind, job, name), lambda: self.acts.park(job, name)
            )
            after = ("closes", job, number) if has_it else IDLE
            return _go(replace(state, tables=tables), worker, after)
        if state.turns[number] == "closed":
            return _go(state, worker, parked)
        _, tables = self.tables.perform(
            state.tables, (kind, session), lambda: self.acts.close(session)
        )
        leases = tuple(one for one in state.leases if one[0] != session)
        turns = _set(state.turns, number, "closed")
        return _go(replace(state, tables=tables, turns=turns, leases=leases), worker, parked)

    def _open(self, state: InboxState, worker: int, phase: Phase) -> InboxState:
        """Claim the session, and begin or continue the turn as the journal says."""
        _, job, number = phase
        session = self.story.turns[number].session
        holder = dict(state.leases).get(session)
        others = [one for one, turn in enumerate(self.story.turns) if turn.session == session]
        is_open = any(state.turns[one] not in ("", "closed") for one in others if one != number)
        if (holder not in (None, worker) and holder not in state.gone) or is_open:
            return _go(state, worker, ("ends", job, number, EntryState.POSTPONED))
        status = state.turns[number]
        if status == "closed":
            return _go(state, worker, ("ends", job, number, EntryState.DONE))
        if status == "asked":
            return _go(state, worker, ("ends", job, number, EntryState.WAITING))
        if not status:
            late = [one for one in others if one < number and state.turns[one] != "closed"]
            if late:
                raise InboxViolation(f"turn {number} of {session} begins before turn {late[0]}")
            state = replace(state, turns=_set(state.turns, number, "open"))
        leases = tuple(sorted({**dict(state.leases), session: worker}.items()))
        return _go(replace(state, leases=leases), worker, ("drives", job, number))

    def _drive(self, state: InboxState, worker: int, phase: Phase) -> InboxState:
        """Ask, or end the turn. A worker that has lost its lease gives its entry up: it may still have it."""
        _, job, number = phase
        turn = self.story.turns[number]
        if dict(state.leases).get(turn.session) != worker:
            return _go(state, worker, ("ends", job, number, EntryState.POSTPONED))
        if turn.kills and state.turns[number] == "open":
            if state.killed == 2 * MOST_DEATHS:
                raise InboxViolation(f"more workers than that die of turn {number}")
            return replace(_go(state, worker, KILLED), killed=state.killed + 1)
        leases = tuple(one for one in state.leases if one[0] != turn.session)
        asks = turn.asks and state.turns[number] == "open"
        if state.turns[number] == "closed":
            raise InboxViolation(f"turn {number} is done twice")
        turns = _set(state.turns, number, "asked" if asks else "closed")
        outcome = EntryState.WAITING if asks else EntryState.DONE
        state = replace(state, leases=leases, turns=turns)
        return _go(state, worker, ("ends", job, number, outcome))

    def _rename(self, state: InboxState) -> InboxState:
        """Sort the workers by all that is known of each; equal ones may change places."""
        entries, place = state.tables[0], self.tables.columns["holdfast_inbox"].index("worker")

        def describe(worker: int) -> str:
            rows = [number for number, row in enumerate(entries) if row[place] == f"w{worker}"]
            leases = [session for session, holder in state.leases if holder == worker]
            return repr((state.phases[worker], worker in state.gone, rows, leases))

        order = sorted(range(len(state.phases)), key=describe)
        if order == sorted(order):
            return state
        new = {old: number for number, old in enumerate(order)}
        names = {f"w{old}": f"w{number}" for old, number in new.items()}
        renamed = tuple(_set(row, place, names.get(str(row[place]), row[place])) for row in entries)
        known = state.tables[2]
        workers = tuple((*known[number][:3], known[old][3]) for number, old in enumerate(order))
        return replace(
            state,
            tables=(renamed, state.tables[1], workers, state.tables[3]),
            phases=tuple(_rename_phase(state.phases[old], names) for old in order),
            gone=frozenset(new[worker] for worker in state.gone),
            leases=tuple((session, new[worker]) for session, worker in state.leases),
        )

    # --- what must hold

    def _check(self, state: InboxState) -> None:
        columns = self.tables.columns["holdfast_inbox"]
        places = [columns.index(name) for name in ("tenant", "session", "state")]
        entries = [tuple(row[place] for place in places) for row in state.tables[0]]
        active = Counter((row[0], row[1]) for row in entries if row[2] in _ACTIVE)
        if any(count > 1 for count in active.values()):
            raise InboxViolation("a session has two active entries")
        if any((row[0], row[1]) not in active for row in entries if row[2] == "blocked"):
            raise InboxViolation("an entry is blocked by nothing")
        queued = Counter(row[0] for row in entries if row[2] in _QUEUED)
        if any(queued[row[0]] != row[1] for row in state.tables[1]):
            raise InboxViolation("the count of a queue is wrong")
        admitted = Counter(row[0] for row in entries if row[2] == "admitted")
        most = self.story.running
        if most is not None and any(count > most for count in admitted.values()):
            raise InboxViolation("more turns run than may")
        for number, row in enumerate(entries):
            if self.story.turns[number].kills:
                is_parked, is_closed = row[2] == "parked", state.turns[number] == "closed"
                if is_parked != is_closed:
                    raise InboxViolation(f"turn {number} is not closed together with its entry")
        driving = Counter(
            phase[1]
            for worker, phase in enumerate(state.phases)
            if phase[0] in ("began", "drives", "ends") and worker not in state.gone
        )
        if not self.story.pauses and any(count > 1 for count in driving.values()):
            raise InboxViolation("two workers have one entry")

    def _check_end(self, state: InboxState) -> None:
        place = self.tables.columns["holdfast_inbox"].index("state")
        for number, row in enumerate(state.tables[0]):
            kills = self.story.turns[number].kills
            wanted = EntryState.PARKED if kills else EntryState.DONE
            if row[place] != wanted or state.turns[number] != "closed":
                text = f"turn {number} is lost: {row[place]}, {state.turns[number] or 'not begun'}"
                raise InboxViolation(text)


def _rename_phase(phase: Phase, names: Mapping[str, str]) -> Phase:
    if phase[0] != "again":
        return phase
    stalled = (StalledEntry(one.id, names.get(one.worker, one.worker)) for one in phase[1])
    return ("again", tuple(stalled))


def _go(state: InboxState, worker: int, phase: Phase) -> InboxState:
    return replace(state, phases=_set(state.phases, worker, phase))


def _put_next(state: InboxState, worker: int, jobs: Sequence[Any]) -> InboxState:
    ids = tuple(job.id for job in jobs)
    return _go(state, worker, ("puts", ids) if ids else IDLE)


def _hear_next(state: InboxState, worker: int, admission: Any) -> InboxState:
    """Let a worker hear what it has admitted: jobs to put, and the turn that it has itself."""
    ids = tuple(job.id for job in admission.jobs)
    taken = [("began", entry.id, int(entry.request)) for entry in admission.taken]
    phase: Phase = ("hears", ids, taken[0] if taken else IDLE)
    return _go(state, worker, phase if ids or taken else IDLE)


def _set(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _add(faults: tuple[int, int, int, int, int], place: int) -> Any:
    return _set(faults, place, faults[place] + 1)


def _without(jobs: tuple[int, ...], job: int) -> tuple[int, ...]:
    place = jobs.index(job)
    return jobs[:place] + jobs[place + 1 :]


def _path(
    known: dict[InboxState, tuple[InboxState | None, str]], state: InboxState | None
) -> tuple[str, ...]:
    path: list[str] = []
    while state is not None:
        state, said = known[state]
        path.append(said)
    return tuple(reversed(path[:-1]))


def _reach(
    ends: Sequence[InboxState], before: dict[InboxState, list[InboxState]]
) -> set[InboxState]:
    """Every state from which an end can be reached."""
    found, queue = set(ends), deque(ends)
    while queue:
        for state in before.get(queue.popleft(), ()):
            if state not in found:
                found.add(state)
                queue.append(state)
    return found
