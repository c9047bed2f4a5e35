"""What is no Exception, such as a failed test within an observer, left every append of a commit waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.core.events import ModelReplied
from holdfast.events import Observation
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Exit(BaseException):
    """As pytest's own outcomes are."""


def observer(seen: Observation) -> None:
    if isinstance(seen.item, ModelReplied) and seen.run_id == "s":
        raise Exit


async def test_the_turn_and_all_others_come_to_their_end(tmp_path: Path) -> None:
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, said: raised.append(said["exception"])
    )
    model = ScriptedModel(*["Done."] * 9)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(model, journal=journal, observers=[observer])
        runs = [agent.run("Go.", session=name) for name in "rstuvwxyz"]
        async with asyncio.timeout(20):
            ended = await asyncio.gather(*runs)
    assert [result.text for result in ended] == ["Done."] * 9
    assert [type(error) for error in raised] == [Exit]
