"""A saved record is shown to the parent who gave it: nobody guesses who that is."""

from __future__ import annotations

from pathlib import Path

from apps.registration.tests.flow.chat_club import SESSION, open_club

from registration.fixtures import seed_club
from registration.flow.agents import AGAIN
from registration.flow.step_tools import MOST_TRIES
from registration.store import Transaction
from registration.store.deletion import delete_session
from registration.store.sessions import create_session

CODE = "100-tigers-u13-2526-Jack-Smith"


async def test_nobody_guesses_the_number_in_many_conversations(tmp_path: Path) -> None:
    async with open_club(tmp_path) as club:
        await club.database.transact(lambda tx: seed_club(tx, "2526"))

        async def begin_another() -> None:
            def work(tx: Transaction) -> None:
                delete_session(tx, SESSION, 0.0)
                create_session(tx, SESSION, "token", AGAIN, 0.0)

            await club.agents[AGAIN].sessions.delete(SESSION)
            await club.database.transact(work)

        for number in range(MOST_TRIES):
            if number == MOST_TRIES // 2:
                await begin_another()
            if number in (0, MOST_TRIES // 2):
                assert "Mary" not in await club.say(CODE, AGAIN)
            await club.say(f"07700 90010{number}", AGAIN)
        refused = await club.say("07700 900555", AGAIN)
        assert "cannot check any more" in refused
        progress = (await club.conversation()).progress
        assert progress is not None
        assert progress.further == "identity"


async def test_a_parent_who_is_known_is_not_counted(tmp_path: Path) -> None:
    async with open_club(tmp_path) as club:
        await club.database.transact(lambda tx: seed_club(tx, "2526"))
        await club.say(CODE, AGAIN)
        await club.say("07700 900111", AGAIN)
        assert "Mary" in await club.say("mary@example.com", AGAIN)
        assert not await club.database.read(lambda tx: tx.execute("SELECT key FROM identity_tries"))
