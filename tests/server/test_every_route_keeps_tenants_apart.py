"""Two tenants with equal names and ids: nothing of one is seen, changed or guessed by the other.

The same requests are sent twice: where another tenant has what they name, and where nobody has it. The
answers must be the same.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from tests.server.every_route import TRIALS, Caller, list_routes, list_trials, make_protected_app
from tests.server.serving import serve

from holdfast import SqliteJournal
from holdfast.journal import MemoryJournal
from holdfast.journal.port import Journal

_RANDOM = re.compile(
    r"(resp|msg|fc|rs|conv|call|chatcmpl)[_-][\w-]+|[0-9a-f]{32}|[0-9a-f]{12,16}|\d+\.\d+|\d{10,}"
    r'|"next":"[^"]*"|"(turn_)?status":"(open|running|waiting)"'
)

_OF_A_TENANT = ("{session}", "{response}", "{media}", "{entry}", "{schedule}")

OF_PROCESS = {"GET /metrics", "GET /api/v1/endpoints"}
"""What a key with the scope admin sees of the process: counts, without names of tenants or sessions."""


@pytest.fixture(params=["memory", "sqlite"])
def journals(request: pytest.FixtureRequest, tmp_path: Path) -> list[Journal]:
    if request.param == "memory":
        return [MemoryJournal(), MemoryJournal()]
    return [SqliteJournal(tmp_path / "one.db"), SqliteJournal(tmp_path / "two.db")]


@asynccontextmanager
async def two_tenants(app: Starlette, first: str = "alpha") -> AsyncIterator[tuple[Caller, Caller]]:
    async with serve(app) as base:
        callers = [await Caller.make(app, base, tenant, "admin") for tenant in (first, "bravo")]
        try:
            yield callers[0], callers[1]
        finally:
            for caller in callers:
                await caller.close()


async def send_all(app: Starlette, caller: Caller, found: dict[str, str]) -> list[object]:
    """Send every request; return the answers without what is random in them."""
    told: list[object] = []
    for route, trial in list_trials(app):
        method, key = route.partition(" ")[0], {"Idempotency-Key": "once"}
        answer = await caller.send(method, trial, found, **key)
        runner = app.state.service.for_tenant("bravo").runner
        for turn in runner.driven:  # so that the next answer does not depend on how fast it is
            await runner.wait(turn.session)
        if route not in OF_PROCESS:
            is_given = "ALPHA" in f"{trial}" or trial.body == "{export}"
            assert b"ALPHA" not in answer.body or is_given, (route, answer.body)
            told.append((route, trial.path, answer.status, _RANDOM.sub("*", answer.body.decode())))
    return told


async def copy_journal(app: Starlette, tenant: str) -> dict[str, object]:
    """Return everything that the journal has of a tenant."""
    journal = app.state.service.journal.for_tenant(tenant)
    return {entry.run: await journal.read(entry.run) for entry in await journal.runs()}


def test_every_route_has_a_request() -> None:
    app = make_protected_app()
    assert set(list_routes(app)) - set(TRIALS) == set()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("has_equal_names", [False, True])
async def test_a_tenant_learns_and_changes_nothing_of_another(
    journals: list[Journal], *, has_equal_names: bool
) -> None:
    app = make_protected_app(journals[0])
    async with two_tenants(app) as (alpha, bravo):
        found = await alpha.build_world("ALPHA")
        if has_equal_names:
            await bravo.build_world("BRAVO")
        before = await copy_journal(app, "alpha")
        beside = await send_all(app, bravo, found)
        assert await copy_journal(app, "alpha") == before
        body = {"key": found["key"], "binding": found["binding"], "answer": "deny"}
        answered = await alpha.post("/api/v1/sessions/ada/answers", body)
        assert answered.json["accepted"] is True
    other = make_protected_app(journals[1])
    async with two_tenants(other, "charlie") as (charlie, bravo):
        await charlie.queue_turn()  # the numbers of the queue are those of all tenants
        if has_equal_names:
            await bravo.build_world("BRAVO")
        assert await send_all(other, bravo, found) == beside


async def test_what_another_tenant_has_does_not_exist() -> None:
    app = make_protected_app()
    async with two_tenants(app) as (alpha, bravo):
        found = await alpha.build_world("ALPHA")
        for route, trial in list_trials(app):
            if any(name in route for name in _OF_A_TENANT):
                answer = await bravo.send(route.partition(" ")[0], trial, found)
                nothing_runs = route == "GET /vercel/{agent}/chat/{session}/stream"
                assert answer.status == (204 if nothing_runs else 404), (route, trial, answer)
