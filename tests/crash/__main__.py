"""`python -m tests.crash [KILLS] [SEED]`: more kills than the test suite has time for.

`python -m tests.crash explore` looks at more crashes and drivers in the explorer than the suite does.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.crash.explorer import Explorer
from tests.crash.kills import Tally, kill_runs
from tests.crash.provider import provider
from tests.crash.rounds import crash
from tests.crash.stories import STORIES
from tests.crash.workers import in_workers

OF_JOURNAL = 10  # one kill in so many falls on a journal that is written by many at once


def main(words: list[str]) -> int:
    """1 when something was lost, done twice, or ended otherwise than it should."""
    if words == ["explore"]:
        return explore()
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


def explore() -> int:
    """1 when an order of moves breaks a promise."""
    for story in STORIES:
        deeper = replace(story, crashes=2, overlaps=max(1, story.overlaps))
        found = Explorer(deeper).explore()
        print(f"{story.name}: {found}", flush=True)
        if found.violation:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
