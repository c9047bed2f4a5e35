"""An answer came while its turn was about to rest, and the journal could not be read for a moment: the
turn was left as it was until the next start of the service.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, ToolPermission, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.turns import turn_runner
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    agent = Agent(
        ScriptedModel(call, "Done."),
        name="payer",
        tools=[pay],
        middleware=[ToolPermission(ask=["pay"])],
        clock=FakeClock(),
    )
    tenant = ServiceTenants(agent).for_tenant()
    look, failures = turn_runner._has_new_answers, 0

    async def answer_and_fail(turn: Any, result: Any, agent: Any) -> bool:
        nonlocal failures
        if failures:
            return await look(turn, result, agent)
        failures += 1
        (question,) = await agent.questions("ada")
        assert await tenant.answer("ada", question.approve(by="ann"))
        raise JournalStorageError("journal.db", "cannot be read", fix="Try again")

    monkeypatch.setattr(turn_runner, "_has_new_answers", answer_and_fail)
    await tenant.start("payer", "Pay 3.", session="ada")
    async with asyncio.timeout(20):
        while (await tenant.last_turn("ada")).status != "completed":
            await asyncio.sleep(0.01)
    assert failures == 1
