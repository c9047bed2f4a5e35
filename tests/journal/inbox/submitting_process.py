"""Submits a turn as soon as a line comes in, and prints what came of it: `ADDRESS SESSION REQUEST BODY`."""

from __future__ import annotations

import asyncio
import sys

from tests.journal.inbox.queued_turns import make_submission

from holdfast import PostgresJournal
from holdfast.journal.inbox.inbox_errors import SubmissionError
from holdfast.journal.inbox.opening_inbox import open_inbox


async def main(address: str, session: str, request: str, body: str) -> None:
    with PostgresJournal(address) as journal:
        inbox = open_inbox(journal)
        await inbox.read_limits()
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            entry = await inbox.submit(make_submission(session, request, body=body.encode()))
            print(entry.id, flush=True)
        except SubmissionError:
            print("refused", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
