"""Each route over each budget: it takes from those that it declares and from no other, and is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from tests.server.every_route import (
    Caller,
    list_routes,
    list_takes,
    list_trials,
    make_protected_app,
)
from tests.server.serving import Answer, serve

from holdfast.errors import ConfigurationError
from holdfast.hosting.bound_agents import plan_of
from holdfast.server.access.budgets import READS, Budget, CallerUsage, check_takes
from holdfast.server.access.callers import Caller as RequestCaller
from holdfast.server.api.operations import Operation
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.api.routes import OPERATIONS, describe_api
from holdfast.server.problem_responses import ProblemError, make_wait_problem
from holdfast.server.protocols.entering import ProtocolRoute

COUNTED: tuple[Budget, ...] = ("requests", "turns", "streams", "bytes")
_TAKING = {
    "requests": "begin_request",
    "turns": "take_turn",
    "streams": "take_stream",
    "bytes": "take_bytes",
}


class Watch:
    """Notes what each request takes, and refuses what one budget has no more of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[str] = []
        self.empty = ""
        for budget, name in _TAKING.items():
            self._watch(budget, name, monkeypatch)

    def _watch(self, budget: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        take = getattr(CallerUsage, name)

        def watched(usage: CallerUsage, *values: Any, **options: Any) -> Any:
            self.taken.append(budget)
            if self.empty == budget:
                raise ProblemError(make_wait_problem(429, "empty", "It is used up.", 3.0))
            return take(usage, *values, **options)

        monkeypatch.setattr(CallerUsage, name, watched)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


class World:
    """A service with sessions of each kind, and somebody who may do everything."""

    def __init__(self, app: Starlette, caller: Caller, found: dict[str, str]) -> None:
        self.app, self._caller, self._found = app, caller, found
        self._model = plan_of(app.state.service.agents["clerk"]).model

    async def send_all(self, watch: Watch) -> AsyncIterator[tuple[str, Answer, Sequence[str]]]:
        """Send every request, and wait until nothing runs; yield what it took."""
        runner = self.app.state.service.for_tenant("alpha").runner
        for route, trial in list_trials(self.app):
            watch.taken.clear()
            answer = await self._caller.send(route.partition(" ")[0], trial, self._found)
            for turn in runner.driven:
                await runner.wait(turn.session)
            yield route, answer, tuple(watch.taken)

    def count_calls(self) -> int:
        """Return how often a model was called."""
        return len(self._model.requests)

    async def count_bytes(self) -> int:
        """Return what is stored."""
        return int(await self.app.state.service.count_bytes("alpha"))


@asynccontextmanager
async def make_world() -> AsyncIterator[World]:
    app = make_protected_app()
    async with serve(app) as base:
        caller = await Caller.make(app, base, "alpha", "admin")
        try:
            yield World(app, caller, await caller.build_world("ALPHA"))
        finally:
            await caller.close()


def test_every_route_of_the_document_names_its_budgets() -> None:
    for path, methods in describe_api()["paths"].items():
        for method, entry in methods.items():
            assert "requests" in entry["x-takes"], (method, path)
    takes = list_takes(make_protected_app())
    assert set(takes) == set(list_routes(make_protected_app()))
    for route, declared in takes.items():
        check_takes(route, declared)
        assert "requests" in declared or "connections" in declared, route


def test_a_route_without_a_budget_cannot_be_made() -> None:
    one = OPERATIONS[0]
    fields = {"name": "x", "method": "GET", "path": "/x", "text": "", "scope": "read"}
    types = {"handle": one.handle, "query": NoQuery, "body": NoBody}
    with pytest.raises(TypeError, match="takes"):
        Operation(**fields, **types)  # type: ignore[call-arg, arg-type]
    with pytest.raises(ConfigurationError, match="x takes from no budget"):
        Operation(**fields, **types, takes=())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="answer takes from 'luck'"):
        ProtocolRoute(answer, ("luck",))  # type: ignore[arg-type]


async def answer() -> Any:
    raise NotImplementedError


def test_a_route_cannot_take_from_a_budget_that_it_does_not_declare() -> None:
    caller = RequestCaller(None, None)  # type: ignore[arg-type]
    caller.takes = READS
    assert caller.find_use("requests") is None
    with pytest.raises(TypeError, match="takes from 'turns' and does not declare it"):
        caller.find_use("turns")


async def test_what_a_route_does_it_takes_from_its_budgets(watch: Watch) -> None:
    """A model is called, bytes are stored or a stream is sent only by routes that pay for it."""
    taken_by: dict[str, set[str]] = {}
    async with make_world() as world:
        takes = list_takes(world.app)
        calls, stored = world.count_calls(), await world.count_bytes()
        async for route, sent, taken in world.send_all(watch):
            taken_by.setdefault(route, set()).update(taken)
            assert set(taken) <= set(takes[route]), route
            before, calls = calls, world.count_calls()
            assert calls == before or "turns" in taken, (route, sent)
            before, stored = stored, await world.count_bytes()
            # What cancels or deletes stores who did it, and is never refused for that.
            assert stored - before <= 1024 or "bytes" in taken, (route, stored - before)
            if sent.headers.get("content-type", "").startswith("text/event-stream"):
                assert "streams" in taken, route
        assert calls > 10
        for route, declared in takes.items():
            missing = set(declared) & set(COUNTED) - taken_by[route]
            assert not missing or route == "POST /console/sign-out", (route, missing)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("empty", COUNTED)
async def test_a_route_is_refused_when_a_budget_is_used_up(watch: Watch, empty: Budget) -> None:
    refused = set()
    async with make_world() as world:
        watch.empty, calls = empty, world.count_calls()
        async for route, sent, taken in world.send_all(watch):
            before, calls = calls, world.count_calls()
            if empty not in taken:
                continue
            refused.add(route)
            assert (sent.status, sent.headers["retry-after"]) == (429, "3"), (route, sent)
            assert b"It is used up." in sent.body, (route, sent)
            assert calls == before, route
        for route, declared in list_takes(world.app).items():
            is_exempt = route == "POST /console/sign-out"  # whoever used up everything can sign out
            assert (empty in declared and not is_exempt) == (route in refused), route
