"""Ends a turn, or every further turn of a session, that has used too much.

It counts paid calls and tokens; a cached reply costs nothing. It checks before each model call and must
never interrupt one.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveInt
from holdfast.core.cost import EXACT, ZERO, Amount, Cost, read_amount
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ModelFailed, ModelReplied, ResultsWithheld, ToolFinished
from holdfast.core.messages import Usage
from holdfast.middleware.decisions import Stop
from holdfast.middleware.hook_contexts import BeforeIteration, RunFacts
from holdfast.middleware.hooks import Middleware

TEXT = "The limit of {name} is reached ({used} of {most}). Stopping execution."

_Number: TypeAlias = int | Decimal


class UsageSpent(Struct, frozen=True, gc=False):
    """The use so far: model calls, their tokens, and the part of their cost that is known."""

    calls: int = 0
    usage: Usage = Usage()
    cost: Decimal = ZERO


class UsageLimits(Middleware[UsageSpent]):
    """Ends the turn before the next model call if a limit is reached; None means no limit.

    Args:
        model_calls: the number of model calls.
        tokens: input and output tokens together, including those of agents that run as tools.
        output_tokens: output tokens alone.
        cost: the cost, such as "2.50", at the prices of the agent, which it then must have. Only what
            is known of it counts.
        per: whether the limits apply to a "turn" or to the whole "session".
    """

    events = (ModelReplied, ModelFailed, ResultsWithheld, ToolFinished)
    rewinds = False  # spent tokens stay spent

    def __init__(
        self,
        *,
        model_calls: PositiveInt | None = None,
        tokens: PositiveInt | None = None,
        output_tokens: PositiveInt | None = None,
        cost: Amount | None = None,
        per: Literal["turn", "session"] = "turn",
    ) -> None:
        amount = None if cost is None else read_amount("cost", cost)
        if amount == 0:
            raise ConfigurationError("cost", "must be above 0")
        self._set_limits(model_calls, tokens, output_tokens, per=per)
        self.maximums["cost"] = amount
        used_of: dict[str, Callable[[UsageSpent], _Number]] = {
            "model calls": lambda spent: spent.calls,
            "tokens": lambda spent: spent.usage.input + spent.usage.output,
            "output tokens": lambda spent: spent.usage.output,
            "cost": lambda spent: spent.cost,
        }
        self._limits = tuple(
            (name, most, used_of[name]) for name, most in self.maximums.items() if most is not None
        )

    @check_arguments
    def _set_limits(
        self,
        model_calls: PositiveInt | None,
        tokens: PositiveInt | None,
        output_tokens: PositiveInt | None,
        *,
        per: Literal["turn", "session"],
    ) -> None:
        self.scope = per
        self.maximums: dict[str, _Number | None] = {
            "model calls": model_calls,
            "tokens": tokens,
            "output tokens": output_tokens,
        }

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """When a limit is reached."""
        del hook
        spent = facts.state_of(self)
        for _, most, used_of in self._limits:  # noqa: SIM110 - a generator is slower
            if used_of(spent) >= most:
                return True
        return False

    @property
    def initial(self) -> UsageSpent:
        """The state before the first model call."""
        return UsageSpent()

    def fold(self, state: UsageSpent, event: Event) -> UsageSpent:
        """Count model calls and tokens."""
        if isinstance(event, ModelReplied):
            paid, usage = event.attempts > 0, event.reply.usage
        elif isinstance(event, ToolFinished):
            usage = event.usage
            if not (usage.input or usage.output or event.cost):
                return state
            return UsageSpent(state.calls, state.usage + usage, _add_known(state.cost, event.cost))
        elif isinstance(event, ModelFailed):
            paid, usage = True, event.partial.usage if event.partial is not None else Usage()
        elif isinstance(event, ResultsWithheld):
            paid, usage = True, Usage()
        else:
            return state
        if event.lost is not None:
            usage += event.lost
        cost = _add_known(state.cost, event.cost)
        return UsageSpent(state.calls + paid, state.usage + usage, cost)

    async def before_iteration(self, context: BeforeIteration) -> Stop | None:
        """Stop when a limit is reached."""
        spent = context.state_of(self)
        for name, most, used_of in self._limits:
            used = used_of(spent)
            if used >= most:
                text = TEXT.format(name=name, used=used, most=most)
                return Stop(f"Usage limit: {name}", text)
        return None

    def describe(self) -> dict[str, object]:
        """The limits that are set."""
        return {name: most for name, most in self.maximums.items() if most is not None}


def _add_known(amount: Decimal, cost: Cost | None) -> Decimal:
    return amount if cost is None else EXACT.add(amount, cost.amount)
