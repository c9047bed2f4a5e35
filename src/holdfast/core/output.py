"""Structured output: what is wanted of an answer, what came of checking it, and how to ask again.

The check itself is an effect: `core.ladder` climbs from the text of a reply to a value, and the
shell performs that, since the type is the user's and may change. This module must never import a
validation library: the type's own check comes in as an `OutputType`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.model_request import OutputSchema
from holdfast.core.problems import Problem

ParsedBy: TypeAlias = Literal["strict", "embedded", "repaired", "raw"]
"""How an answer was read: as it stood, found in a fence or in prose, with small mistakes mended, or
not at all (`raw` text, where that is allowed)."""

OutputParsedBy: TypeAlias = ParsedBy | Literal[""]
"""The rung of an answer, or "" where there is none."""

_MOST_PROBLEMS = 20
_LONGEST_PATH = 200
_LONGEST_WORDS = 500


class Valid(Struct, frozen=True):
    """The value, and the rung of the ladder that gave it."""

    value: object
    parsed_by: ParsedBy = "strict"


class Invalid(Struct, frozen=True):
    """Why the text is no such value."""

    problems: tuple[Problem, ...]


ParseResult: TypeAlias = Valid | Invalid


class OutputType(Protocol):
    """The wanted type of an answer: its schema, and the check of a JSON text."""

    @property
    def schema(self) -> OutputSchema:
        """What the provider is told."""
        ...

    def check(self, json_text: str) -> ParseResult:
        """Validate one JSON text; never raises for bad text."""
        ...


class OutputRejected(Exception):
    """Raised by an output validator to reject an output; the model is told the reason.

    Args:
        message: what the model reads; say what to change.

    >>> def short(trip):
    ...     if len(trip) > 3:
    ...         raise OutputRejected("At most 3 days, please.")
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def bound_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems as an event keeps them: the first few, each of a bounded length.

    >>> [str(problem) for problem in bound_problems(Problem(f"a.{n}", "no") for n in range(30))][-2:]
    ['a.18: no', 'and 11 more']
    """
    listed = tuple(problems)
    shown = listed if len(listed) <= _MOST_PROBLEMS else listed[: _MOST_PROBLEMS - 1]
    bounded = [
        Problem(problem.path[:_LONGEST_PATH], problem.expected[:_LONGEST_WORDS], problem.got)
        for problem in shown
    ]
    if rest := len(listed) - len(shown):
        bounded.append(Problem("", f"and {rest} more"))
    return tuple(bounded)


def repair_message(problems: tuple[Problem, ...]) -> str:
    """What the model is asked when its answer does not fit: every problem, and the way out."""
    shown = problems[:_MOST_PROBLEMS]
    rest = len(problems) - len(shown)
    lines = "\n".join(f"- {problem}" for problem in shown)
    more = f"\n- and {rest} more" if rest > 0 else ""
    return (
        "The answer does not have the required form:\n"
        f"{lines}{more}\n"
        "Answer again with the whole corrected JSON value and nothing else."
    )
