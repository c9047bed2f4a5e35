"""The queue of a service: turns that are tried again, and messages of a deleted session."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace

import pytest
from tests.journal.inbox.queued_turns import make_submission, make_worker

from holdfast import MemoryJournal
from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.errors import SessionBusyError
from holdfast.event_log.live.last_turn import LastTurn
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting import turn_queue
from holdfast.hosting.turn_queue import TurnQueue
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.sessions.session_index import to_index

# A failed turn whose worker has not saved its end yet.

FAILED = LastTurn(1, "failed")


class OneTurn:
    """A journal with one turn, of the request "r"."""

    tenant = "acme"

    async def read_by_keys(self, _run: str, _keys: Collection[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(event=TurnOpened("t1", 0.0, user("Hi."), request="r"))]


@pytest.fixture
async def inbox(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """An inbox whose only turn a worker has."""
    monkeypatch.setattr(turn_queue, "_PAUSE", 0.0)
    inbox = open_inbox(MemoryJournal())
    await inbox.note_worker(make_worker("w"))
    entry = await inbox.submit(make_submission("s", "r"))
    await inbox.admit()
    await inbox.begin(entry.id, "w")
    return inbox


def make_queue(inbox: Inbox) -> TurnQueue:
    return TurnQueue("acme", inbox, OneTurn(), SessionWatch())  # type: ignore[arg-type]


async def test_a_turn_whose_end_is_not_saved_yet_is_busy(inbox: Inbox) -> None:
    with pytest.raises(SessionBusyError, match="being saved"):
        await make_queue(inbox).retry("s", FAILED)


async def test_a_turn_is_retried_once_its_end_is_saved(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = await inbox.list_entries()
    find, looks = inbox.find, 0

    async def find_until_the_end(number: int) -> object:
        nonlocal looks
        looks += 1
        if looks == 3:
            outcome = EntryOutcome(state=EntryState.FAILED, turn=1)
            await inbox.end([EndedEntry(number, outcome)], "w")
        return await find(number)

    monkeypatch.setattr(inbox, "find", find_until_the_end)
    assert await make_queue(inbox).retry("s", FAILED)
    assert looks == 3
    found = await find(entry.id)
    assert found is not None
    assert found.state in (EntryState.READY, EntryState.ADMITTED)


async def test_a_turn_that_has_not_failed_stays_as_it_is(inbox: Inbox) -> None:
    assert await make_queue(inbox).retry("s", LastTurn(1, "running"))
    (entry,) = await inbox.list_entries()
    assert entry.state is EntryState.ADMITTED


async def test_no_message_of_a_deleted_session_begins(monkeypatch: pytest.MonkeyPatch) -> None:
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
