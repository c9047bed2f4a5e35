"""A message that is accepted while its conversation is forgotten leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.flow.chat_club import SESSION, Club, open_club

from holdfast.errors import ConfigurationError
from holdfast.server import Service
from registration.http.chat import Chat
from registration.http.problems import Problem
from registration.store.deletion import delete_session
from registration.store.sessions import Session, load_session


async def load_owner(club: Club) -> Session:
    owner = await club.database.read(lambda tx: load_session(tx, SESSION))
    assert owner is not None
    return owner


class _LateChat(Chat):
    """A chat whose session is forgotten between two of its acts."""

    club: Club

    async def _start(self, *given: Any) -> Any:
        await self.club.database.transact(lambda tx: delete_session(tx, SESSION, 0.0))
        return await super()._start(*given)


async def test_no_row_of_a_forgotten_conversation_is_written(tmp_path: Path) -> None:
    async with open_club(tmp_path) as club:
        owner = await load_owner(club)
        await club.database.transact(lambda tx: delete_session(tx, SESSION, 0.0))
        journal = f"sqlite:///{tmp_path}/talk.db"
        async with Service(club.agents.values(), journal=journal) as service:
            with pytest.raises(Problem, match="no such conversation"):
                await Chat(club.parts, service).send(owner, "I am Sarah", "m1")
        assert not await club.database.read(lambda tx: tx.execute("SELECT * FROM messages"))


async def test_no_word_of_a_forgotten_conversation_is_kept(tmp_path: Path) -> None:
    async with open_club(tmp_path) as club:
        journal = f"sqlite:///{tmp_path}/talk.db"
        async with Service(club.agents.values(), journal=journal) as service:
            chat = _LateChat(club.parts, service)
            chat.club = club
            with pytest.raises(Problem, match="no such conversation"):
                await chat.send(await load_owner(club), "I am Sarah", "m1")
            with pytest.raises(ConfigurationError):
                await service.sessions.read(SESSION)
