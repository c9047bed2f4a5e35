"""Types for arguments and options whose values have limits, such as `PositiveInt`.

`core.argument_checks` reads them. For a type checker each is a plain `int`, `float` or `str`. This
module must never check anything itself.
"""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import Annotated, Any, TypeAlias

from msgspec import Struct


class Constraint(Struct, frozen=True):
    """A limit of a value, written in `Annotated`.

    Args:
        wording: completes the sentence "must be ...".
        is_met: whether a value of the annotated type is within the limit.
    """

    wording: str
    is_met: Callable[[Any], object]


class Wording(Struct, frozen=True):
    """The words for a type in messages, in place of the names of its classes; written in `Annotated`.

    Args:
        text: completes the sentence "must be ...".
    """

    text: str


def at_least(least: float) -> Constraint:
    """Return the constraint of a number from `least`."""
    return Constraint(f"at least {least}", lambda number: number >= least)


def between(least: float, most: float) -> Constraint:
    """Return the constraint of a number from `least` to `most`."""
    return Constraint(f"from {least:g} to {most:g}", lambda number: least <= number <= most)


def name_of(longest: int) -> Constraint:
    """Return the constraint of a name, which every database can store."""
    return Constraint(
        f"a text of at most {longest} characters without a NUL character",
        lambda text: len(text) <= longest and "\x00" not in text,
    )


def template(*names: str) -> Constraint:
    """Return the constraint of a text in which `{name}` stands for a value of that name."""
    listed = " and ".join(f"{{{name}}}" for name in names)
    return Constraint(
        f"a text with no other placeholders than {listed}",
        lambda text: _find_placeholders(text) <= set(names),
    )


def _find_placeholders(text: str) -> set[str]:
    """Return the placeholders of a template, with their formats; {""} if it cannot be read."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return {""}
    return {f"{name}{form}{convert or ''}" for _, name, form, convert in parts if name is not None}


NonNegativeInt: TypeAlias = Annotated[int, at_least(0)]
"""A whole number from 0."""

PositiveInt: TypeAlias = Annotated[int, at_least(1)]
"""A whole number from 1."""

NonNegativeFloat: TypeAlias = Annotated[
    float, Constraint("a finite number from 0", lambda number: number >= 0)
]
"""A finite number from 0."""

PositiveFloat: TypeAlias = Annotated[
    float, Constraint("a finite number above 0", lambda number: number > 0)
]
"""A finite number above 0."""

Share: TypeAlias = Annotated[
    float, Constraint("above 0 and at most 1", lambda number: 0 < number <= 1)
]
"""A number above 0 and at most 1."""

NonEmptyText: TypeAlias = Annotated[str, Constraint("a text that is not empty", str.strip)]
"""A text with at least one character that is not a space."""
