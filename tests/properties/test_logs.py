"""Files and logs of different moments and of diverging copies, put together at random.

A pair is refused and stays as it is, or it is a state that the journal once had, and one that comes
after everything that the file alone holds.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.errors import JournalError
from holdfast.journal.files import file_check, log_file
from holdfast.testing.journal_conformance import make_turn_opened

State = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Snapshot:
    file: bytes
    log: bytes
    state: State
    before: frozenset[State]
    """The states that this one came from, and itself."""


@dataclass
class Life:
    """A journal file that is appended to, deleted from, closed and opened, and all of its snapshots."""

    path: Path
    rng: random.Random
    state: State = frozenset()
    before: frozenset[State] = frozenset({frozenset()})
    snapshots: list[Snapshot] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def fork(self, path: Path) -> Life:
        shutil.copy(self.path, path)
        return Life(path, self.rng, self.state, self.before, self.snapshots, dict(self.numbers))

    def live(self, openings: int) -> None:
        for _ in range(openings):
            with SqliteJournal(self.path) as journal:
                for _ in range(self.rng.randrange(1, 12)):
                    asyncio.run(self.step(journal))
                    self.take()
            self.take()

    async def step(self, journal: SqliteJournal) -> None:
        if self.rng.random() < 0.1 and self.numbers:
            run = self.rng.choice(sorted(self.numbers))
            del self.numbers[run]
            await journal.delete(run)
            self.change(frozenset(one for one in self.state if one[0] != run))
            return
        run = f"run {self.rng.randrange(4)}"
        number = self.numbers[run] = self.numbers.get(run, 0) + 1
        text = f"{self.rng.random()}" + "x" * self.rng.choice((0, 300, 3000, 9000))
        await journal.append(run, make_turn_opened(number, text))
        self.change(self.state | {(run, text)})

    def change(self, state: State) -> None:
        self.state = state
        self.before |= {state}

    def take(self) -> None:
        log = Path(f"{self.path}-wal")
        snapshot = Snapshot(
            self.path.read_bytes(),
            log.read_bytes() if log.exists() else b"",
            self.state,
            self.before,
        )
        self.snapshots.append(snapshot)


async def read_state(journal: SqliteJournal) -> State:
    found = set()
    for entry in await journal.runs():
        for number, record in enumerate(await journal.read(entry.run), 1):
            assert record.event.key == f"t{number}"
            found.add((entry.run, record.event.message.text))  # type: ignore[union-attr]
    return frozenset(found)


def state_alone(path: Path) -> State | None:
    """What the file alone holds, or None when it needs its log."""
    try:
        with closing(file_check.connect_read_only(str(path))) as connection:
            file_check.check_database(connection, str(path), all_pages=True)
            text = "json_extract(event, '$.message.parts[0].text')"
            query = f"SELECT name, {text} FROM records JOIN runs ON runs.id = run"
            return frozenset(connection.execute(query).fetchall())
    except (sqlite3.Error, JournalError):
        return None


# Each takes two seconds and more.
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_a_file_and_a_log_are_refused_or_are_one_state_and_the_newest(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "FRAMES_TO_FOLD", 25)
    rng = random.Random(seed)
    life = Life(tmp_path / "life.db", rng)
    life.live(4)
    copy = life.fork(tmp_path / "copy.db")
    life.live(3)
    copy.live(3)
    other = Life(tmp_path / "other.db", rng, snapshots=life.snapshots)
    other.live(2)
    states: dict[State, frozenset[State]] = {frozenset(): frozenset({frozenset()})}
    for one in life.snapshots:
        states[one.state] = states.get(one.state, frozenset()) | one.before
    refused = accepted = 0
    for number in range(300):
        first = rng.choice(life.snapshots)
        second = first if number % 5 == 0 else rng.choice(life.snapshots)
        path = tmp_path / "pair" / "talk.db"
        path.parent.mkdir()
        path.write_bytes(first.file)
        Path(f"{path}-wal").write_bytes(second.log)
        alone = state_alone(path)
        try:
            with SqliteJournal(path) as journal:
                state = asyncio.run(read_state(journal))
        except JournalError:
            assert first is not second
            assert {one.name for one in path.parent.iterdir()} == {
                "talk.db",
                "talk.db-wal",
                "talk.db.lock",
            }
            assert path.read_bytes() == first.file
            assert Path(f"{path}-wal").read_bytes() == second.log
            refused += 1
        else:
            assert state in states
            assert alone is None or alone in states[state]
            assert first is not second or state == first.state
            accepted += 1
        shutil.rmtree(path.parent)
    assert refused > 50
    assert accepted > 60
