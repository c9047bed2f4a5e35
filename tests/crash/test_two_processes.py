"""Two processes share a PostgreSQL journal: one is killed or paused, the other continues, and no write is repeated."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.crash.shared_worker import agent_for
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal
from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.journal.postgres.postgres_renewal import LeaseState

pytestmark = pytest.mark.slow  # kills processes

ROOT = Path(__file__).parents[2]
EVENTS = 7
"""Opened, replied, begun, two tools, replied, closed."""
APPENDS = EVENTS - 2
"""The first reply and the marker of its tools are one append, and the last reply and the end."""
BOOKED = "booked Porto"
_CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'"
DOUBT = "Whether it took effect is unknown"


class Workers:
    """Processes with one journal and one folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.all: list[subprocess.Popen[str]] = []

    def start(self, word: str) -> subprocess.Popen[str]:
        self.all.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.crash.shared_worker", self.url, self.folder, word],
                cwd=ROOT,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return self.all[-1]

    def ran(self) -> list[str]:
        noted = self.folder / "ran"
        return noted.read_text().split() if noted.exists() else []

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def workers(url: str, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(url, tmp_path)
    yield workers
    for process in workers.all:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.splitlines()[-1]


def records(postgres: PostgresServer, url: str) -> list[tuple[object, ...]]:
    return postgres.rows(url, "SELECT seq, key, event FROM holdfast_records ORDER BY run_id, seq")


def is_in_slow(workers: Workers, postgres: PostgresServer) -> Callable[[], bool]:
    """Return a check whether both tools ran and the result of the quick one is saved."""
    kept = "SELECT count(*) FROM holdfast_records WHERE type = 'tool_finished'"
    return lambda: "slow" in workers.ran() and postgres.rows(workers.url, kept) == [(1,)]


def test_a_turn_of_a_killed_process_is_continued_by_another(
    workers: Workers, postgres: PostgresServer
) -> None:
    first = workers.start("run")
    workers.until(is_in_slow(workers, postgres))
    second = workers.start("recover")
    assert second.stdout is not None
    # The first process runs, so there is nothing to recover.
    assert second.stdout.readline() == "nothing\n"
    first.kill()
    assert f"[('ada', \"{BOOKED} | Error: Function 'slow' was stopped" in (text := said(second))
    assert DOUBT in text
    assert workers.ran() == ["quick", "slow"]
    assert len(records(postgres, workers.url)) == EVENTS


def test_a_process_that_was_paused_longer_than_its_lease_cannot_commit(
    workers: Workers, postgres: PostgresServer
) -> None:
    zombie = workers.start("run")
    workers.until(is_in_slow(workers, postgres))
    zombie.send_signal(signal.SIGSTOP)
    assert DOUBT in said(workers.start("recover"))
    before = records(postgres, workers.url)
    (workers.folder / "free").touch()
    zombie.send_signal(signal.SIGCONT)
    assert said(zombie) == "LeaseLostError"
    assert records(postgres, workers.url) == before
    assert len(before) == EVENTS
    assert workers.ran() == ["quick", "slow"]


def test_a_paused_process_continues_when_no_other_took_over(
    workers: Workers, postgres: PostgresServer
) -> None:
    sleeper = workers.start("run")
    workers.until(is_in_slow(workers, postgres))
    sleeper.send_signal(signal.SIGSTOP)
    lapsed = "SELECT 1 FROM holdfast_runs WHERE expires < clock_timestamp()"
    workers.until(lambda: bool(postgres.rows(workers.url, lapsed)))
    (workers.folder / "free").touch()
    sleeper.send_signal(signal.SIGCONT)
    assert said(sleeper) == f"{BOOKED} | {BOOKED}"


class Dying(PostgresJournal):
    """Kills its process right before or right after the n-th append."""

    left = 0
    before = False

    async def _append_event(
        self,
        run: str,
        event: Event,
        effect: Effect | None,
        marker: Event | None,
        *,
        lease: LeaseState | None,
        act: Act | None,
    ) -> None:
        self.left -= 1
        is_last = self.left == 0
        if is_last and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        await super()._append_event(run, event, effect, marker, lease=lease, act=act)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)


def die(url: str, folder: Path, moment: int, *, before: bool) -> None:
    """Run a turn in a fork that is killed on the way."""
    child = os.fork()
    if child == 0:
        try:
            journal = Dying(url)
            journal.left, journal.before = moment, before
            asyncio.run(agent_for(journal, folder).run("book", session="ada"))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(1, APPENDS + 1))
def test_after_a_kill_at_any_append_another_process_ends_the_turn(
    moment: int, before: bool, url: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    (tmp_path / "free").touch()
    with PostgresJournal(url) as journal:
        asyncio.run(agent_for(journal, tmp_path).recover())  # makes the tables
    die(url, tmp_path, moment, before=before)
    while postgres.rows(url, _CONNECTED) != [(0,)]:
        time.sleep(0.01)  # the server may still commit what was sent before the kill
    postgres.rows(url, "UPDATE holdfast_runs SET expires = clock_timestamp() RETURNING 1")
    with PostgresJournal(url) as journal:
        agent = agent_for(journal, tmp_path)
        found = asyncio.run(agent.recover())
        kept = [str(key) for _, key, _ in records(postgres, url)]
    ran = (tmp_path / "ran").read_text().split() if (tmp_path / "ran").exists() else []
    assert sorted(ran) in ([], ["quick"], ["quick", "slow"], ["slow"])
    if moment == 1 and before:
        assert (found, kept) == ([], [])
        return
    assert len(kept) == len(set(kept)) == EVENTS
    if moment == APPENDS and not before:
        assert found == []
        return
    (one,) = found
    assert one.error is None
    told = one.result.output.split(" | ")
    for name, text in zip(["quick", "slow"], told, strict=True):
        assert text == BOOKED if name in ran and text == BOOKED else DOUBT in text
        assert text != BOOKED or ran.count(name) == 1
