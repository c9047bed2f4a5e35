import asyncio
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resilience.operations import Bench, C, Script, fail

from holdfast import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Reply, ReplyKind, Text
from holdfast.models.reply_carry import ReplyCarry, read_carry
from holdfast.resilience.budget.decision import Bucket, refill_bucket
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.pipeline import Done, Failed
from holdfast.resilience.retry.strategy import Retry
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import EmulatedRequest, ErrorResponse, Fault, HttpStatus


def test_in_the_long_run_a_tenth_of_the_calls_may_be_repeated() -> None:
    budget = RetryBudget(BudgetOptions(reserve_per_second=0, reserve=0))
    retries = 0
    for _ in range(1000):
        budget.deposit()
        retries += budget.withdraw(0.0)
    assert 95 <= retries <= 100


def test_time_fills_the_reserve_and_no_more() -> None:
    budget = RetryBudget(BudgetOptions(reserve=2, reserve_per_second=1, ratio=0))
    assert [budget.withdraw(0.0) for _ in range(3)] == [True, True, False]
    assert [budget.withdraw(1000.0) for _ in range(3)] == [True, True, False]


def test_the_defaults() -> None:
    assert BudgetOptions() == BudgetOptions(
        ratio=0.1, reserve=10.0, reserve_per_second=0.5, capacity=100.0
    )


def test_a_clock_that_jumps_back_adds_nothing() -> None:
    options = BudgetOptions()
    assert refill_bucket(options, Bucket(0.0, 100.0), 5.0) == Bucket(0.0, 5.0)


async def test_a_hundred_runs_against_a_dead_endpoint_send_little_more_than_their_own_calls() -> (
    None
):
    budget = RetryBudget(BudgetOptions(reserve_per_second=0))
    act = Script(fail())
    for _ in range(100):
        assert isinstance(await Bench().run(act, Retry(budget=budget)), Failed)
    assert len(act.calls) <= 100 + 10 + 20


def test_it_is_exact_across_threads() -> None:
    budget = RetryBudget(BudgetOptions(reserve=500, capacity=500, ratio=0, reserve_per_second=0))
    taken: list[bool] = []

    def take() -> None:
        taken.extend(budget.withdraw(0.0) for _ in range(200))

    threads = [threading.Thread(target=take) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 500


@given(st.lists(st.tuples(st.booleans(), st.floats(-1e6, 1e6)), max_size=200))
def test_the_bucket_never_holds_less_than_nothing_or_more_than_its_size(
    uses: list[tuple[bool, float]],
) -> None:
    budget = RetryBudget(BudgetOptions(capacity=20))
    for deposit, now in uses:
        if deposit:
            budget.deposit()
        else:
            budget.withdraw(now)
        assert 0 <= budget.tokens <= 20


@pytest.mark.parametrize("bad", [-1, float("nan"), "x", None, True])
@pytest.mark.parametrize("name", ["ratio", "reserve", "reserve_per_second", "capacity"])
def test_a_bad_setting_is_named(name: str, bad: object) -> None:
    with pytest.raises(ConfigurationError, match=f"budget.{name}"):
        BudgetOptions(**{name: bad})  # type: ignore[arg-type]


# A wait that the provider asks for is not taken from the budget.

RUNS = 200
ASK_TO_WAIT = [
    ErrorResponse("rate_limit", {"retry-after": "1", "retry-after-ms": "1000"}),
    HttpStatus(503, {"retry-after": "1"}),
]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("fault", ASK_TO_WAIT)
async def test_two_hundred_runs_survive_a_refusal_with_a_wait(fault: Fault) -> None:
    clock = FakeClock()

    def refuse_for_a_second(_: EmulatedRequest) -> Fault | None:
        return fault if clock.monotonic() < 1.0 else None

    async with Emulator(faults=refuse_for_a_second) as provider:
        agent = Agent("openai:told", base_url=provider.base_url, api_key="k", clock=clock)
        results = await asyncio.gather(*(agent.run(f"run {n}") for n in range(RUNS)))
    assert [result.output for result in results] == [f"You said: run {n}" for n in range(RUNS)]
    served = [entry for entry in provider.requests if entry.status == 200]
    assert len(served) <= 1.2 * RUNS
    assert len(provider.requests) <= 2 * RUNS


async def test_a_requested_wait_of_zero_is_no_wait() -> None:
    clock = FakeClock()
    body = {"error": {"message": "Slow down"}}
    refusal = HttpStatus(429, {"retry-after-ms": "0", "retry-after": "1"}, body)
    no_wait = HttpStatus(429, {"retry-after-ms": "0", "retry-after": "0"}, body)
    async with Emulator(["fine"], faults=[refusal, no_wait, no_wait]) as provider:
        agent = Agent("openai:zero", base_url=provider.base_url, api_key="k", clock=clock)
        assert (await agent.run("go")).output == "fine"
    told, second, third = (seconds for seconds in clock.sleeps if seconds)
    assert told == 1.0
    assert second == pytest.approx(2.0, rel=0.11)
    assert third == pytest.approx(4.0, rel=0.11)


# A request without a prefill that the provider refused is no retry.


async def test_an_empty_budget_allows_the_request_without_a_refused_prefill() -> None:
    kept = Reply((Text("Once"),), kind=ReplyKind.UNTERMINATED)
    budget = RetryBudget(BudgetOptions(ratio=0.0, reserve=1.0, reserve_per_second=0.0))
    act = Script(
        msgspec.structs.replace(fail(C.TRANSIENT), carry=ReplyCarry(True, reply_so_far=kept)),
        fail(C.CLIENT_ERROR),
        Done("ok"),
    )
    outcome = await Bench().run(act, Retry(budget=budget), carry=ReplyCarry(True))
    assert isinstance(outcome, Done)
    assert (outcome.value, outcome.attempts) == ("ok", 3)
    assert [read_carry(call).reply_so_far for call in act.calls] == [None, kept, None]
    assert not budget.withdraw(0.0)
