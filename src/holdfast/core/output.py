"""Structured output: from the text of an answer to a value, or to a message that asks for a better one.

The ladder is strict JSON, then one fenced or embedded JSON value. Nothing is ever repaired by
guessing, and this module must never import a validation library: the type's own check comes in
as an `OutputType`.
"""

from __future__ import annotations

import re
from typing import Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.request import OutputSchema

_MOST_PROBLEMS = 20


class Valid(Struct, frozen=True):
    """The value, and the rung of the ladder that gave it: "strict" or "embedded"."""

    value: object
    rung: str = "strict"


class Invalid(Struct, frozen=True):
    """Why the text is no such value, in words that a model can act on."""

    problems: tuple[str, ...]


Parsed: TypeAlias = Valid | Invalid


class OutputType(Protocol):
    """The wanted type of an answer: its schema, and the check of a JSON text."""

    @property
    def schema(self) -> OutputSchema:
        """What the provider is told."""
        ...

    def check(self, json_text: str) -> Parsed:
        """Validate one JSON text; never raises for bad text."""
        ...


_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


def _embedded(text: str) -> str | None:
    """The one JSON value inside prose, when there is exactly one fence or one outer bracket pair."""
    fences = _FENCE.findall(text)
    if len(fences) == 1:
        return str(fences[0]).strip()
    if fences:
        return None
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    if not starts:
        return None
    start = min(starts)
    end = text.rfind("}" if text[start] == "{" else "]")
    return text[start : end + 1] if end > start else None


def parse(text: str, wanted: OutputType) -> Parsed:
    """Parse an answer by the ladder; the problems are those of the strict rung.

    Args:
        text: the whole text of the reply.
        wanted: the type's schema and check.
    """
    strict = wanted.check(text.strip())
    if isinstance(strict, Valid):
        return strict
    inner = _embedded(text)
    if inner is not None and inner != text.strip():
        embedded = wanted.check(inner)
        if isinstance(embedded, Valid):
            return Valid(embedded.value, rung="embedded")
        return embedded
    return strict


def repair_message(problems: tuple[str, ...]) -> str:
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
