"""Kills processes that drive runs, lets others continue, and checks the result.

The parent must have no thread and no event loop, since it forks.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from tests.crash.driver_process import Death, Job, live
from tests.crash.marked_runs import TALKS, TOOLS

from holdfast.core.batch import IN_DOUBT_TEXT
from holdfast.core.messages import Message, ToolResult

MOST_DEATHS = 12  # of one run; after that nothing kills it
ENOUGH = 3  # problems; after these the test stops
INSTANT = "killed at a random instant"


@dataclass
class Tally:
    """The counts; `losses`, `duplicates` and `others` must stay empty."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    doubts: int = 0
    losses: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.kills += other.kills
        self.runs += other.runs
        self.doubts += other.doubts
        self.losses += other.losses
        self.duplicates += other.duplicates
        self.others += other.others

    @property
    def problems(self) -> list[str]:
        """Return all problems that were found."""
        return self.losses + self.duplicates + self.others

    def table(self) -> str:
        """Return the counts as text."""
        rows = [f"{count:7}  {kind}" for kind, count in sorted(self.kills.items())]
        rows += [f"{count:7}  runs of {talk!r}, each ended" for talk, count in self.runs.items()]
        rows.append(f"{self.doubts:7}  writes in doubt, and the model was told so")
        rows.append(f"{len(self.losses):7}  acknowledged events lost")
        rows.append(f"{len(self.duplicates):7}  effects done twice")
        rows.append(f"{len(self.others):7}  other differences from the run that nothing disturbed")
        return "\n".join(rows)


class Player:
    """Drives one run to its end and kills its processes on the way.

    Args:
        job: the run.
        rng: the random choices of kills.
        tally: receives the counts.
        first: the only kill of this run; None chooses at random.
    """

    def __init__(
        self, job: Job, rng: random.Random, tally: Tally, first: Death | None = None
    ) -> None:
        self.job = job
        self._rng = rng
        self._first = first
        self._tally = tally
        self._marks: Counter[str] = Counter()
        self._frozen: dict[str, int] = {}

    def undisturbed(self) -> list[Message]:
        """Return the messages of this run without a kill."""
        assert self._life(None, None), self._error()
        return self._said()

    def play(self, whole: list[Message]) -> None:
        """Kill and continue in turns, and compare the end with a run without kills."""
        deaths = 0
        while True:
            death, instant = self._fate(deaths)
            before = self._count()
            over = self._life(death, instant)
            self._look(before)
            if over:
                break
            deaths += 1
        self.compare(whole)

    def _fate(self, deaths: int) -> tuple[Death | None, float | None]:
        if self._first is not None:
            return (None if deaths else self._first), None
        if deaths >= MOST_DEATHS:
            return None, None
        if self._rng.random() < 0.4:
            return None, self._rng.uniform(0.004, 0.05)
        return Death(self._rng.choice((1, 1, 2, 3, 5)), before=self._rng.random() < 0.5), None

    def _life(self, death: Death | None, instant: float | None) -> bool:
        """Run one process. Return whether it ended without being killed."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = live(self.job, death)
            finally:
                os._exit(status)
        if instant is not None:
            time.sleep(instant)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kind = (
                INSTANT
                if death is None
                else f"killed {'before' if death.before else 'after'} an append"
            )
            self._tally.kills[kind] += 1
            return False
        assert os.WEXITSTATUS(status) == 0, f"{self.job}: {self._error()}"
        return True

    def _look(self, before: Counter[str]) -> None:
        """Compare what the last process found in the journal with what it did."""
        job, now = self.job, self._count()
        kept = lines(job.file("kept"))
        for key in kept:
            # Everything for this key was done before this process started.
            self._frozen.setdefault(key, before[key])
        for key, count in self._frozen.items():
            if now[key] > count:
                self._tally.duplicates.append(f"{job.run}: {key} was done after it had an outcome")
                self._frozen[key] = now[key]

    def _count(self) -> Counter[str]:
        return Counter(line.split()[0] for line in lines(self.job.file("marks")))

    def compare(self, whole: list[Message]) -> None:
        """Compare the end of the run with the end of a run without kills."""
        job, tally = self.job, self._tally
        tally.runs[job.talk] += 1
        acked = {line.split()[0] for line in lines(job.file("acks"))}
        lost = acked - set(lines(job.file("end")))
        tally.losses += [f"{job.run}: {key}" for key in sorted(lost)]
        for line, count in Counter(lines(job.file("marks"))).items():
            _, _, name = line.partition(" ")
            if count > 1 and TOOLS.get(name) == "write":
                tally.duplicates.append(f"{job.run}: {line} ran {count} times")
        said, doubts = _without_doubts(self._said())
        tally.doubts += doubts
        if said != whole:
            tally.others.append(f"{job.run}: {said} instead of {whole}")

    def _said(self) -> list[Message]:
        """Return the messages without the names that differ between runs."""
        text = self.job.file("said").read_text()
        text = text.replace(str(self.job.file("marks")), "HERE")
        return msgspec.json.decode(text, type=list[Message])

    def _error(self) -> str:
        return self.job.file("error").read_text()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _without_doubts(said: list[Message]) -> tuple[list[Message], int]:
    """Return the messages with the true results of writes in doubt, and their number."""
    doubts = 0
    text = msgspec.json.encode(said).decode()
    for name, effect in TOOLS.items():
        if effect == "write":
            doubt = IN_DOUBT_TEXT.format(name=name)
            doubts += sum(
                isinstance(part, ToolResult) and part.text == doubt
                for message in said
                for part in message.parts
            )
            text = text.replace(doubt, f"{name} is done")
    told = msgspec.json.decode(text, type=list[Message])
    return [_whole_results(message) for message in told], doubts


def _whole_results(message: Message) -> Message:
    # An error that is not in doubt, and a doubt that is no error, stay: they differ from the run without kills.
    parts = tuple(
        msgspec.structs.replace(part, is_error=False, in_doubt=False)
        if isinstance(part, ToolResult) and part.is_error and part.in_doubt
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def warm_up(folder: Path, base_url: str) -> None:
    """Drive a run in this process, so that each fork has everything imported and compiled."""
    for talk in TALKS.values():
        # With its own API key: breakers and limiters count per account, and forks inherit them.
        run = f"warm-{talk.name}"
        job = Job(talk.name, run, folder / "warm.db", base_url, run)
        assert live(job, None) == 0, job.file("error").read_text()
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()


def whole_runs(folder: Path, base_url: str) -> dict[str, list[Message]]:
    """Return the messages of every kind of run without a kill."""
    found = {}
    for talk in TALKS.values():
        job = Job(talk.name, f"whole-{talk.name}", folder / "whole.db", base_url)
        found[talk.name] = Player(job, random.Random(0), Tally()).undisturbed()
    return found


def kill_runs(
    folder: Path, base_url: str, kills: int, seed: int, worker: tuple[int, int] = (0, 1)
) -> Tally:
    """Kill at least so many processes; `worker` is the number of this worker and of all workers."""
    rng, tally = random.Random(seed), Tally()
    warm_up(folder, base_url)
    whole = whole_runs(folder, base_url)
    this, workers = worker
    for number, (talk, death) in list(enumerate(_every_append(folder)))[this::workers]:
        if tally.kills.total() >= kills or len(tally.problems) >= ENOUGH:
            return tally
        job = Job(talk, f"{seed}-each-{number}", folder / f"each-{number // 8}.db", base_url)
        Player(job, rng, tally, death).play(whole[talk])
    number = 0
    while tally.kills.total() < kills and len(tally.problems) < ENOUGH:
        name = rng.choice(list(TALKS))
        number += 1
        # Several runs share a file, so that the file is not empty at a crash.
        path = folder / f"{seed}-{number // 8}.db"
        job = Job(name, f"{seed}-{number}", path, base_url)
        Player(job, rng, tally).play(whole[name])
    return tally


def _every_append(folder: Path) -> Iterator[tuple[str, Death]]:
    """Kill each kind of run once, before and after each of its appends."""
    for name in TALKS:
        appends = len(lines(folder / f"whole-{name}.end"))
        for append in range(1, appends + 1):
            for before in (False, True):
                yield name, Death(append, before)
