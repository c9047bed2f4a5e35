"""The strategy and the circuit that runs, threads and event loops share."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resilience.operations import OK, Bench, C, Script, fail, never

from holdfast.compat.error_handling_config import SEED_003_BREAKER
from holdfast.core.notices import BreakerChanged
from holdfast.resilience.breaker.decision import (
    BreakerState,
    ClosedState,
    OpenState,
    Ticket,
    admit_call,
    record_result,
)
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.breaker.strategy import BreakerOpenError, BreakerStrategy, CircuitBreaker
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry

TOUCHY = BreakerOptions(mode="consecutive", failures=1, open_seconds=10.0)


async def test_open_it_lets_nothing_through_and_says_when_it_may() -> None:
    circuit, act, bench = CircuitBreaker("openai:x", TOUCHY), Script(fail(), OK), Bench()
    await bench.run(act, BreakerStrategy(circuit))
    outcome = await bench.run(act, BreakerStrategy(circuit))
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, BreakerOpenError)
    assert (outcome.sent, outcome.attempts, outcome.info.code) == (False, 0, "breaker_open")
    assert outcome.info.retry_after == pytest.approx(10.001)
    assert "openai:x: not called" in outcome.info.safe
    assert len(act.calls) == 1


async def test_retry_waits_until_it_may_close_and_then_succeeds() -> None:
    circuit, act, bench = CircuitBreaker("x", TOUCHY), Script(fail(), OK), Bench()
    await bench.run(act, BreakerStrategy(circuit))
    retry = Retry(RetryOptions(max_breaker_wait=60.0))
    assert await bench.run(act, retry, BreakerStrategy(circuit)) == Done("ok", 1)
    assert bench.clock.sleeps == [pytest.approx(10.001)]
    assert [change.after for change in bench.seen(BreakerChanged)] == [
        "open",
        "half_open",
        "closed",
    ]


async def test_a_failing_endpoint_is_spared_by_all_runs_together() -> None:
    circuit, act = CircuitBreaker("x", SEED_003_BREAKER), Script(fail())
    for _ in range(50):
        await Bench().run(act, Retry(RetryOptions(max_breaker_wait=0)), BreakerStrategy(circuit))
    assert len(act.calls) == 5


async def test_flaw_d12_of_twenty_calls_at_once_one_probes() -> None:
    circuit, bench = CircuitBreaker("x", TOUCHY), Bench()
    await bench.run(Script(fail()), BreakerStrategy(circuit))
    bench.clock.advance(11)
    go = asyncio.Event()

    async def slow(call: CallContext[Any]) -> Outcome[Any]:
        await go.wait()
        return OK

    act = Script(slow)
    tasks = [asyncio.ensure_future(bench.run(act, BreakerStrategy(circuit))) for _ in range(20)]
    await asyncio.sleep(0)
    assert len(act.calls) == 1
    go.set()
    done = await asyncio.gather(*tasks)
    assert sum(isinstance(outcome, Done) for outcome in done) == 1
    assert circuit.snapshot().state == "closed"


async def test_flaw_d12_cancelled_calls_say_nothing_about_the_endpoint() -> None:
    circuit = CircuitBreaker("x", TOUCHY)
    for _ in range(10):
        task = asyncio.ensure_future(Bench().run(never, BreakerStrategy(circuit)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert circuit.snapshot().state == "closed"


async def test_a_cancelled_probe_leaves_room_for_the_next_one() -> None:
    circuit, bench = CircuitBreaker("x", TOUCHY), Bench()
    await bench.run(Script(fail()), BreakerStrategy(circuit))
    bench.clock.advance(11)
    task = asyncio.ensure_future(bench.run(never, BreakerStrategy(circuit)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await bench.run(Script(OK), BreakerStrategy(circuit)) == OK


async def test_a_bug_in_the_act_passes_and_leaks_no_probe() -> None:
    async def broken(call: CallContext[Any]) -> Outcome[Any]:
        raise ZeroDivisionError

    circuit, bench = CircuitBreaker("x", TOUCHY), Bench()
    await bench.run(Script(fail()), BreakerStrategy(circuit))
    bench.clock.advance(11)
    with pytest.raises(ZeroDivisionError):
        await bench.run(broken, BreakerStrategy(circuit))
    assert circuit.snapshot().probes == 0


async def test_errors_of_the_caller_never_open_it() -> None:
    circuit = CircuitBreaker("x", TOUCHY)
    for category in (C.CLIENT_ERROR, C.AUTH_ERROR, C.CONTENT_FILTERED, C.CONTEXT_WINDOW):
        await Bench().run(Script(fail(category)), BreakerStrategy(circuit))
    assert circuit.snapshot().state == "closed"


async def test_isolated_by_hand_it_stays_open_until_it_is_reset() -> None:
    circuit, bench, act = CircuitBreaker("x"), Bench(), Script(OK)
    circuit.isolate()
    bench.clock.advance(1e6)
    outcome = await bench.run(act, Retry(), BreakerStrategy(circuit))
    assert isinstance(outcome, Failed)
    assert "until somebody resets it" in outcome.info.safe
    assert bench.clock.sleeps == []
    circuit.reset()
    assert await bench.run(act, BreakerStrategy(circuit)) == OK


async def test_a_call_that_was_out_when_it_was_isolated_does_not_close_it() -> None:
    circuit = CircuitBreaker("x", TOUCHY)

    async def isolating(call: CallContext[Any]) -> Outcome[Any]:
        circuit.isolate()
        return OK

    await Bench().run(isolating, BreakerStrategy(circuit))
    assert circuit.snapshot().state == "isolated"


async def test_subscribers_see_changes_and_cannot_break_a_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    circuit, seen = CircuitBreaker("x", TOUCHY), []

    def broken(change: BreakerChanged) -> None:
        raise ValueError("no")

    circuit.subscribe(broken)
    unsubscribe = circuit.subscribe(seen.append)
    await Bench().run(Script(fail()), BreakerStrategy(circuit))
    unsubscribe()
    circuit.reset()
    assert seen == [BreakerChanged("x", "closed", "open", 10.0)]


async def test_a_snapshot_shows_the_counts() -> None:
    circuit = CircuitBreaker("x")
    for outcome in (OK, fail(), fail()):
        await Bench().run(Script(outcome), BreakerStrategy(circuit))
    snapshot = circuit.snapshot()
    assert (snapshot.state, snapshot.successes, snapshot.failures, snapshot.streak) == (
        "closed",
        1,
        2,
        2,
    )


def test_one_circuit_serves_two_event_loops_and_probes_once() -> None:
    circuit = CircuitBreaker("x", TOUCHY)
    asyncio.run(Bench().run(Script(fail()), BreakerStrategy(circuit)))
    probed: list[int] = []
    start = threading.Barrier(8)

    async def probe(number: int) -> None:
        bench = Bench()
        bench.clock.advance(11)

        async def act(call: CallContext[Any]) -> Outcome[Any]:
            probed.append(number)
            await asyncio.to_thread(done.wait)
            return OK

        await bench.run(act, BreakerStrategy(circuit))

    def run(number: int) -> None:
        start.wait()
        asyncio.run(probe(number))
        left.release()

    done, left = threading.Event(), threading.Semaphore(0)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(7):
        left.acquire()
    done.set()
    for thread in threads:
        thread.join()
    assert len(probed) == 1
    assert circuit.snapshot().state == "closed"


def test_describe_names_the_target_and_the_settings() -> None:
    described = BreakerStrategy(CircuitBreaker("openai:x")).describe()
    assert (described["target"], described["failure_ratio"]) == ("openai:x", 0.5)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["well", "well", "well", "unwell", "ignored", "look", "isolate", "reset"]),
        st.sampled_from([0.0, 0.0, 0.1, 1.0, 5.0, -3.0, 40.0]),
    ),
    max_size=60,
)


@given(MOVES, st.sampled_from(["ratio", "consecutive"]), st.integers(1, 6))
def test_counting_beside_the_state_is_the_same_as_counting_in_it(
    moves: list[tuple[Any, float]], mode: Any, least: int
) -> None:
    options = BreakerOptions(mode=mode, minimum_throughput=least, failures=least, window=10.0)
    circuit, now = CircuitBreaker("x", options), 100.0
    known: BreakerState = ClosedState()
    for move, passed in moves:
        now += passed
        if move == "look":
            circuit.snapshot()
        elif move == "isolate":
            circuit.isolate()
            known = OpenState(known.epoch + 1, 0.0, 0.0, isolated=True)
        elif move == "reset":
            circuit.reset()
            known = ClosedState(known.epoch + 1)
        else:
            known, expected = admit_call(options, known, now)
            ticket, _ = circuit.admit(now)
            assert ticket == expected
            if isinstance(ticket, Ticket):
                known = record_result(options, known, ticket, move, now=now)
                if not (move == "well" and circuit.count_success(ticket, now)):
                    circuit.record_outcome(ticket, move, now=now)
    circuit.snapshot()
    assert circuit._state == known


def test_successes_in_many_threads_are_all_counted() -> None:
    circuit = CircuitBreaker("x", BreakerOptions(minimum_throughput=10**9))

    def work() -> None:
        for number in range(500):
            ticket, _ = circuit.admit(1.0)
            assert isinstance(ticket, Ticket)
            if number % 10 == 9:
                circuit.record_outcome(ticket, "unwell", now=1.0)
            elif not circuit.count_success(ticket, 1.0):
                circuit.record_outcome(ticket, "well", now=1.0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = circuit.snapshot()
    assert (seen.successes, seen.failures) == (8 * 450, 8 * 50)
