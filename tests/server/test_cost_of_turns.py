"""What turns cost by the prices that the operator gives: shown, added up, and filtered by."""

from __future__ import annotations

import aiohttp
import pytest
from tests.server.serving import Api, serve

from holdfast import Agent
from holdfast.client import Client, InvalidRequestError
from holdfast.core.error_info import ErrorCategory, ErrorInfo
from holdfast.core.events import ModelFailed, ModelReplied
from holdfast.core.messages import Reply, Text, Usage
from holdfast.errors import ConfigurationError
from holdfast.event_log.turn_fold import TurnFold
from holdfast.models import Prices
from holdfast.server import ServiceOptions, create_app
from holdfast.testing import ScriptedModel

PRICES = Prices({"dear": {"input": "10", "output": "100"}, "cheap": {"input": "1", "output": "2"}})


def reply(model: str, usage: Usage) -> Reply:
    return Reply((Text("Done."),), usage=usage, model=model)


def priced(*replies: Reply, name: str = "one") -> Agent:
    return Agent(ScriptedModel(*replies), name=name)


async def test_turns_have_a_cost_and_are_found_by_it() -> None:
    agent = priced(
        reply("dear", Usage(100_000, 10_000)),
        reply("cheap", Usage(100_000, 0)),
        reply("new", Usage(1, 1)),
    )
    app = create_app(agent, options=ServiceOptions(prices=PRICES))
    async with serve(app) as base, Client(base) as client:
        assert (await client.run("one", "find it", session="a")).cost == 2.0
        assert (await client.run("one", "find it", session="b")).cost == 0.1
        await client.run("one", "find it", session="c")
        listed = {one.session: one.turn_cost for one in (await client.sessions.list()).sessions}
        assert (listed["a"], listed["b"]) == (2.0, 0.1)
        for text in (None, "find"):
            found = await client.sessions.list(min_cost=0.5, text=text)
            assert [one.session for one in found.sessions] == ["a"]
            found = await client.sessions.list(min_cost=0.1, text=text)
            assert {one.session for one in found.sessions} == {"a", "b"}
        costs = {total.name: total.cost for total in (await client.usage("model")).totals}
        assert (costs["dear"], costs["cheap"]) == (2.0, 0.1)
        async with Api(base) as api:
            assert "cost" not in (await api.get("/sessions/c/turns/1")).json
            assert "turn_cost" not in (await api.get("/sessions/c")).json
            by_agent = (await api.get("/usage")).json
            assert "cost" not in by_agent["totals"][0]  # a part of it has no price


def test_failed_attempts_cost_too() -> None:
    info, part = (
        ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It broke."),
        Reply((Text("a"),), usage=Usage(4, 2), model="m"),
    )
    whole = Reply((Text("a"),), usage=Usage(10, 5), model="m")
    fold = TurnFold(
        (
            ModelFailed("t1.i0.model", 1.0, info, part, lost=Usage(100)),
            ModelReplied("t1.i0.model", 1.0, whole, lost=Usage(1000)),
        )
    )
    assert fold.used == {"m": Usage(1114, 7)}


async def test_a_filter_by_cost_needs_prices() -> None:
    async with serve(create_app(priced(reply("dear", Usage(1, 1))))) as base:
        async with Client(base) as client:
            for text in (None, "x"):
                with pytest.raises(InvalidRequestError, match="the service has no prices"):
                    await client.sessions.list(min_cost=0, text=text)
            await client.run("one", "Hi", session="a")
        async with Api(base) as api:
            (listed,) = (await api.get("/sessions")).json["sessions"]
            assert "turn_cost" not in listed


async def test_prices_of_an_agent_are_not_replaced() -> None:
    agent = Agent(
        ScriptedModel(reply("dear", Usage(100_000, 0))),
        name="one",
        prices=Prices({"dear": {"input": "3", "output": "3"}}),
    )
    app = create_app(agent, options=ServiceOptions(prices=PRICES))
    async with serve(app) as base, Client(base) as client:
        assert (await client.run("one", "Hi", session="a")).cost == 0.3


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="prices"):
        ServiceOptions(prices={"m": 3})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="hold_text"):
        create_app(priced(), options=ServiceOptions(hold_text=["nobody"]))


async def test_the_metrics_have_what_turns_cost() -> None:
    agent = priced(reply("dear", Usage(100_000, 10_000)), reply("cheap", Usage(100_000, 0)))
    async with serve(create_app(agent, options=ServiceOptions(prices=PRICES))) as base:
        async with Client(base) as client:
            await client.run("one", "go", session="a")
            await client.run("one", "go", session="b")
        async with aiohttp.ClientSession() as http, http.get(f"{base}/metrics") as response:
            text = await response.text()
    assert 'holdfast_cost_total{agent="one",currency="USD"} 2.1\n' in text
    assert "holdfast_traceparents_ignored_total " in text
