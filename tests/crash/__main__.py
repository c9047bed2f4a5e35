"""`python -m tests.crash [KILLS] [SEED]`: kills processes more often than the test suite does.

`python -m tests.crash explore` explores more crashes and drivers than the test suite does.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.crash.explored_turns import STORIES
from tests.crash.explorer import Explorer
from tests.crash.forked_work import kill_in_workers
from tests.crash.inbox_explorer import InboxExplorer
from tests.crash.inbox_stories import LARGE_INBOX_STORIES
from tests.crash.kills import Tally
from tests.crash.paused_processes import disturb_runs
from tests.crash.provider import provider
from tests.crash.writer_rounds import crash

OF_DATABASE = 20  # one kill in so many is of one of two processes that share a database
OF_JOURNAL = 10  # one kill in so many is of a process that writes several runs at once


def main(words: list[str]) -> int:
    """Return 1 if a record was lost, a write was repeated, or a run had a wrong end."""
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

        tally = kill_in_workers(Path(folder), base_url, kills - kills // OF_JOURNAL, seed)
        tally.add(_over_postgres(Path(folder), base_url, kills // OF_DATABASE, seed))
    print(tally.table())
    print(*tally.problems, sep="\n", end="")
    print(f"seed {seed}, {time.monotonic() - start:.0f} s")
    return bool(tally.problems)


def _over_postgres(folder: Path, base_url: str, faults: int, seed: int) -> Tally:
    """Kill and pause two processes at a time over a real server, if there is one."""
    from tests.postgres_server import CannotRun, PostgresServer

    try:
        server = PostgresServer()
    except CannotRun as error:
        print(f"no PostgreSQL here: {error}")
        return Tally()
    try:
        place = folder / "shared"
        place.mkdir()
        return disturb_runs(place, (base_url, server.new_url()), faults, seed)
    finally:
        server.stop()


def explore() -> int:
    """Return 1 if an order of moves breaks an invariant."""
    for story in STORIES:
        deeper = replace(story, crashes=2, overlaps=max(1, story.overlaps))
        found = Explorer(deeper).explore()
        print(f"{story.name}: {found}", flush=True)
        if found.violation:
            return 1
    for large in LARGE_INBOX_STORIES:
        of_inbox = InboxExplorer(large, renames=True).explore()
        print(f"inbox, {large.name}: {of_inbox}", flush=True)
        if of_inbox.violation:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
