"""A BaseException in an observer, such as a failed test, left every append of a commit waiting."""

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


async def test_all_other_turns_come_to_their_end(tmp_path: Path) -> None:
    model = ScriptedModel(*["Done."] * 9)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(model, journal=journal, observers=[observer])
        runs = [agent.run("Go.", session=name) for name in "rstuvwxyz"]
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*runs, return_exceptions=True)
    texts = [outcome.text for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert texts == ["Done."] * 8
    assert isinstance(outcomes[1], Exit)
