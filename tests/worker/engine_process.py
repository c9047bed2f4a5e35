"""A process that runs an engine until it is killed: prints each entry that it begins, and never ends it.

python engine_process.py <address of the journal> <address of the engine>
"""

from __future__ import annotations

import asyncio
import sys

from holdfast import PostgresJournal
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.worker.engines.engine_opening import open_engine


async def begin(entry: int) -> None:
    print(entry, flush=True)
    await asyncio.Event().wait()


async def main(url: str, address: str) -> None:
    with PostgresJournal(url) as journal:
        engine = open_engine(address, journal, stall=1.0)
        await engine.open()
        print("open", flush=True)
        await engine.run(begin, ["q"], JobSlots(4))


asyncio.run(main(*sys.argv[1:]))
