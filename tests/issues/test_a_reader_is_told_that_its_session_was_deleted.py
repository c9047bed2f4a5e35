"""A reader of a deleted session waited for ever, also when there was a new session with its name."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent
from holdfast.event_log.stream_items import EndItem, EventItem
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.testing import ScriptedModel


async def _tell_once(tenant: TenantService, text: str) -> None:
    await tenant.start("greeter", text, session="ada")
    await tenant.runner.wait("ada")


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_reader_is_told_that_its_session_was_deleted(*, is_made_again: bool) -> None:
    tenant = ServiceTenants(Agent(ScriptedModel("One.", "Two."), name="greeter")).for_tenant()
    await _tell_once(tenant, "Hello")
    items = tenant.reader.follow("ada")
    async with asyncio.timeout(5):
        async for entry in items:
            if isinstance(entry.item, EventItem) and entry.position.sequence == 3:
                break
        following = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await tenant.sessions.delete("ada")
        if is_made_again:
            await _tell_once(tenant, "Hello again")
        tenant.watch.wake("ada")
        entry = await following
    assert entry.item == EndItem("3", "deleted")
