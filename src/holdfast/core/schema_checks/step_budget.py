"""Counts the steps of some work, and stops it at a limit.

A thread cannot be stopped from outside, and while it computes, the other threads of the process wait for it. So work
whose size somebody else decides counts its own steps. Counting is deterministic: the same input stops at the same
step on every machine.
"""

from __future__ import annotations

from typing import Final

COMPILE_STEPS: Final = 200_000
"""Steps that the compilation of one schema may take."""

CHECK_STEPS: Final = 250_000
"""Steps that the check of one reply may take, over all the values that are found in it."""


class StepsExceededError(Exception):
    """The work took more steps than its budget has."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit:,} steps")
        self.limit = limit


class StepBudget:
    """How many steps some work may still take.

    Args:
        limit: the number of steps.

    >>> budget = StepBudget(3)
    >>> budget.take(2)
    >>> budget.used
    2
    """

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    @property
    def used(self) -> int:
        """How many steps were taken."""
        return self.limit - self.left

    def take(self, steps: int = 1) -> None:
        """Count steps before they are taken. Raises StepsExceededError if they are too many."""
        self.left -= steps
        if self.left < 0:
            raise StepsExceededError(self.limit)
