"""Does the same work in several forks at once."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.crash.kills import Tally, kill_runs

WORKERS = 2


def kill_in_workers(folder: Path, base_url: str, kills: int, seed: int) -> Tally:
    """Kill at least so many processes, a share of them in each worker."""

    def play(worker: int) -> Tally:
        place = folder / str(worker)
        place.mkdir()
        which = (worker, WORKERS)
        return kill_runs(place, base_url, kills // WORKERS, seed + worker, which)

    return in_workers(play, WORKERS)


def in_workers(work: Callable[[int], Tally], workers: int) -> Tally:
    """Add up what all workers counted."""
    pipes = []
    for worker in range(workers):
        reading, writing = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.close(reading)
                os.write(writing, pickle.dumps(work(worker)))
                status = 0
            except BaseException:  # noqa: BLE001  # REASON: nobody is above a fork
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)
        pipes.append(reading)
    total = Tally()
    for reading in pipes:
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.wait()
        assert status == 0, "a worker died"
        total.add(pickle.loads(said))
    return total
