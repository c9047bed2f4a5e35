"""A session is deleted whose messages are queued: none of them begins while the others are taken out."""

from __future__ import annotations

import pytest
from tests.journal.inbox.queued_turns import make_submission, make_worker

from holdfast import MemoryJournal
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.turn_queue import TurnQueue
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.sessions.session_index import to_index


async def test_the_last_message_is_taken_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal().for_tenant("acme")
    inbox = open_inbox(journal)
    await inbox.note_worker(make_worker("w"))
    for number in range(4):
        await inbox.submit(make_submission("s", f"r{number}"))
    cancel, admitted = inbox.cancel, list[int]()

    async def cancel_and_admit(number: int, by: str = "") -> EntryState | None:
        state = await cancel(number, by)
        admitted.extend(job.id for job in (await inbox.admit()).jobs)
        return state

    monkeypatch.setattr(inbox, "cancel", cancel_and_admit)
    queue = TurnQueue("acme", inbox, to_index(journal), SessionWatch())
    await queue.cancel_all_unbegun("s", "ann")
    first, *later = sorted(await inbox.list_entries(), key=lambda entry: entry.id)
    assert admitted == [first.id]  # it was next from the beginning
    assert first.cancelled_by == "ann"
    assert {entry.state for entry in later} == {EntryState.DROPPED}
