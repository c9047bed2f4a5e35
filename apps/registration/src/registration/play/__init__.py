"""The play: children are registered while every party fails and the service is killed, and the end is checked.

This room must never reach into the service: it uses HTTP, and looks at the database when all is done.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from registration.parties import emulate_parties, find_port
from registration.play.checks import PlayReport, check_child, count_jobs, list_tasks, write_report
from registration.play.stage import Play, Stage, open_stage
from registration.play.trouble import CountedTrouble
from registration.store import Database, open_database

__all__ = ["Play", "perform_play", "run_play"]


def run_play(play: Play, folder: str | None = None) -> int:
    """Play, and print the report; return the exit status: 1 if a child did not end as it should.

    Args:
        play: the play.
        folder: where everything is saved; None for a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="registration-play-") as temporary:
        place = Path(folder or temporary).absolute()
        place.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(perform_play(play, place))
    print(f"\n{write_report(report)}", flush=True)
    return 0 if report.is_right else 1


async def perform_play(play: Play, folder: Path) -> PlayReport:
    """Play; return the report.

    Args:
        play: the play.
        folder: where everything is saved.
    """
    began, port = time.monotonic(), find_port()
    trouble = CountedTrouble(play.share, play.seed)
    async with emulate_parties(folder, port, play.journal, trouble.trouble) as parties:
        database = await open_database(parties.environment["REGISTRATION_DATABASE"])
        try:
            async with open_stage(play, parties, port, folder) as stage:
                await stage.perform()
                await stage.settle(database)
                return await _make_report(stage, database, trouble, began)
        finally:
            await database.close()


async def _make_report(
    stage: Stage, database: Database, trouble: CountedTrouble, began: float
) -> PlayReport:
    jobs = await database.read(count_jobs)
    tasks = await database.read(list_tasks)
    providers = stage.parties.providers
    ended = [
        await database.read(lambda tx, one=parent: check_child(tx, one, providers))  # type: ignore[misc]
        for parent in stage.parents
    ]
    return PlayReport(
        faults=trouble.count_faults(),
        requests=trouble.count_requests(),
        questions=trouble.count_questions(),
        kills=stage.kills,
        page=stage.counts,
        jobs=jobs,
        tasks=tasks,
        stuck=stage.stuck,
        ended=ended,
        seconds=time.monotonic() - began,
    )
