"""Prices of tokens: the operator gives them, since no provider sends them with a reply.

This module must never guess a price: a cost that is not known is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import between
from holdfast.core.messages import Usage

_TOKENS = 1_000_000
_EVERY_OTHER = "*"

Price: TypeAlias = Annotated[float, between(0, 1e9)]
"""A price of a million tokens."""


class TokenPrices(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The prices of a million tokens, in any currency.

    Args:
        input: of the tokens that are sent.
        output: of the tokens that the model writes, with its reasoning.
        cached_input: of sent tokens that were cached; by default that of `input`.

    Raises:
        ConfigurationError: one is not a number from 0 to a billion.

    >>> TokenPrices(input=3, output=15, cached_input=0.3).cost_of(
    ...     Usage(1_000_000, 100_000, cached_input=500_000)
    ... )
    3.15
    """

    input: Price
    output: Price
    cached_input: Price | None = None

    def __post_init__(self) -> None:
        check_fields(self, "prices.")

    def cost_of(self, usage: Usage) -> float:
        """Return the cost of tokens."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, usage.input - usage.cached_input)  # a provider may say anything
        paid = fresh * self.input + usage.cached_input * cached + usage.output * self.output
        return round(paid / _TOKENS, 8)


class PriceList:
    """The prices of models.

    Args:
        prices: by the names of models in replies; "*" is every other model.

    Raises:
        ConfigurationError: it is no such mapping.

    >>> prices = PriceList({"gpt-5.2": TokenPrices(input=1, output=10)})
    >>> prices.cost_of({"gpt-5.2": Usage(2_000_000, 100_000)})
    3.0
    >>> prices.cost_of({"gpt-5.2": Usage(5, 5), "unknown": Usage(1, 1)}) is None
    True
    """

    def __init__(self, prices: Mapping[str, TokenPrices] | None = None) -> None:
        check_value("prices", prices, Mapping[str, TokenPrices] | None)
        self._prices = dict(prices or {})

    def __bool__(self) -> bool:
        return bool(self._prices)

    def price(self, model: str, usage: Usage) -> float | None:
        """Return the cost of tokens of a model; None if its price is not known."""
        return self.cost_of({model: usage})

    def cost_of(self, used: Mapping[str, Usage]) -> float | None:
        """Return the cost of tokens; None if the price of one of their models is not known.

        Args:
            used: the tokens by model; "" for tokens whose model is not known.
        """
        cost, other = 0.0, self._prices.get(_EVERY_OTHER)
        for model, usage in used.items():
            price = self._prices.get(model, other)
            if price is not None:
                cost += price.cost_of(usage)
            elif usage.total:
                return None
        return round(cost, 8) if self._prices else None
