"""A mistake of the program ends one turn: soon, and without a word of a parent in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from apps.registration.tests.flow.chat_club import SESSION, Club
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE

from holdfast.errors import StoppedError
from registration.club import journey
from registration.flow.conversations import Conversation, Move, change_conversation
from registration.store import StoreError, Transaction

CODE = "200-lions-u10-2526"


def fail(*_arguments: object) -> Any:
    raise ValueError("Sarah Jones, 07700 900123")


def lock(*_arguments: object) -> Any:
    raise StoreError("the database is locked")


@pytest.mark.parametrize("raised", [fail, lock])
async def test_a_tool_that_fails_each_time_ends_the_turn_soon(
    club: Club, monkeypatch: pytest.MonkeyPatch, raised: Callable[..., Any]
) -> None:
    await club.say(CODE)
    before = await club.conversation()
    monkeypatch.setattr(journey, "take", raised)
    asked = len(club.model.requests)
    with pytest.raises(StoppedError):
        await club.say("Sarah Jones")
    assert len(club.model.requests) - asked == 3
    monkeypatch.undo()
    assert await club.conversation() == before
    await club.say("Sarah Jones")
    assert await club.step() == 2


async def test_a_look_up_that_fails_once_is_made_again(
    club: Club, monkeypatch: pytest.MonkeyPatch
) -> None:
    await club.say_all(*TO_HOUSE)
    finish, failures = journey.finish_effect, [StoreError("the database is locked")]

    def fail_once(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return finish(*arguments)

    monkeypatch.setattr(journey, "finish_effect", fail_once)
    await club.say("12")
    assert not failures
    assert await club.step() == 15


async def test_no_text_of_a_mistake_is_in_the_log(
    club: Club, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await club.say(CODE)
    monkeypatch.setattr(journey, "take", fail)
    with caplog.at_level(logging.DEBUG), pytest.raises(StoppedError):
        await club.say("Sarah Jones")
    assert "ValueError at test_mistakes" in caplog.text
    assert "Jones" not in caplog.text
    assert "900123" not in caplog.text


async def test_a_change_with_a_known_key_is_not_made_again(club: Club) -> None:
    """A process that was taken for dead comes back with a call that another one has performed."""
    await club.say(CODE)
    move = Move(session=SESSION, key="call", turn=2, now=0.0)
    begun = await change_conversation(club.database, move, lambda _tx, before: before)

    def change(_tx: Transaction, _before: Conversation) -> Conversation:
        raise AssertionError

    assert await change_conversation(club.database, move, change) == begun
