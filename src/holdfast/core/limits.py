"""The limits of a turn and of one reply, as data: iterations, tool calls, seconds, tokens, bytes.

The limits of a reply bound the memory that it can take. This module must never read a clock: the
machine compares the limits of a turn with the times and counts of events.
"""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import NonNegativeInt, PositiveFloat, PositiveInt
from holdfast.core.cost import Amount, read_amount
from holdfast.core.errors import ConfigurationError

ITERATION_LIMIT_TEXT = (
    "Maximum iteration limit reached ({max_iterations} iterations). The agent was unable to "
    "complete the task within the allowed number of turns."
)
"""The answer of a turn whose iterations are used up."""

_MEBIBYTE = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one turn; None means no limit.

    Args:
        iterations: model calls.
        tool_calls: the tools that run, over all iterations.
        seconds: the time of the turn, without the time in which it waits for a person's answer or
            no process runs it.
        tokens: the input and output tokens of all replies.
        output_repairs: how often the model may be asked to correct an output that does not fit the
            wanted type.
        output_repair_tokens: the most tokens that these corrections may take together.
        output_repair_seconds: the most seconds that these corrections may take together.
        cost: the cost of all model calls, such as "0.50", in the currency of `Agent(prices=...)`. A
            call is sent only if the rest pays for its input and for a short reply, and its reply is
            limited to what the rest pays for.
        extendable: whether a person is asked at the limit of iterations if the turn may continue.
            It ends there unless the answer is yes.

    >>> Limits(iterations=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limits.iterations: must be at least 1, got 0
    """

    iterations: PositiveInt | None = 10
    tool_calls: PositiveInt | None = None
    seconds: PositiveFloat | None = 300.0
    tokens: PositiveInt | None = None
    output_repairs: NonNegativeInt = 2
    extendable: bool = False
    output_repair_tokens: PositiveInt | None = None
    output_repair_seconds: PositiveFloat | None = None
    cost: Amount | None = None

    def __post_init__(self) -> None:
        if self.cost is not None:
            amount = read_amount("limits.cost", self.cost)
            if not amount:
                raise ConfigurationError("limits.cost", "must be above 0")
            force_setattr(self, "cost", amount)
        check_fields(self, "limits.")


def cost_limit(limits: Limits) -> Decimal | None:
    """Return the limit of the cost as a number; None without one."""
    return cast("Decimal | None", limits.cost)


def limit_text(limits: Limits, name: str) -> str:
    """Return the text that ends a turn at the limit of this name.

    >>> limit_text(Limits(seconds=2), "seconds")
    'The time limit of 2 seconds is reached.'
    """
    if name == "iterations":
        return ITERATION_LIMIT_TEXT.format(max_iterations=limits.iterations)
    if name == "seconds":
        return f"The time limit of {limits.seconds or 0:g} seconds is reached."
    if name == "cost":
        return f"The limit of the cost ({cost_limit(limits):f}) is reached."
    unit = name.replace("_", " ")
    return f"The limit of {getattr(limits, name)} {unit} is reached."


class ReplyLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one reply, streamed or whole; None means no limit.

    A reply that exceeds a limit is not read any further, and raises ReplyTooLargeError.

    Args:
        text: bytes of its text, with reasoning and refusals.
        arguments: bytes of the arguments of all its tool calls.
        calls: its tool calls.
        body: bytes of the response, with everything around the text. One event of a stream, and a
            response that is not streamed, never has more than 64 MiB.

    >>> ReplyLimits(calls=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: reply_limits.calls: must be at least 1, got 0
    """

    text: PositiveInt | None = 16 * _MEBIBYTE
    arguments: PositiveInt | None = 16 * _MEBIBYTE
    calls: PositiveInt | None = 512
    body: PositiveInt | None = 256 * _MEBIBYTE

    def __post_init__(self) -> None:
        check_fields(self, "reply_limits.")
