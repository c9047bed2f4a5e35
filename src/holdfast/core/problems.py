"""A problem of an output, as a value: where it is, what was expected, what the model wrote.

This module must import no other module of the package, since errors and events hold these values.
"""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True, omit_defaults=True):
    """One problem of an output, in words that a model can act on.

    Args:
        path: where it is, such as `stops.0.nights`; "" for the whole output.
        expected: what should be there.
        got: what the model wrote there, shortened; "" when nothing is there.

    >>> print(Problem("nights", "Input should be at least 1", "0"))
    nights: Input should be at least 1 (you wrote 0)
    """

    path: str
    expected: str
    got: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.expected}" if self.path else self.expected
        return f"{text} (you wrote {self.got})" if self.got else text
