"""The pure rules for an output of a wanted type: check it, ask again, or give up.

The numbers of `TurnOpened.flags` are here, and never change. This module must never look into a
type: whether an output fits stands on the event.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, IllegalEventError
from holdfast.core.events import Event, TurnOpened
from holdfast.core.limits import Limits
from holdfast.core.messages import Usage
from holdfast.core.problems import Problem

OUTPUT_CHECKED: Final = 1
"""An output is checked by the effect `CheckOutput` before the turn completes."""

OUTPUT_REJECTED: Final = "output_rejected"
"""The code of the error of an output function that did not accept its arguments, or did not run."""

OUTPUT_INVALID: Final = "output"
"""The code of the error of outputs that did not fit."""

_KNOWN: Final = OUTPUT_CHECKED


def turn_flags(*, checked: bool) -> int:
    """The flags of a turn that is opened now.

    >>> turn_flags(checked=False), turn_flags(checked=True)
    (0, 1)
    """
    return OUTPUT_CHECKED if checked else 0


def check_flags(event: Event) -> None:
    """Raise IllegalEventError for a turn with behaviour that this version does not have."""
    if isinstance(event, TurnOpened) and (unknown := event.flags & ~_KNOWN):
        raise IllegalEventError(
            f"this turn was opened by a newer version of Holdfast (flags {unknown}); update it"
        )


class OutputRetries(Struct, eq=False):
    """The outputs of one turn so far: how many did not fit, and the cost of the repairs."""

    failed: int = 0
    _began: float = 0.0
    _tokens: int = 0

    def record_output(self, worked: float, usage: Usage) -> None:
        """Record an output after so many seconds of the turn. Repairs are limited from the first."""
        if not self.failed:
            self._began, self._tokens = worked, usage.total

    def are_exhausted(self, limits: Limits, worked: float, usage: Usage) -> bool:
        """Whether no further repair is allowed if this output does not fit."""
        tokens, seconds = limits.output_repair_tokens, limits.output_repair_seconds
        return (
            self.failed >= limits.output_repairs
            or (tokens is not None and usage.total - self._tokens >= tokens)
            or (seconds is not None and worked - self._began >= seconds)
        )


def output_error_info(attempts: int, problems: tuple[Problem, ...]) -> ErrorInfo:
    """Return the error of a turn that ends because its outputs did not fit."""
    problem_list = "; ".join(map(str, problems[:3]))
    safe = f"The answer does not fit the wanted type after {attempts} tries: {problem_list}"
    return ErrorInfo(category=ErrorCategory.INVALID_RESPONSE, safe=safe, code=OUTPUT_INVALID)
