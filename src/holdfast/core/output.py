"""Structured output: the wanted type of an output, the result of its check, and the repair request.

The check itself is an effect: `core.output_parser` parses the text of a reply, and the runtime calls
it, since the type is the user's code and may change. This module must never import a validation
library: the check of a type is passed in as an `OutputType`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ConfigurationError, find_wrong_argument
from holdfast.core.model_request import OutputSchema
from holdfast.core.problems import Problem
from holdfast.core.schema_checks.schema_limits import StepBudget
from holdfast.core.value_wording import shorten_text

ParsedBy: TypeAlias = Literal["strict", "embedded", "repaired", "raw"]
"""How an output was parsed: as it is ("strict"), found in a code fence or in prose ("embedded"), with
small mistakes repaired ("repaired"), or not at all ("raw" text, where that is allowed)."""

OutputParsedBy: TypeAlias = ParsedBy | Literal[""]
"""How an output was parsed, or "" when it was not."""

_MOST_PROBLEMS = 20
_LONGEST_PATH = 400
_LONGEST_WORDS = 500


class Valid(Struct, frozen=True):
    """The value, and how it was parsed."""

    value: object
    parsed_by: ParsedBy = "strict"


class Invalid(Struct, frozen=True):
    """Why the text is not a valid value."""

    problems: tuple[Problem, ...]


ParseResult: TypeAlias = Valid | Invalid


class OutputType(Protocol):
    """The wanted type of an output: its schema, and the check of a JSON text."""

    @property
    def schema(self) -> OutputSchema:
        """The schema that is sent to the provider."""
        ...

    def check(self, json_text: str, steps: StepBudget, now: float | None = None) -> ParseResult:
        """Validate one JSON text; never raises for bad text.

        Args:
            json_text: the text.
            steps: the steps that the checks of all texts of one reply may take, for a schema that a
                caller passed.
            now: the time in seconds since 1970, for messages about dates.
        """
        ...


class OutputRejected(Exception):
    """Raised by an output validator to reject an output and ask the model again.

    Args:
        message: the text for the model; say what to change.

    >>> def short(trip):
    ...     if len(trip) > 3:
    ...         raise OutputRejected("At most 3 days, please.")
    """

    def __init__(self, message: str) -> None:
        if (wrong := find_wrong_argument("OutputRejected", message)) is not None:
            raise ConfigurationError(wrong[0], wrong[1], fix=wrong[2])
        super().__init__(message)
        self.message = message


def bound_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems as events hold them: the first few, each of a bounded length.

    >>> [str(problem) for problem in bound_problems(Problem(f"a.{n}", "no") for n in range(30))][-2:]
    ['a.18: no', 'and 11 more']
    """
    listed = tuple(problems)
    first = listed if len(listed) <= _MOST_PROBLEMS else listed[: _MOST_PROBLEMS - 1]
    bounded = [
        Problem(
            shorten_text(problem.path, _LONGEST_PATH),
            shorten_text(problem.expected, _LONGEST_WORDS),
            problem.got,
            shorten_text(problem.note, _LONGEST_WORDS),
        )
        for problem in first
    ]
    if rest := len(listed) - len(first):
        bounded.append(Problem("", f"and {rest} more"))
    return tuple(bounded)


def repair_message(problems: tuple[Problem, ...]) -> str:
    """Return the message that asks the model to correct its output: the problems, and the next step."""
    first = problems[:_MOST_PROBLEMS]
    rest = len(problems) - len(first)
    lines = "\n".join(f"- {problem}" for problem in first)
    more = f"\n- and {rest} more" if rest > 0 else ""
    return (
        "The answer does not have the required form:\n"
        f"{lines}{more}\n"
        "Answer again with the whole corrected JSON value and nothing else."
    )
