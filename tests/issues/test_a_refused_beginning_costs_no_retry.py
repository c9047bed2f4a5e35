"""A beginning that the provider does not take is asked for again, whatever is left of the budget."""

import msgspec
from tests.resilience.acts import Bench, C, Script, fail

from holdfast.core.messages import Reply, ReplyKind, Text
from holdfast.resilience.budget import BudgetOptions, RetryBudget
from holdfast.resilience.pipeline import Done
from holdfast.resilience.retry import Retry


async def test_an_empty_budget_does_not_stop_what_is_no_retry() -> None:
    kept = Reply((Text("Once"),), kind=ReplyKind.UNTERMINATED)
    budget = RetryBudget(BudgetOptions(ratio=0.0, reserve=1.0, reserve_per_second=0.0))
    act = Script(
        msgspec.structs.replace(fail(C.TRANSIENT), continuable_reply=kept),
        fail(C.CLIENT_ERROR),
        Done("ok"),
    )
    outcome = await Bench().run(act, Retry(budget=budget, continue_streams=True))
    assert outcome == Done("ok", 3)
    assert [call.reply_so_far for call in act.calls] == [None, kept, None]
    assert not budget.withdraw(0.0)
