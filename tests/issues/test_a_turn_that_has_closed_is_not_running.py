"""A turn that ended while it was read was "running" and had a `closed_at`."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.server.api.session_reading import read_turn
from holdfast.testing import ScriptedModel


async def test_a_turn_that_has_closed_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = asyncio.Event()

    async def hang(_request: object) -> str:
        await may_end.wait()
        return "Done."

    tenant = ServiceTenants(Agent(ScriptedModel(hang), name="slow")).for_tenant()
    accepted = await tenant.start("slow", "Go.", session="ada")
    look = tenant.last_turn

    async def end_after_look(session: str) -> object:
        found = await look(session)
        may_end.set()
        await tenant.runner.wait(session)
        return found

    monkeypatch.setattr(tenant, "last_turn", end_after_look)
    turn = await read_turn(tenant, "ada", accepted.number)
    assert turn.closed_at is not None
    assert (turn.status, turn.text) == ("completed", "Done.")
    assert turn.position == str((await look("ada")).records)
