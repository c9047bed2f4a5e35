"""How far a run may go, as data: iterations, tool calls, seconds, tokens.

This module must never read a clock: the machine compares these numbers with the times and counts
that stand on events.
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
        tool_calls: tools that ran, in all iterations together.
        seconds: duration of the turn, without the time in which a question is open or no process
            works on the turn.
        tokens: input and output tokens of all replies.
        output_repairs: how often the model is asked to correct an output of the wrong type.
        output_repair_tokens: tokens for these corrections; no other one begins after them.
        output_repair_seconds: seconds for these corrections; no other one begins after them.
        extendable: ask at the limit of iterations whether the turn may continue; without a yes it
            ends.

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
    """Raise ConfigurationError unless `value` is a whole number from `at_least`; None is none."""
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
