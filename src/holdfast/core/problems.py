"""What is wrong with an answer, as a value: where, what was expected, what is there.

This module must never import another of this room: errors and events hold these values.
"""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with an output, in words for the model.

    Args:
        path: where it is, such as `stops.0.nights`; "" when it has no place of its own.
        expected: what should be there.
        got: what the model wrote there, shortened; "" when nothing is there.

    >>> print(Problem("nights", "Input should be at least 1", "0"))
    nights: Input should be at least 1 (you wrote 0)
    """

    path: str
    expected: str
    got: str = ""

    def __str__(self) -> str:
        said = f"{self.path}: {self.expected}" if self.path else self.expected
        return f"{said} (you wrote {self.got})" if self.got else said
