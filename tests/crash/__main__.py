"""`python -m tests.crash [KILLS] [SEED]`: more kills than the test suite has time for."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.kills import Tally, kill_runs
from tests.crash.provider import provider
from tests.crash.rounds import crash
from tests.crash.workers import in_workers

OF_JOURNAL = 10  # one kill in so many falls on a journal that is written by many at once


def main(words: list[str]) -> int:
    """1 when something was lost, done twice, or ended otherwise than it should."""
    kills = int(words[0]) if words else 10_000
    seed = int(words[1]) if len(words) > 1 else int(time.time())
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, provider() as base_url:
        fell, records = crash(Path(folder), kills // OF_JOURNAL, seed)
        print(
            f"{kills // OF_JOURNAL:7}  killed while five producers append, {fell} of them at work"
        )
        print(f"{records:7}  records there at the end: each acknowledged one, whole and in order")

        def play(worker: int) -> Tally:
            share = (kills - kills // OF_JOURNAL) // 2
            place = Path(folder, str(worker))
            place.mkdir()
            return kill_runs(place, base_url, share, seed + worker)

        tally = in_workers(play, 2)
    print(tally.table())
    print(*tally.problems, sep="\n", end="")
    print(f"seed {seed}, {time.monotonic() - start:.0f} s")
    return bool(tally.problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
