"""The settings of the retry budget."""

from __future__ import annotations

from msgspec import Struct

from holdfast.resilience.checks import check_number


class BudgetOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        ratio: tokens that each call puts in; 0.1 allows one retry for ten calls in the long run.
        reserve: tokens that are there at the start, and that time fills up to.
        reserve_per_second: how fast time fills them.
        capacity: the bucket's size; calls do not put in more.
    """

    ratio: float = 0.1
    reserve: float = 10.0
    reserve_per_second: float = 0.5
    capacity: float = 100.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_number(f"budget.{name}", getattr(self, name))
