"""The strategy: one flight for one question, and answers that are kept."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.resilience.operations import Bench, C, Script, fail

from holdfast import Agent, Resilience, Usage
from holdfast.core.deltas import TextDelta
from holdfast.core.messages import Reply, ReplyKind, Text, user
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.cache.decision import request_key
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.cache.strategy import Cache, Store
from holdfast.resilience.pipeline import CallContext, Done, Failed, Operation, Outcome
from holdfast.resilience.retry.strategy import Retry
from holdfast.testing import ScriptedModel

REQUEST = ModelRequest(model="m", messages=[user("hi")])
REPLY = Reply((Text("Hello"), Text(" you")))


def cache(store: Store | None = None) -> Cache:
    return Cache(store or Store(), request_key("acme"))


def task(act: Operation[Any, Any], bench: Bench, using: Cache, **known: Any) -> asyncio.Task[Any]:
    return asyncio.ensure_future(bench.run(act, using, payload=REQUEST, **known))


class Slow:
    """Answers when it is told to."""

    def __init__(self, outcome: Outcome[Any]) -> None:
        self.outcome, self.asked, self.go = outcome, 0, asyncio.Event()

    async def __call__(self, call: CallContext[Any]) -> Outcome[Any]:
        self.asked += 1
        await self.go.wait()
        return self.outcome


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_same_question_is_asked_once() -> None:
    store, act = Store(), Script(Done(REPLY))
    for _ in range(3):
        assert await Bench().run(act, cache(store), payload=REQUEST) == Done(REPLY)
    assert len(act.calls) == 1
    assert (store.stats().hits, store.stats().misses) == (2, 1)


async def test_another_account_asks_again() -> None:
    store, act = Store(), Script(Done(REPLY))
    for scope in ("acme", "umbrella"):
        await Bench().run(act, Cache(store, request_key(scope)), payload=REQUEST)
    assert len(act.calls) == 2


async def test_after_its_time_it_is_asked_again() -> None:
    bench, act, using = Bench(), Script(Done(REPLY)), cache()
    await bench.run(act, using, payload=REQUEST)
    bench.clock.advance(601)
    await bench.run(act, using, payload=REQUEST)
    assert len(act.calls) == 2


@pytest.mark.parametrize(
    "outcome",
    [fail(), fail(C.TRUNCATED), Done(Reply((Text("x"),), kind=ReplyKind.TRUNCATED)), Done("text")],
    ids=["failed", "truncated", "partial", "other"],
)
async def test_only_whole_replies_are_kept(outcome: Any) -> None:
    act, using = Script(outcome), cache()
    await Bench().run(act, using, payload=REQUEST)
    await Bench().run(act, using, payload=REQUEST)
    assert len(act.calls) == 2


async def test_a_kept_reply_is_replayed_as_a_stream() -> None:
    bench, act, using = Bench(), Script(Done(REPLY)), cache()
    await bench.run(act, using, payload=REQUEST)
    assert bench.notices == []
    await bench.run(act, using, payload=REQUEST)
    assert bench.notices == [TextDelta("Hello", 0), TextDelta(" you", 1)]


async def test_a_payload_without_a_name_goes_past_the_cache() -> None:
    act, using = Script(Done(REPLY)), cache()
    for _ in range(2):
        await Bench().run(act, using, payload="something else")
    assert len(act.calls) == 2


async def test_a_hundred_at_once_are_one_flight() -> None:
    act, using = Slow(Done(REPLY)), cache()
    tasks = [task(act, Bench(auto=False), using) for _ in range(100)]
    await turns()
    act.go.set()
    assert await asyncio.gather(*tasks) == [Done(REPLY)] * 100
    assert act.asked == 1
    assert using.store.stats().shared == 99


async def test_those_who_waited_see_the_text_too() -> None:
    act, using, bench = Slow(Done(REPLY)), cache(), Bench(auto=False)
    tasks = [task(act, Bench(auto=False), using), task(act, bench, using)]
    await turns()
    act.go.set()
    await asyncio.gather(*tasks)
    assert bench.seen(TextDelta) == [TextDelta("Hello", 0), TextDelta(" you", 1)]


async def test_when_the_one_that_asks_is_cancelled_another_asks() -> None:
    act, using = Slow(Done(REPLY)), cache()
    tasks = [task(act, Bench(auto=False), using) for _ in range(3)]
    await turns()
    tasks[0].cancel()
    await turns()
    assert act.asked == 2
    act.go.set()
    assert await asyncio.gather(*tasks[1:]) == [Done(REPLY)] * 2


async def test_when_one_that_waits_is_cancelled_nobody_else_notices() -> None:
    act, using = Slow(Done(REPLY)), cache()
    tasks = [task(act, Bench(auto=False), using) for _ in range(3)]
    await turns()
    tasks[1].cancel()
    await turns()
    act.go.set()
    assert await tasks[0] == await tasks[2] == Done(REPLY)
    assert (tasks[1].cancelled(), act.asked) == (True, 1)


async def test_a_failure_is_shared_and_not_asked_a_hundred_times() -> None:
    act, using = Slow(fail()), cache()
    tasks = [task(act, Bench(auto=False), using) for _ in range(100)]
    await turns()
    act.go.set()
    done = await asyncio.gather(*tasks)
    assert all(isinstance(outcome, Failed) for outcome in done)
    assert act.asked == 1


async def test_a_failure_for_want_of_time_is_nobody_elses() -> None:
    asked: list[float | None] = []

    async def act(call: CallContext[Any]) -> Outcome[Any]:
        asked.append(call.deadline)
        await turns()
        return fail(retry_after=50.0) if len(asked) == 1 else Done(REPLY)

    using, retried = cache(), Retry().wrap(act)
    hurried = task(retried, Bench(auto=False), using, deadline=10.0)
    patient = task(retried, Bench(auto=False), using, deadline=900.0)
    assert isinstance(await hurried, Failed)
    assert await patient == Done(REPLY)
    assert asked == [10.0, 900.0]


async def test_nobody_waits_for_the_answer_to_another_past_the_deadline() -> None:
    act, using, bench = Slow(Done(REPLY)), cache(), Bench()
    first = task(act, Bench(auto=False), using)
    await turns()
    outcome = await bench.run(act, using, payload=REQUEST, deadline=4.0)
    assert isinstance(outcome, Failed)
    assert (outcome.info.category, bench.clock.monotonic(), act.asked) == (C.TIMEOUT, 4.0, 1)
    act.go.set()
    await first


async def test_a_bug_in_the_act_passes_and_the_next_one_asks() -> None:
    asked = 0

    async def act(call: CallContext[Any]) -> Outcome[Any]:
        nonlocal asked
        asked += 1
        await turns()
        if asked == 1:
            raise ZeroDivisionError
        return Done(REPLY)

    using = cache()
    tasks = [task(act, Bench(auto=False), using) for _ in range(2)]
    broken, well = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(broken, ZeroDivisionError)
    assert well == Done(REPLY)


async def test_a_value_of_none_can_be_kept_too() -> None:
    act = Script(Done(None))
    using = Cache(Store(), lambda payload: "key", lambda value: 1)
    for _ in range(2):
        assert await Bench().run(act, using) == Done(None)
    assert len(act.calls) == 1


async def test_clearing_forgets() -> None:
    act, using = Script(Done(REPLY)), cache(Store(CacheOptions(entries=1)))
    await Bench().run(act, using, payload=REQUEST)
    using.store.clear()
    await Bench().run(act, using, payload=REQUEST)
    assert len(act.calls) == 2


def test_event_loops_in_several_threads_share_one_flight() -> None:
    using, asked, start = cache(), [], threading.Barrier(6)
    waiting, go = threading.Event(), threading.Event()

    async def act(call: CallContext[Any]) -> Outcome[Any]:
        asked.append(1)
        waiting.set()
        await asyncio.to_thread(go.wait)
        return Done(REPLY)

    results: list[Any] = []

    def work() -> None:
        start.wait()
        results.append(asyncio.run(Bench(auto=False).run(act, using, payload=REQUEST)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    waiting.wait()
    while using.store.stats().shared < 5:
        threading.Event().wait(0.001)
    go.set()
    for thread in threads:
        thread.join()
    assert (len(asked), results) == (1, [Done(REPLY)] * 6)


# A cached reply has no usage, because nobody is billed for it.

CACHE = Resilience(cache=CacheOptions())


async def test_a_cached_reply_has_no_usage() -> None:
    agent = Agent(ScriptedModel("Porto."), resilience=CACHE)
    results = [await agent.run("Which city?") for _ in range(2)]
    assert [result.output for result in results] == ["Porto."] * 2
    assert [result.usage for result in results] == [Usage(10, 5), Usage()]


async def test_a_reply_that_several_runs_wait_for_is_paid_once() -> None:
    async def slowly(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return "Porto."

    agent = Agent(ScriptedModel(slowly), resilience=CACHE)
    results = await asyncio.gather(*(agent.run("Which city?") for _ in range(3)))
    assert sum(result.usage.total for result in results) == 15
