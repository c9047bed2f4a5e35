"""A session that was deleted and begun again under the same name repeated its idempotency keys.

So a service that had seen the key refused the new call, or returned the earlier result.
"""

from __future__ import annotations

from pathlib import Path

from holdfast import Agent, SqliteJournal, ToolCall, ToolContext, tool
from holdfast.testing import FakeClock, ScriptedModel


async def test_a_new_session_of_the_same_name_has_other_keys(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(effect="write")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return "paid"

    with SqliteJournal(tmp_path / "talk.db") as journal:
        for _ in range(2):
            model = ScriptedModel(ToolCall("c1", "pay"), "Paid.")
            agent = Agent(model, tools=[pay], journal=journal)
            await agent.run("Pay.", session="ada")
            await agent.sessions.delete("ada")
    assert len(set(keys)) == 2


async def test_all_attempts_of_a_call_have_the_same_key() -> None:
    keys: list[str] = []

    @tool(effect="idempotent")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            raise ConnectionError("down")
        return "paid"

    model = ScriptedModel(ToolCall("c1", "pay"), "Paid.")
    await Agent(model, tools=[pay], clock=FakeClock()).run("Pay.")
    assert len(keys) == 2
    assert len(set(keys)) == 1
