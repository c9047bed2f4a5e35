"""The strategy: places, the queue, and what happens to those who wait in it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.resilience.operations import OK, Bench, C, Script, fail

from holdfast import Agent, Limits
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import Reply, Text, Usage
from holdfast.resilience.limiter.decision import FREE
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import LimiterLoad, LimiterStrategy, RateLimiter
from holdfast.resilience.limiter.waiter import Waiter
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import ExtraHeaders


class Gate:
    """An act that holds its callers until it is told to let one go."""

    def __init__(self) -> None:
        self.inside: list[tuple[int, asyncio.Event]] = []
        self.entered: list[int] = []

    async def __call__(self, call: CallContext[Any]) -> Outcome[Any]:
        go = asyncio.Event()
        self.entered.append(call.payload)
        self.inside.append((call.payload, go))
        await go.wait()
        return OK

    def release(self) -> None:
        self.inside.pop(0)[1].set()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def start(act: Gate, throttle: RateLimiter, bench: Bench, *numbers: int) -> list[asyncio.Task[Any]]:
    wrapped = LimiterStrategy(throttle).wrap(act)
    return [asyncio.ensure_future(wrapped(bench.call(number))) for number in numbers]


ONE = LimiterOptions(concurrency=1)


async def test_calls_go_in_the_order_in_which_they_came() -> None:
    gate, throttle = Gate(), RateLimiter("x", ONE)
    tasks = start(gate, throttle, Bench(auto=False), *range(10))
    for number in range(10):
        await turns()
        assert gate.entered == list(range(number + 1))
        gate.release()
    await asyncio.gather(*tasks)
    assert throttle.load() == LimiterLoad("x", running=0, waiting=0, limit=1)


async def test_who_comes_later_does_not_overtake_even_when_a_place_is_free() -> None:
    gate, throttle, bench = Gate(), RateLimiter("x", ONE), Bench(auto=False)
    tasks = start(gate, throttle, bench, 1, 2)
    await turns()
    gate.release()
    await asyncio.sleep(0)
    tasks += start(gate, throttle, bench, 3)
    await turns()
    assert gate.entered == [1, 2]
    gate.release()
    await turns()
    gate.release()
    await asyncio.gather(*tasks)


async def test_a_cancelled_waiter_leaks_no_place() -> None:
    gate, throttle, bench = Gate(), RateLimiter("x", ONE), Bench(auto=False)
    tasks = start(gate, throttle, bench, 1, 2, 3)
    await turns()
    tasks[1].cancel()
    await turns()
    gate.release()
    await turns()
    assert gate.entered == [1, 3]
    gate.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert throttle.load() == LimiterLoad("x", 0, 0, 1)


async def test_a_waiter_that_is_cancelled_when_it_was_just_handed_a_place_hands_it_on() -> None:
    gate, throttle, bench = Gate(), RateLimiter("x", ONE), Bench(auto=False)
    tasks = start(gate, throttle, bench, 1, 2, 3)
    await turns()
    gate.release()
    while throttle.load().waiting == 2:
        await asyncio.sleep(0)
    tasks[1].cancel()
    await turns()
    assert gate.entered == [1, 3]
    gate.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert throttle.load().running == 0


async def test_a_cancelled_call_gives_its_place_back() -> None:
    gate, throttle, bench = Gate(), RateLimiter("x", ONE), Bench(auto=False)
    tasks = start(gate, throttle, bench, 1, 2)
    await turns()
    tasks[0].cancel()
    await turns()
    assert gate.entered == [1, 2]
    gate.inside[1][1].set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert throttle.load().running == 0


async def test_a_full_queue_fails_at_once_and_is_not_waited_for() -> None:
    gate = Gate()
    throttle = RateLimiter("openai:x", LimiterOptions(concurrency=1, queue=1))
    bench = Bench(auto=False)
    tasks = start(gate, throttle, bench, 1, 2)
    await turns()
    outcome = await bench.run(gate, Retry(), LimiterStrategy(throttle))
    assert isinstance(outcome, Failed)
    assert (outcome.sent, outcome.info.code) == (False, "limiter")
    assert "openai:x: not called, the queue is full" in outcome.info.safe
    assert 60.0 in bench.clock.sleeps  # only the patience of the one in the queue
    gate.release()
    await turns()
    gate.release()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(("deadline", "waits"), [(None, 60.0), (7.0, 7.0)])
async def test_nobody_waits_longer_for_a_place_than_allowed(
    deadline: float | None, waits: float
) -> None:
    gate, throttle, bench = Gate(), RateLimiter("x", ONE), Bench()
    (task,) = start(gate, throttle, bench, 1)
    await turns()
    outcome = await bench.run(gate, LimiterStrategy(throttle), deadline=deadline)
    assert isinstance(outcome, Failed)
    assert f"no place became free in {waits:.3g} s, with 1 under way" in outcome.info.safe
    assert "LimiterOptions(concurrency=..., max_wait=...) sets" in outcome.info.safe
    assert bench.clock.monotonic() == waits
    assert throttle.load() == LimiterLoad("x", running=1, waiting=0, limit=1)
    gate.release()
    await task


async def test_the_pace_is_kept() -> None:
    throttle = RateLimiter("x", LimiterOptions(requests_per_minute=60, burst_seconds=1))
    bench, act = Bench(), Script(OK)
    for _ in range(4):
        assert await bench.run(act, LimiterStrategy(throttle)) == OK
    assert act.times == [0, 1, 2, 3]


async def test_the_pace_is_kept_in_tokens_of_replies() -> None:
    throttle = RateLimiter("x", LimiterOptions(tokens_per_minute=600, burst_seconds=10))
    bench = Bench()
    act = Script(Done(Reply((Text("hi"),), usage=Usage(input=140, output=10))))
    for _ in range(3):
        await bench.run(act, LimiterStrategy(throttle))
    assert act.times == [0, 20, 35]


async def test_a_pace_that_would_pass_the_deadline_fails_at_once_and_takes_nothing() -> None:
    throttle = RateLimiter("x", LimiterOptions(requests_per_minute=1, burst_seconds=0))
    bench, act = Bench(), Script(OK)
    await bench.run(act, LimiterStrategy(throttle))
    outcome = await bench.run(act, LimiterStrategy(throttle), deadline=5.0)
    assert isinstance(outcome, Failed)
    assert outcome.info.retry_after == 60.0
    assert bench.clock.sleeps == []
    assert throttle.load().running == 0
    assert await bench.run(act, LimiterStrategy(throttle)) == OK
    assert act.times == [0, 60]


async def test_cancelled_while_it_waits_for_the_pace_it_takes_nothing() -> None:
    throttle = RateLimiter("x", LimiterOptions(requests_per_minute=60, burst_seconds=1))
    bench, act = Bench(auto=False), Script(OK)
    await bench.run(act, LimiterStrategy(throttle))
    task = asyncio.ensure_future(bench.run(act, LimiterStrategy(throttle)))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert throttle.load().running == 0
    bench.clock.advance(1)
    assert await bench.run(act, LimiterStrategy(throttle)) == OK


async def test_a_refusal_lowers_the_limit_and_pauses_everybody() -> None:
    throttle, bench = RateLimiter("x", LimiterOptions(concurrency=8)), Bench()
    refused = Script(fail(C.RATE_LIMIT_RETRYABLE, retry_after=12.0))
    await bench.run(refused, LimiterStrategy(throttle))
    assert throttle.load().limit == 1
    act = Script(OK)
    await bench.run(act, LimiterStrategy(throttle))
    assert act.times == [12.0]


async def test_a_pause_longer_than_the_patience_is_left_to_retry() -> None:
    throttle, bench = RateLimiter("x", LimiterOptions(max_wait=5.0)), Bench()
    await bench.run(
        Script(fail(C.RATE_LIMIT_RETRYABLE, retry_after=30.0)), LimiterStrategy(throttle)
    )
    act = Script(OK)
    retry = Retry(RetryOptions(max_breaker_wait=60.0))
    outcome = await bench.run(act, retry, LimiterStrategy(throttle))
    assert isinstance(outcome, Done)
    assert act.times == [30.0]


async def test_a_bug_in_the_act_passes_and_leaks_no_place() -> None:
    async def broken(call: CallContext[Any]) -> Outcome[Any]:
        raise ZeroDivisionError

    throttle = RateLimiter("x", ONE)
    with pytest.raises(ZeroDivisionError):
        await Bench().run(broken, LimiterStrategy(throttle))
    assert throttle.load().running == 0


def test_event_loops_in_several_threads_share_the_places() -> None:
    throttle, lock = RateLimiter("x", LimiterOptions(concurrency=3)), threading.Lock()
    running, most, done = 0, 0, 0

    async def act(call: CallContext[Any]) -> Outcome[Any]:
        nonlocal running, most, done
        with lock:
            running += 1
            most = max(most, running)
        await turns(3)
        with lock:
            running -= 1
            done += 1
        return OK

    async def work() -> None:
        bench = Bench(auto=False)
        wrapped = LimiterStrategy(throttle).wrap(act)
        await asyncio.gather(*(wrapped(bench.call(number)) for number in range(30)))

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most <= 3, done) == (True, 120)
    assert throttle.load() == LimiterLoad("x", 0, 0, 3)


async def test_a_waiter_whose_event_loop_is_gone_does_not_keep_the_place() -> None:
    async def made() -> Waiter[bool]:
        return Waiter()

    throttle, gate = RateLimiter("x", ONE), Gate()
    (task,) = start(gate, throttle, Bench(auto=False), 1)
    await turns()
    throttle._queue[await asyncio.to_thread(asyncio.run, made())] = None
    gate.release()
    await task
    assert throttle.load() == LimiterLoad("x", 0, 0, 1)


# A reply with the last request of its rate limit delays the next calls and fails none.

SPENT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0s"}


async def test_a_call_with_less_time_than_the_pause_is_sent_at_once() -> None:
    clock = FakeClock()
    async with Emulator(["one", "two"], faults=[ExtraHeaders(SPENT)]) as provider:
        agent = Agent(
            "openai:m",
            base_url=provider.base_url,
            api_key="k",
            clock=clock,
            limits=Limits(seconds=20),
        )
        assert [(await agent.run("go")).output for _ in range(2)] == ["one", "two"]
    assert clock.sleeps == []


async def test_a_call_that_has_waited_is_not_failed_by_a_pause_that_grew_meanwhile() -> None:
    bench, throttle = Bench(auto=False), RateLimiter("x", LimiterOptions())
    for _ in range(2):
        assert throttle.try_enter() is FREE
    throttle.leave(FREE, Done(Reply(()), resumes_at=60.0), bench.clock)

    waiting = asyncio.ensure_future(LimiterStrategy(throttle).wrap(Script(OK))(bench.call()))
    await asyncio.sleep(0)
    throttle.leave(FREE, Done(Reply(()), resumes_at=90.0), bench.clock)
    bench.clock.advance(60.0)
    assert await waiting is OK


@pytest.mark.parametrize("resumes_at", [10.0, 50.0])
async def test_a_pause_that_a_refusal_asked_for_still_fails_who_cannot_wait(
    resumes_at: float,
) -> None:
    bench, throttle = Bench(), RateLimiter("x", LimiterOptions())
    for _ in range(2):
        assert throttle.try_enter() is FREE
    refusal = fail(ErrorCategory.RATE_LIMIT_RETRYABLE, retry_after=30.0)
    throttle.leave(FREE, refusal, bench.clock)
    throttle.leave(FREE, Done(Reply(()), resumes_at=resumes_at), bench.clock)

    outcome = await LimiterStrategy(throttle).wrap(Script(OK))(bench.call(deadline=20.0))
    assert isinstance(outcome, Failed)
    assert outcome.info.retry_after == 30.0
