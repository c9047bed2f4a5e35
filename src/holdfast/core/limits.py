"""The limits of a turn, as data: iterations, tool calls, seconds, tokens.

This module must never read a clock: the machine compares the limits with the times and counts of
events.
"""

from __future__ import annotations

import math

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError

ITERATION_LIMIT_TEXT = (
    "Maximum iteration limit reached ({max_iterations} iterations). The agent was unable to "
    "complete the task within the allowed number of turns."
)
"""What a turn answers when its iterations are used up."""


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
        extendable: whether a person is asked at the limit of iterations if the turn may continue.
            It ends there unless the answer is yes.

    >>> Limits(iterations=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limits.iterations: must be at least 1, got 0
    """

    iterations: int | None = 10
    tool_calls: int | None = None
    seconds: float | None = 300.0
    tokens: int | None = None
    output_repairs: int = 2
    extendable: bool = False
    output_repair_tokens: int | None = None
    output_repair_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("iterations", "tool_calls", "tokens"):
            check_count(f"limits.{name}", getattr(self, name), at_least=1)
        check_count("limits.output_repairs", self.output_repairs, at_least=0)
        check_count("limits.output_repair_tokens", self.output_repair_tokens, at_least=1)
        for name in ("seconds", "output_repair_seconds"):
            check_seconds(f"limits.{name}", getattr(self, name))
        check_fields(self, "limits.", "output_repairs", "extendable")


def check_count(argument: str, value: object, *, at_least: int) -> None:
    """Raise ConfigurationError unless `value` is None or a whole number from `at_least`."""
    if value is not None:
        check_whole(argument, value, at_least=at_least)


def check_whole(argument: str, value: object, *, at_least: int) -> None:
    """Raise ConfigurationError unless `value` is a whole number from `at_least`; None is refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(argument, f"must be a whole number, got {type(value).__name__}")
    if value < at_least:
        raise ConfigurationError(argument, f"must be at least {at_least}, got {value}")


def check_seconds(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is None or a finite number of seconds above 0."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(
            argument, f"must be a number of seconds, got {type(value).__name__}"
        )
    if not math.isfinite(value) or value <= 0:
        raise ConfigurationError(argument, f"must be a finite number above 0, got {value}")
