"""Drives a run with two processes over a shared journal, and kills some of them and pauses others.

The parent must have no thread and no event loop, since it forks.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.crash.driver_process import LEASE, LOST, Job, live
from tests.crash.kills import Player, Tally, lines, warm_up, whole_runs
from tests.crash.marked_runs import TALKS

from holdfast.core.messages import Message

MOST_FAULTS = 6  # in one run; after that nothing disturbs it
PATIENCE = 200.0  # seconds for one run


class Pair:
    """The two processes of one run.

    Args:
        job: the run.
        rng: the random choices of faults.
        tally: receives the counts.
    """

    def __init__(self, job: Job, rng: random.Random, tally: Tally) -> None:
        self.job = job
        self._rng = rng
        self._tally = tally
        self._alive: list[int] = []
        self._asleep: dict[int, tuple[int, float]] = {}
        self._faults = rng.randint(2, MOST_FAULTS)

    def play(self) -> None:
        """Kill and pause the processes until the run has ended."""
        end = time.monotonic() + PATIENCE
        while not self.job.file("said").exists():
            assert time.monotonic() < end, f"{self.job.run} does not end"
            self._fill()
            time.sleep(self._rng.uniform(0.001, 0.015))
            if self._faults:
                self._disturb()
            self._wake()
            self._reap(os.WNOHANG)
        for child in list(self._asleep):
            self._wake_up(child)
        # A remaining process finds the run finished or its lease lost.
        while self._alive:
            self._reap(0)

    def _fill(self) -> None:
        # Only one process begins the turn; the other one would begin a second turn.
        begun = self.job.file("acks").exists()
        while len(self._alive) < 1 + begun:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = live(self.job, None)
                finally:
                    os._exit(status)
            self._alive.append(child)

    def _disturb(self) -> None:
        # The other process can take over.
        if len(self._alive) < 2 or self._asleep or not (acks := self._acks()):
            return
        self._faults -= 1
        drives = int(acks[-1].split()[1])
        likely = drives in self._alive and self._rng.random() < 0.9
        child = drives if likely else self._rng.choice(self._alive)
        if self._rng.random() < 0.5:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self._alive.remove(child)
            self._tally.kills["killed beside another driver"] += 1
        else:
            os.kill(child, signal.SIGSTOP)
            until = time.monotonic() + self._rng.uniform(LEASE, 6 * LEASE)
            self._asleep[child] = (len(acks), until)

    def _wake(self) -> None:
        """Continue some of the paused processes right after another process has taken over."""
        for child, (acked, until) in list(self._asleep.items()):
            missed = len(self._acks()) > acked and self._rng.random() < 0.5
            if missed or time.monotonic() >= until:
                self._wake_up(child)

    def _acks(self) -> list[str]:
        return lines(self.job.file("acks"))

    def _wake_up(self, child: int) -> None:
        del self._asleep[child]
        os.kill(child, signal.SIGCONT)
        self._tally.kills["stopped for a while"] += 1

    def _reap(self, how: int) -> None:
        for child in list(self._alive):
            found, status = os.waitpid(child, how)
            if not found:
                continue
            self._alive.remove(child)
            self._asleep.pop(child, None)
            ended = os.waitstatus_to_exitcode(status)
            if ended == LOST:
                self._tally.kills["came back, and was refused"] += 1
            else:
                assert ended == 0, self.job.file("error").read_text()


def disturb_runs(folder: Path, urls: tuple[str, str], faults: int, seed: int) -> Tally:
    """Kill and pause processes at least so many times.

    Args:
        folder: the folder of the marks.
        urls: the addresses of the provider and of the journal.
        faults: the number of kills and pauses.
        seed: the seed of the random choices.
    """
    rng, tally = random.Random(seed), Tally()
    base_url, address = urls
    warm_up(folder, base_url)
    whole: dict[str, list[Message]] = whole_runs(folder, base_url)
    number = 0
    while tally.kills.total() < faults and not tally.problems:
        number += 1
        talk = rng.choice(["tools", "questions", "repair"])
        assert talk in TALKS
        job = Job(talk, f"{seed}-{number}", folder / "shared", base_url, address=address)
        Pair(job, rng, tally).play()
        Player(job, rng, tally).compare(whole[talk])
    return tally
