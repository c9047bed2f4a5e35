"""A problem of an output, as a value: its place, the expected value, the text of the model.

This module must import no other module of the package, since errors and events hold these values.
"""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True, omit_defaults=True):
    """One problem of an output, in words that a model can act on.

    Args:
        path: where it is, such as `stops[0].nights`; "" for the whole output.
        expected: the requirement that is not met, such as "must be at least 1".
        got: the value of the model there, shortened; "" when nothing is there.
        note: a fact that shows why the value does not fit, such as "today is 2026-11-29".

    >>> print(Problem("nights", "must be at least 1", "0"))
    nights: must be at least 1; got 0
    """

    path: str
    expected: str
    got: str = ""
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.expected}" if self.path else self.expected
        if not self.got:
            return text
        return f"{text}; got {self.got}, {self.note}" if self.note else f"{text}; got {self.got}"
