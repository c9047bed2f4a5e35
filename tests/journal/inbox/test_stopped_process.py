"""A process that is stopped in the middle of a transaction loses its locks to those who wait for them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.journal.inbox.queued_turns import get_ids, make_submission, make_worker

from holdfast import PostgresJournal
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.opening_inbox import open_inbox

PROGRAM = [sys.executable, "-m", "tests.journal.inbox.stopped_process"]

pytestmark = pytest.mark.anyio


@contextmanager
def stopped_process(url: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped within a transaction."""
    process = subprocess.Popen(
        [*PROGRAM, url, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "before\n"
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("kind", ["lock", "sent", "row"])
async def test_a_process_that_is_stopped_in_a_transaction_loses_its_locks(
    url: str, kind: str
) -> None:
    """Also those of a pipeline, which the server does not take for idle."""
    with PostgresJournal(url, timeout=4.0) as journal:
        inbox = open_inbox(journal)
        await inbox.note_worker(make_worker("w"))
        await inbox.submit(make_submission("s", "r"))
        (entry_id,) = get_ids(await inbox.admit())
        with stopped_process(url, kind) as process:
            assert get_ids(await inbox.admit()) == []
            assert await inbox.begin(entry_id, "w") is not None
            await inbox.end([EndedEntry(entry_id, EntryOutcome(state=EntryState.DONE))], "w")
            process.send_signal(signal.SIGCONT)
            said, _ = await asyncio.to_thread(process.communicate, "\n", 10)
            assert said == "after\n"
