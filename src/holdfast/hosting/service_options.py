"""How a service tells of its turns: what it holds back, and what it counts. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.telemetry.token_prices import TokenPrices


class ServiceOptions(Struct, frozen=True, kw_only=True):
    """How a service tells of its turns.

    Args:
        hold_text: the names of agents whose text OpenAI's protocols send once its reply is accepted.
            These protocols cannot withdraw text that was sent.
        prices: the prices of a million tokens by the name of a model, as replies have it; "*" is every
            other model. With prices, turns and totals of usage have a cost.

    Raises:
        ConfigurationError: a setting is wrong.

    >>> ServiceOptions(prices={"gpt-5.2": TokenPrices(input=1.25, output=10)}).hold_text
    ()
    """

    hold_text: Collection[str] = ()
    prices: Mapping[str, TokenPrices] = {}

    def __post_init__(self) -> None:
        check_value("hold_text", self.hold_text, Collection[str])
        check_value("prices", self.prices, Mapping[str, TokenPrices])
