"""Ends a turn, or every further turn of a session, that has used too much.

It counts paid calls and tokens; a cached reply costs nothing. It checks before each model call and must
never interrupt one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ModelFailed, ModelReplied, ResultsWithheld, ToolFinished
from holdfast.core.messages import Usage
from holdfast.middleware.decisions import Stop
from holdfast.middleware.hook_contexts import BeforeIteration, RunFacts
from holdfast.middleware.hooks import Middleware

_LEAST = -math.inf
"""A usage must be greater than this and less than the limit. NaN is neither, so a price that is not a
number counts as over the limit."""
TEXT = "The limit of {name} is reached ({used:g} of {most:g}). Stopping execution."


class UsageSpent(Struct, frozen=True, gc=False):
    """The use so far: model calls, and their tokens."""

    calls: int = 0
    usage: Usage = Usage()


class UsageLimits(Middleware[UsageSpent]):
    """Ends the turn before the next model call if a limit is reached; None means no limit.

    Args:
        model_calls: the number of model calls.
        tokens: input and output tokens together, including those of agents that run as tools.
        output_tokens: output tokens alone.
        cost: the cost, in the unit of `price`.
        price: returns the cost of a usage; required for `cost`.
        per: whether the limits apply to a "turn" or to the whole "session".
    """

    events = (ModelReplied, ModelFailed, ResultsWithheld, ToolFinished)
    rewinds = False  # spent tokens stay spent

    @check_arguments
    def __init__(
        self,
        *,
        model_calls: PositiveInt | None = None,
        tokens: PositiveInt | None = None,
        output_tokens: PositiveInt | None = None,
        cost: PositiveFloat | None = None,
        price: Callable[[Usage], float] | None = None,
        per: Literal["turn", "session"] = "turn",
    ) -> None:
        if cost is not None and price is None:
            raise ConfigurationError("price", "is needed for cost", fix="Give a function of Usage")
        self.maximums = {
            "model calls": model_calls,
            "tokens": tokens,
            "output tokens": output_tokens,
            "cost": cost,
        }
        self.price = price
        self.scope = per
        used_of: dict[str, Callable[[UsageSpent], float]] = {
            "model calls": lambda spent: spent.calls,
            "tokens": lambda spent: spent.usage.input + spent.usage.output,
            "output tokens": lambda spent: spent.usage.output,
            "cost": lambda spent: price(spent.usage) if price is not None else 0.0,
        }
        self._limits = tuple(
            (name, most, used_of[name]) for name, most in self.maximums.items() if most is not None
        )

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """When a limit is reached."""
        del hook
        spent = facts.state_of(self)
        for _, most, used_of in self._limits:  # noqa: SIM110 - a generator is slower
            if not _LEAST < used_of(spent) < most:
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
            return (
                UsageSpent(state.calls, state.usage + usage)
                if usage.input or usage.output
                else state
            )
        elif isinstance(event, ModelFailed):
            paid, usage = True, event.partial.usage if event.partial is not None else Usage()
        elif isinstance(event, ResultsWithheld):
            paid, usage = True, Usage()
        else:
            return state
        if event.lost is not None:
            usage += event.lost
        return UsageSpent(state.calls + paid, state.usage + usage)

    async def before_iteration(self, context: BeforeIteration) -> Stop | None:
        """Stop when a limit is reached."""
        spent = context.state_of(self)
        for name, most, used_of in self._limits:
            used = used_of(spent)
            if not _LEAST < used < most:
                text = TEXT.format(name=name, used=used, most=most)
                return Stop(f"Usage limit: {name}", text)
        return None

    def describe(self) -> dict[str, object]:
        """The limits that are set."""
        return {name: most for name, most in self.maximums.items() if most is not None}
