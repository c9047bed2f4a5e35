"""A beginning that the provider does not take is asked for again, whatever is left of the budget."""

import msgspec
from tests.resilience.operations import Bench, C, Script, fail

from holdfast.core.messages import Reply, ReplyKind, Text
from holdfast.models.reply_carry import ReplyCarry, read_carry
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.pipeline import Done
from holdfast.resilience.retry.strategy import Retry


async def test_an_empty_budget_does_not_stop_what_is_no_retry() -> None:
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
