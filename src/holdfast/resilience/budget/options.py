"""The settings of the retry budget."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import NonNegativeFloat


class BudgetOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        ratio: tokens that each call adds; 0.1 allows one retry for ten calls in the long run.
        reserve: tokens at the start, and the level to which time fills the bucket.
        reserve_per_second: tokens that time adds in a second, up to the reserve.
        capacity: the largest number of tokens in the bucket.
    """

    ratio: NonNegativeFloat = 0.1
    reserve: NonNegativeFloat = 10.0
    reserve_per_second: NonNegativeFloat = 0.5
    capacity: NonNegativeFloat = 100.0

    def __post_init__(self) -> None:
        check_fields(self, "budget.")
