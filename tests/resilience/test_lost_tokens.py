"""Tokens of attempts that failed were paid for: they are in the usage of the turn, each once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.resilience.operations import Bench, C, Script, held, info

from holdfast import Agent, LimitError, Limits, Resilience, RetryOptions
from holdfast.core.errors import EmptyResponseError, HoldfastError, ProviderError
from holdfast.core.events import ModelReplied
from holdfast.core.messages import Reply, ReplyKind, Text, Usage
from holdfast.models.reply_carry import ReplyCarry, lost_usage
from holdfast.resilience.fallback.options import FallbackTarget
from holdfast.resilience.fallback.strategy import Fallback
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome
from holdfast.resilience.retry.strategy import Retry
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, Emulator

GOOD = Reply((Text("ok"),), usage=Usage(10, 5))


def empty(tokens: int = 7, category: C = C.EMPTY_RESPONSE, **known: Any) -> HoldfastError:
    partial = Reply((), kind=ReplyKind.EMPTY, usage=Usage(tokens, 1))
    return EmptyResponseError("empty", info=info(category, **known), partial=partial)


def failing(error: HoldfastError) -> Failed:
    return Failed(error, error.info)


class Errors(Script):
    """Gives its failures as they are, partial replies and all."""

    async def __call__(self, call: CallContext[Any]) -> Outcome[Any]:
        self.calls.append(call)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        assert isinstance(outcome, Done | Failed)
        return outcome


async def test_a_success_says_what_the_attempts_before_it_cost() -> None:
    act = Errors(failing(empty(7)), failing(empty(9)), Done(GOOD))
    outcome = await Bench().run(act, Retry(), carry=ReplyCarry())
    assert isinstance(outcome, Done)
    assert lost_usage(outcome) == Usage(16, 2)


async def test_a_failure_that_cost_nothing_is_no_loss() -> None:
    refused = ProviderError("down", info=info(C.SERVER_ERROR))
    outcome = await Bench().run(Errors(failing(refused), Done(GOOD)), Retry(), carry=ReplyCarry())
    assert isinstance(outcome, Done)
    assert lost_usage(outcome) is None


async def test_a_final_failure_has_its_own_tokens_in_its_partial_and_not_in_the_loss() -> None:
    outcome = await Bench().run(
        Errors(failing(empty(7))), Retry(RetryOptions(max_retries=2)), carry=ReplyCarry()
    )
    assert isinstance(outcome, Failed)
    assert lost_usage(outcome) == Usage(14, 2)


async def test_neither_has_one_that_was_held_back_afterwards() -> None:
    act = Errors(failing(empty(7)), failing(empty(9)), held(None))
    outcome = await Bench().run(act, Retry(), carry=ReplyCarry())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, EmptyResponseError)
    assert lost_usage(outcome) == Usage(7, 1)


@pytest.mark.parametrize("last", [Done(GOOD), failing(empty(1, C.SERVER_ERROR))])
async def test_a_fallback_adds_what_was_lost_at_the_models_before(last: Outcome[Any]) -> None:
    none = RetryOptions(max_retries=0)
    other = FallbackTarget("b", Retry(none).wrap(Errors(last)))
    act = Errors(failing(empty(7, C.SERVER_ERROR)), failing(empty(9, C.SERVER_ERROR)))
    once = RetryOptions(max_retries=1)
    outcome = await Bench().run(act, Fallback("a", (other,)), Retry(once), carry=ReplyCarry())
    assert lost_usage(outcome) == Usage(16, 2)


async def test_the_usage_of_a_turn_counts_them_and_the_journal_keeps_them() -> None:
    agent = Agent(ScriptedModel(empty(7), empty(9), GOOD), clock=FakeClock())
    async with agent.stream("go") as run:
        seen = [item async for item in run if isinstance(item, ModelReplied)]
    assert run.result.usage == Usage(26, 7)
    assert (seen[0].lost, seen[0].reply.usage) == (Usage(16, 2), Usage(10, 5))


async def test_the_usage_of_a_turn_that_fails_counts_each_attempt_once() -> None:
    handling = RetryOptions(max_retries=1)
    agent = Agent(ScriptedModel(empty(7), empty(9)), retry=handling, clock=FakeClock())
    with pytest.raises(EmptyResponseError) as caught:
        await agent.run("go")
    assert caught.value.result is not None
    assert caught.value.result.usage == Usage(16, 2)


async def test_a_limit_of_tokens_is_reached_by_what_was_lost_too() -> None:
    from holdfast.core.messages import ToolCall

    def look() -> str:
        """Look."""
        return "seen"

    calls = Reply((ToolCall("1", "look"),), usage=Usage(10, 5))
    model = ScriptedModel(empty(90), calls, "never asked")
    agent = Agent(model, tools=[look], limits=Limits(tokens=100), clock=FakeClock())
    with pytest.raises(LimitError):
        await agent.run("go")
    assert len(model.requests) == 2


@pytest.mark.parametrize("continues", [False, True])
async def test_what_a_broken_stream_said_it_cost_is_counted_once(continues: bool) -> None:
    def choose_reply(request: Any) -> str:
        last = request.messages[-1]
        begun = last.text if last.role == "assistant" else ""
        return "one two three four five"[len(begun) :]

    async with Emulator(choose_reply, faults=[DropAfter(6)]) as emulator:
        agent = Agent(
            "anthropic:claude-sonnet-4-5",
            base_url=emulator.base_url_for("anthropic"),
            api_key="k",
            resilience=Resilience(continue_streams=continues),
            clock=FakeClock(),
        )
        async with agent.stream("go") as run:
            replies = [item async for item in run if isinstance(item, ModelReplied)]
    (event,) = replies
    assert (event.lost is None) is continues
    counted = event.reply.usage + (event.lost or Usage())
    assert run.result.usage == counted
    assert counted.input > event.reply.usage.input or continues
