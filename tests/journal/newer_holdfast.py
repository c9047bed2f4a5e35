"""A Holdfast whose journals have one version more: `python -m tests.journal.newer_holdfast ACT ADDRESS [SECONDS]`.

"open" opens the journal, which migrates it, and prints "ready"; it closes it when its input ends. "finish"
continues the open turn of the session `ada` and prints the text of the reply. "store" opens the service
store beside a file, and "read" reads a file beside its writer. A step adds a column that must have a value, so that an append of the version before would be wrong.
"broken" fails in the middle of a migration. An error is printed and ends the process with status 3.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.journal.files import sqlite_schema
from holdfast.journal.postgres import postgres_schema

_ACT, _ADDRESS = sys.argv[1:3]
_MORE = ["NONSENSE"] if _ACT == "broken" else []


def add_steps() -> None:
    """Let this process know one version more; before the modules that read the numbers are imported."""
    column = "ADD COLUMN worth integer NOT NULL DEFAULT 7"
    sqlite_schema.STEPS += ((f"ALTER TABLE runs {column}", *_MORE),)
    sqlite_schema.VERSION = len(sqlite_schema.STEPS)
    postgres_schema.STEPS += ((f"ALTER TABLE holdfast_runs {column}", *_MORE),)
    postgres_schema.VERSION = len(postgres_schema.STEPS)
    from holdfast.journal.service_store import (
        service_store_sqlite,  # it imports readers of the numbers above
    )

    service_store_sqlite.STEPS += ((f"ALTER TABLE holdfast_keys {column}",),)
    service_store_sqlite.VERSION = len(service_store_sqlite.STEPS)


def tell(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def finish() -> None:
    """Continue the open turn."""
    from holdfast import Agent, tool
    from holdfast.journal.url import open_journal
    from holdfast.testing import ScriptedModel

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen by the newer one"

    with open_journal(_ADDRESS) as journal:
        agent = Agent(ScriptedModel("Finished."), name="worker", tools=[look], journal=journal)
        async with asyncio.timeout(30):
            recovered = await agent.recover()
            while not recovered:
                await asyncio.sleep(0.1)  # until the lease of the older one has ended
                recovered = await agent.recover()
        tell("".join(run.result.text for run in recovered if run.result is not None))


async def open_it() -> None:
    """Open the journal or the store, and wait."""
    from holdfast.journal.service_store import service_store_sqlite
    from holdfast.journal.url import open_journal

    if _ACT == "store":
        store = service_store_sqlite.SqliteServiceStore(_ADDRESS)
        await store.has_keys()
        tell("ready")
        return
    if _ACT == "read":
        from holdfast.journal.sqlite.read_only import ReadOnlySqliteJournal

        await ReadOnlySqliteJournal(_ADDRESS).runs()
        return
    with open_journal(_ADDRESS) as journal:
        await journal.runs()
        tell("ready")
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    from holdfast.errors import HoldfastError

    try:
        asyncio.run(finish() if _ACT == "finish" else open_it())
    except HoldfastError as error:
        tell(f"{type(error).__name__}: {error}")
        sys.exit(3)


if __name__ == "__main__":
    add_steps()
    main()
