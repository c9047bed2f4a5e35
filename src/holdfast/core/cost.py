"""The cost of calls, as exact decimal numbers in one currency.

A cost is a fact: it is computed once, when a reply is there, and saved with its event. A cost that is
not known stays so in every sum, with the known part beside it. This module must never use a float, and
must never add two currencies.
"""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ConfigurationError

EXACT: Final = Context(prec=60)
"""Enough digits for every sum of prices and tokens, whatever the context of the thread is."""

MOST: Final = Decimal(10) ** 9
"""The largest price of a million tokens, and the largest limit."""

ZERO: Final = Decimal(0)

if TYPE_CHECKING:
    Amount: TypeAlias = Decimal | str | int
    """An exact amount: a text such as "0.50", a Decimal, or a whole number."""
else:
    Amount = Decimal  # the type of the field once it was read


def read_amount(argument: str, value: object) -> Decimal:
    """Return an amount as a decimal number.

    Args:
        argument: the name of the argument, for the error.
        value: a text, a Decimal or a whole number.

    Raises:
        ConfigurationError: it is a float, or no number from 0 to a billion.

    >>> read_amount("limits.cost", "0.50")
    Decimal('0.50')
    >>> read_amount("limits.cost", 0.5)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limits.cost: must be an exact number, got float. Write it as text: "0.5"
    """
    if isinstance(value, float):
        raise ConfigurationError(
            argument, "must be an exact number, got float", fix=f'Write it as text: "{value:g}"'
        )
    if isinstance(value, bool) or not isinstance(value, Decimal | str | int):
        kind = type(value).__name__
        raise ConfigurationError(
            argument, f"must be a number, got {kind}", fix='Write it as text, such as "0.50"'
        )
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise ConfigurationError(
            argument, "is a text that is not a number", fix='Write it such as "0.50"'
        ) from None
    if not amount.is_finite() or not 0 <= amount <= MOST:
        raise ConfigurationError(
            argument, f"must be a number from 0 to {MOST:,}, got {value!s:.20}"
        )
    return amount


def shorten_amount(amount: Decimal) -> Decimal:
    """Return the same number without zeros at its end, and without an exponent.

    >>> shorten_amount(Decimal("0.003000")), shorten_amount(Decimal("1E+2"))
    (Decimal('0.003'), Decimal('100'))
    """
    return Decimal(f"{amount.normalize(EXACT):f}") if amount else ZERO


class Cost(Struct, frozen=True):
    """The cost of one or more model calls.

    Args:
        amount: the amount; of a cost that is not known, the part that is.
        currency: the currency of the prices, such as "USD".
        known: whether it is the whole cost: False if a price or a count of tokens was missing.

    Raises:
        ValueError: the amount is negative or not a number.

    >>> Cost(Decimal("0.25")) + Cost(Decimal("0.50"), known=False)
    Cost(amount=Decimal('0.75'), currency='USD', known=False)
    """

    amount: Decimal
    currency: str = "USD"
    known: bool = True

    def __post_init__(self) -> None:
        if not self.amount.is_finite() or self.amount < 0:
            raise ValueError("a cost is a number from 0")

    @property
    def total(self) -> Decimal | None:
        """The whole cost; None if it is not known."""
        return self.amount if self.known else None

    def __add__(self, other: Cost) -> Cost:
        if other.currency != self.currency:
            raise ConfigurationError(
                "currency",
                f"{self.currency} and {other.currency} cannot be added",
                fix="Give prices in one currency",
            )
        amount = shorten_amount(EXACT.add(self.amount, other.amount))
        return Cost(amount, self.currency, self.known and other.known)

    def __str__(self) -> str:
        shown = f"{self.amount:f} {self.currency}"
        if self.known:
            return shown
        return f"at least {shown}" if self.amount else "not known"


def join_costs(first: Cost | None, second: Cost | None) -> Cost | None:
    """Return the sum of costs that are saved; None if both are None.

    An amount in the other currency is not added: the sum is not known.

    >>> str(join_costs(Cost(Decimal(1)), Cost(Decimal(2), "EUR")))
    'at least 1 USD'
    """
    if first is None or second is None:
        return first or second
    if first.currency != second.currency:
        return Cost(first.amount, first.currency, known=False)
    return first + second


class CostSum:
    """Adds up the costs of events, of which some may have none.

    >>> total = CostSum()
    >>> total.add(Cost(Decimal("0.5")), has_used=True)
    >>> total.add(None, has_used=True)
    >>> str(total.cost)
    'at least 0.5 USD'
    """

    __slots__ = ("_cost", "_has_unpriced")

    def __init__(self) -> None:
        self._cost: Cost | None = None
        self._has_unpriced = False

    def add(self, cost: Cost | None, *, has_used: bool) -> None:
        """Add the cost of an event.

        Args:
            cost: the cost; None if the event was saved without prices.
            has_used: whether the event has tokens that cost something.
        """
        if cost is not None:
            self._cost = join_costs(self._cost, cost)
        elif has_used:
            self._has_unpriced = True

    @property
    def cost(self) -> Cost | None:
        """The sum; None if no event has a cost."""
        cost = self._cost
        if cost is None or not self._has_unpriced or not cost.known:
            return cost
        return Cost(cost.amount, cost.currency, known=False)
