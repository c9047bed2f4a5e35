"""Resuming a failed turn whose worker has not saved its end: it is retried then, or the caller is told."""

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


async def test_whoever_resumes_too_early_is_told(inbox: Inbox) -> None:
    with pytest.raises(SessionBusyError, match="being saved"):
        await make_queue(inbox).retry("s", FAILED)


async def test_the_turn_is_retried_once_its_end_is_saved(
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
