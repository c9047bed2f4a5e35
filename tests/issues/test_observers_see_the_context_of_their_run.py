"""What was shown after a record came in from the disk was shown without the run's context variables."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.events import Observation
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

request = ContextVar("request", default="none")


@tool(effect="write")
async def pay() -> str:
    """Pay."""
    return "paid"


async def test_each_item_is_shown_in_the_context_of_whoever_runs_the_agent(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def observer(one: Observation) -> None:
        seen.append((type(one.item).__name__, request.get()))

    request.set("7")
    with SqliteJournal(tmp_path / "talk.db") as journal:
        model = ScriptedModel(ToolCall("c", "pay", "{}"), "Done.")
        agent = Agent(model, tools=[pay], journal=journal, observers=[observer])
        await agent.run("Pay.")
    assert ("ToolFinished", "7") in seen
    assert [name for name, of in seen if of != "7"] == []
