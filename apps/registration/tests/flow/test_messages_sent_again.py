"""A message whose turn failed after it was taken is sent again: it answers no other question."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from apps.registration.tests.flow.chat_club import SESSION, Club, open_club

from registration.emulators.model import choose_reply
from registration.fixtures import seed_club
from registration.flow.agents import AGAIN, NEW
from registration.flow.registration_hooks import ConductRegistration


async def test_a_message_that_was_taken_is_not_taken_again(
    club: Club, monkeypatch: pytest.MonkeyPatch
) -> None:
    await club.say("200-lions-u10-2526")
    agent = club.agents[NEW]

    def fail(*_: object) -> None:
        raise RuntimeError("failed")

    with monkeypatch.context() as patched:
        patched.setattr(ConductRegistration, "_take_wording", fail)
        with pytest.raises(Exception, match="failed"):
            await agent.run("Sarah Jones", session=SESSION, metadata={"message": "m1"})
    assert await club.step() == 2
    again = await agent.run("Sarah Jones", session=SESSION, metadata={"message": "m1"})
    assert (await club.step(), again.output.routine_number) == (2, 2)
    assert "child" in again.output.agent_final_response
    await agent.run("Sarah Jones", session=SESSION, metadata={"message": "m2"})
    assert await club.step() == 3


async def test_a_step_that_a_re_registration_names_is_left_out(tmp_path: Path) -> None:
    def name_step(request: Any) -> object:
        reply = choose_reply(request)
        if not isinstance(reply, str):
            return reply
        return re.sub(r"\}$", ',"routine_number":3}', reply)

    async with open_club(tmp_path, replies=name_step) as club:
        await club.database.transact(lambda tx: seed_club(tx, "2526"))
        await club.say("100-tigers-u13-2526-Jack-Smith", AGAIN)
        result = await club.agents[AGAIN].run("07700 900555", session=SESSION)
        assert "Jack" in result.output.agent_final_response
        assert msgspec.json.decode(result.text).keys() == {"agent_final_response"}
