"""Prices of models: a table of the operator, the published prices, or both; and the cost of tokens at them.

A price is an exact decimal number, of a million tokens or of one call. What has no price has no known
cost. This module must never guess a price, use a float, or open the network.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.cost import EXACT, ZERO, Cost, read_amount, shorten_amount
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.core.messages import Usage
from holdfast.core.redaction import quote_setting

if TYPE_CHECKING:
    from datetime import datetime

PriceValue: TypeAlias = "str | int | Decimal | Mapping[str, PriceValue]"
"""A price, or the prices of a service tier or of long requests."""

PriceTable: TypeAlias = Mapping[str, Mapping[str, PriceValue]]
"""The prices of models by name; "*" is every other model."""

EVERY_OTHER: Final = "*"

PRICE_PROVIDERS: Final[Mapping[str, str | None]] = {
    "anthropic": "anthropic",
    "azure": "azure",
    "azure-responses": "azure",
    "azure-v1": "azure",
    "bedrock-anthropic": "aws",
    "bedrock-openai": "aws",
    "cerebras": "cerebras",
    "deepseek": "deepseek",
    "deepseek-beta": "deepseek",
    "fireworks": "fireworks",
    "gemini": "google",
    "gemini-openai": "google",
    "groq": "groq",
    "llamacpp": "local",
    "lmstudio": "local",
    "mistral": "mistral",
    "ollama": "local",
    "ollama-cloud": None,
    "openai": "openai",
    "openai-responses": "openai",
    "openrouter": "openrouter",
    "sglang": "local",
    "together": "together",
    "vertex": "google",
    "vertex-express": "google",
    "vllm": "local",
    "xai": "x-ai",
    "xai-responses": "x-ai",
}
"""Who publishes the prices of a preset: the id in `genai-prices`, "local" for a server of your own, whose
tokens cost nothing, or None for nobody."""

_FILE_FIX = 'Write for each model, such as: ["gpt-5.2"], then input = 1.25 and output = 10'


class PricedModel(Struct, frozen=True):
    """Which model is to be priced.

    Args:
        model: its name, as the request has it.
        replied: the name in the reply; "" without one.
        provider: the name of the preset; "" for a model of another kind.
        is_own: whether the provider itself is at the address, and not another server with its wire.
    """

    model: str
    replied: str = ""
    provider: str = ""
    is_own: bool = True


def name_priced(model: object, name: str, replied: str = "") -> PricedModel:
    """Return which model is to be priced.

    Args:
        model: the model object; one that is no HTTP endpoint has no provider.
        name: the name in the request.
        replied: the name in the reply.
    """
    provider, is_own = getattr(model, "priced_as", ("", True))
    return PricedModel(name, replied, provider, is_own)


class ModelPrice(Struct, frozen=True, kw_only=True):
    """The prices of one model: of a million tokens of each kind, and of one hosted call.

    Args:
        input: of sent tokens.
        output: of tokens that the model writes, with its reasoning.
        cached_input: of sent tokens that were in a cache.
        cache_write: of sent tokens that are put into a cache for some minutes.
        cache_write_1h: of those that are kept for an hour.
        audio_input: of sent tokens of sound.
        audio_output: of written tokens of sound.
        hosted_call: of one call of a tool that the provider runs.
        above: the prices of a request with more input than a number of tokens, by that number.
        tiers: the prices by service tier.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    audio_input: Decimal | None = None
    audio_output: Decimal | None = None
    hosted_call: Decimal | None = None
    above: Mapping[int, ModelPrice] = {}
    tiers: Mapping[str, ModelPrice] = {}

    def for_request(self, tier: str, tokens: int) -> ModelPrice | None:
        """Return the prices of one request; None if its tier has none.

        Args:
            tier: the service tier; "" for the standard one.
            tokens: the tokens of its input.
        """
        price = self.tiers.get(tier) if tier else self
        if price is None:
            return None
        passed = [start for start in price.above if tokens > start]
        return price.above[max(passed)] if passed else price

    def cost_of(self, usage: Usage) -> tuple[Decimal, bool]:
        """Return the cost of tokens, and whether each kind of them has a price."""
        for_an_hour = min(usage.cache_write_1h, usage.cache_write)
        apart = usage.cached_input + usage.cache_write + usage.audio_input
        counts = (
            # A provider may send counts that do not fit together.
            (max(0, usage.input - apart), self.input),
            (usage.cached_input, self.cached_input),
            (usage.cache_write - for_an_hour, self.cache_write),
            (for_an_hour, self.cache_write_1h),
            (usage.audio_input, self.audio_input),
            (max(0, usage.output - usage.audio_output), self.output),
            (usage.audio_output, self.audio_output),
        )
        amount, known = ZERO, True
        for count, price in counts:
            if price is not None:
                amount = EXACT.fma(price, count, amount)
            elif count:
                known = False
        amount = EXACT.scaleb(amount, -6)
        if self.hosted_call is not None:
            amount = EXACT.fma(self.hosted_call, usage.hosted_calls, amount)
        elif usage.hosted_calls:
            known = False
        return shorten_amount(amount), known


_FREE = ModelPrice(
    input=ZERO,
    output=ZERO,
    cached_input=ZERO,
    cache_write=ZERO,
    cache_write_1h=ZERO,
    audio_input=ZERO,
    audio_output=ZERO,
    hosted_call=ZERO,
)
_FREE = replace(_FREE, tiers=dict.fromkeys(("batch", "fast", "flex", "priority"), _FREE))


class PriceSource(Protocol):
    """Published prices."""

    @property
    def name(self) -> str:
        """Their name, with a version."""
        ...

    def find_price(self, provider: str, model: str, at: float) -> ModelPrice | None:
        """Return the prices of a provider's model at a time; None if they are not published."""
        ...


class Prices:
    """The prices of the tokens of models. Amounts are exact: text, Decimal or whole numbers, never floats.

    A row of the table has `input` and `output`, and may have `cached_input` (otherwise that of `input`),
    `cache_write`, `cache_write_1h`, `audio_input` and `audio_output`, all of a million tokens; and
    `hosted_call`, of one call. `above` and `tiers` have other prices, by the number of input tokens from
    which they are valid, and by the service tier; what they leave out is as in the row. The cost of
    tokens that have no price is not known.

    A name of a model is looked up exactly, with and without the provider (`"openai:gpt-5.2"`), then
    without its date or its region. Models of local servers are free unless the table has them.

    Args:
        table: the rows by the names of models; "*" is every other model.
        currency: the currency of the table.

    Raises:
        ConfigurationError: a row is wrong; the error names the field.

    >>> prices = Prices({"gpt-5.2": {"input": "1.25", "output": "10", "cached_input": "0.125"}})
    >>> print(prices.cost_of(PricedModel("gpt-5.2", "gpt-5.2-2025-12-11"), Usage(3000, 200)))
    0.00575 USD
    >>> prices.cost_of(PricedModel("gpt-6"), Usage(3000, 200)).known
    False
    """

    def __init__(self, table: PriceTable | None = None, *, currency: str = "USD") -> None:
        self.currency = _read_currency(currency)
        self._table = _read_table({} if table is None else table)
        self._source: PriceSource | None = None

    @classmethod
    def known(cls, table: PriceTable | None = None, *, currency: str = "USD") -> Prices:
        """Return the prices that providers publish, as the package `genai-prices` has them, in USD.

        They are as old as the installed package, and nothing is loaded from the network. They are for
        the addresses of the providers alone. The package is imported by the first price, in about half
        a second.

        Args:
            table: rows that replace those prices, or add to them.
            currency: the currency of the table, which must be USD here.

        Raises:
            ConfigurationError: the package is missing, or the table is in another currency.
        """
        prices = cls(table, currency=currency)
        if prices.currency != "USD":
            raise ConfigurationError(
                "currency",
                f"is {prices.currency}, and published prices are in USD",
                fix="Write the table in USD, or use Prices(table, currency=...) alone",
            )
        prices._source = _PublishedPrices()
        return prices

    @classmethod
    def read_file(cls, path: Path | str, *, argument: str = "prices") -> Prices:
        """Return the prices in a TOML file: a table for each model, and perhaps `currency = "EUR"`.

        Args:
            path: the file; or "known" for published prices alone.
            argument: the name of the argument, for errors.

        Raises:
            ConfigurationError: the file cannot be read, or something in it is wrong.
        """
        import tomllib  # only for a file

        try:
            if str(path) == "known":
                return cls.known()
            found = tomllib.loads(Path(path).read_text("utf-8"), parse_float=Decimal)
            currency = found.pop("currency", "USD")
            known = found.pop("known", False)
            if not isinstance(known, bool):
                raise ConfigurationError("known", "must be true or false")
            make: Callable[..., Prices] = cls.known if known else cls
            return make(found, currency=currency)
        except OSError as error:
            raise ConfigurationError(
                argument, f"{path} cannot be read: {error.strerror}"
            ) from error
        except ConfigurationError as error:
            problem = f"{path}: {error.argument}: {error.problem}"
            raise ConfigurationError(argument, problem, fix=error.fix or _FILE_FIX) from error
        except ValueError as error:
            raise ConfigurationError(argument, f"{path} is not TOML: {error}") from error

    @property
    def source(self) -> str:
        """Where prices come from that the table does not have, with a version; "" for nowhere."""
        return "" if self._source is None else self._source.name

    def __repr__(self) -> str:
        source = f", {self.source!r}" if self.source else ""
        return f"Prices({sorted(self._table)}, {self.currency!r}{source})"

    def find_price(self, model: PricedModel, at: float | None = None) -> ModelPrice | None:
        """Return the prices of a model; None if they are not known.

        Args:
            model: the model.
            at: the time of the request, in seconds since the epoch; some prices change with it.
                None is now.
        """
        names = _list_names(model)
        for name in names:
            if (row := self._table.get(name)) is not None:
                return row
        provider = PRICE_PROVIDERS.get(model.provider)
        if provider == "local":
            return _FREE
        if provider is not None and model.is_own and self._source is not None:
            for name in filter(None, (model.replied, model.model)):
                when = time.time() if at is None else at
                if (row := self._source.find_price(provider, name, when)) is not None:
                    return row
        return self._table.get(EVERY_OTHER)

    def cost_of(
        self, model: PricedModel, usage: Usage, tier: str = "", at: float | None = None
    ) -> Cost:
        """Return what the tokens of one request cost. It is not known if a price is missing.

        Args:
            model: the model.
            usage: the tokens of one request; prices of long requests depend on them.
            tier: the service tier, as in `Reply.tier`.
            at: the time of the request, in seconds since the epoch; None is now.
        """
        row = self.find_price(model, at)
        price = None if row is None else row.for_request(tier, usage.input)
        if price is None:
            is_nothing = not (usage.total or usage.hosted_calls)
            return Cost(ZERO, self.currency, known=is_nothing)
        amount, known = price.cost_of(usage)
        return Cost(amount, self.currency, known)


_DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})(?:-v\d+(?::\d+)?)?$")
_REGION = re.compile(r"^(?:us|eu|apac|au|ca|jp|global|us-gov)\.")


def _list_names(model: PricedModel) -> Iterator[str]:
    """Yield the names under which a table may have a model, the exact ones first."""
    exact = [name for name in dict.fromkeys((model.replied, model.model)) if name]
    shorter = [_REGION.sub("", _DATE.sub("", name)) for name in exact]
    between = [short for name in exact for short in (_DATE.sub("", name), _REGION.sub("", name))]
    for name in dict.fromkeys((*exact, *between, *shorter)):
        if model.provider:
            yield f"{model.provider}:{name}"
        yield name


def _read_currency(currency: object) -> str:
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Z]{3}", currency):
        raise ConfigurationError(
            "currency", "must be three capital letters", fix='Write it such as currency="EUR"'
        )
    return currency


def _read_table(table: object) -> dict[str, ModelPrice]:
    if not isinstance(table, Mapping):
        kind = type(table).__name__
        fix = 'Write {"gpt-5.2": {"input": "1.25", "output": "10"}}'
        raise ConfigurationError("table", f"must be a mapping, got {kind}", fix=fix)
    rows: dict[str, ModelPrice] = {}
    for name, row in table.items():
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError("table", "has a name of a model that is not a text")
        rows[name] = _read_row(f"table[{quote_setting(name)}]", row, None)
    return rows


_AMOUNTS = (
    "input",
    "output",
    "cached_input",
    "cache_write",
    "cache_write_1h",
    "audio_input",
    "audio_output",
    "hosted_call",
)
_TIERS = ("batch", "fast", "flex", "priority", "provisioned")


def _read_row(place: str, row: object, around: ModelPrice | None) -> ModelPrice:
    """Return the prices of a row.

    Args:
        place: where it is, for errors.
        row: its fields.
        around: the row that it is in, which has what it leaves out.
    """
    if not isinstance(row, Mapping):
        kind = type(row).__name__
        fix = 'Write {"input": "1.25", "output": "10"}'
        raise ConfigurationError(place, f"must be a mapping of prices, got {kind}", fix=fix)
    _check_names(place, row, (*_AMOUNTS, "above", "tiers"))
    given = {name: read_amount(f"{place}.{name}", row[name]) for name in _AMOUNTS if name in row}
    if around is None:
        for name in ("input", "output"):
            if name not in given:
                raise ConfigurationError(f"{place}.{name}", "is missing", fix=_FILE_FIX)
        around = replace(_FREE, cache_write=None, cache_write_1h=None, tiers={})
        around = replace(around, audio_input=None, audio_output=None, hosted_call=None)
    if around.cached_input == around.input and "input" in given:
        given = {"cached_input": given["input"], **given}  # it was left out
    price = replace(around, above={}, tiers={}, **given)
    above = {
        _read_start(f"{place}.above", start): _read_row(f"{place}.above[{start}]", inner, price)
        for start, inner in _read_mapping(f"{place}.above", row.get("above")).items()
    }
    tiers = _read_mapping(f"{place}.tiers", row.get("tiers"))
    _check_names(f"{place}.tiers", tiers, _TIERS)
    by_tier = {tier: _read_row(f"{place}.tiers.{tier}", tiers[tier], price) for tier in tiers}
    return replace(price, above=above, tiers=by_tier)


def _check_names(place: str, fields: Mapping[object, object], allowed: tuple[str, ...]) -> None:
    for name in fields:
        if name in allowed:
            continue
        from difflib import get_close_matches  # only for the error

        near = get_close_matches(str(name), allowed, n=1, cutoff=0.5)
        fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(allowed)}"
        raise ConfigurationError(place, f"unknown field {quote_setting(str(name))}", fix=fix)


def _read_mapping(place: str, value: object) -> Mapping[object, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise ConfigurationError(place, f"must be a mapping of prices, got {kind}")
    return value


def _read_start(place: str, start: object) -> int:
    try:
        number = int(str(start))
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigurationError(
            place, "must have a number of tokens as its key", fix='Write "200000"'
        )
    return number


class _PublishedPrices:
    """The prices of the package `genai-prices`, which is imported by the first one."""

    __slots__ = ("_find_model", "name")

    def __init__(self) -> None:
        from importlib.metadata import version  # only with published prices

        try:
            self.name = f"genai-prices {version('genai-prices')}"
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "prices", "known prices need genai-prices", fix=install_command("prices")
            ) from error
        self._find_model: Callable[[str, str], _PublishedModel | None] | None = None

    def find_price(self, provider: str, model: str, at: float) -> ModelPrice | None:
        """Return the prices of a provider's model at a time; None if they are not published."""
        from datetime import UTC, datetime  # as above

        if self._find_model is None:
            self._find_model = _import_published()
        found = self._find_model(provider, model)
        if found is None:
            return None
        when = datetime.fromtimestamp(at, UTC)
        price = _convert_published(found.get_prices(when).__dict__)
        if price is None or not found.price_variants:
            return price
        tiers = {
            tier: inner
            for tier, conditions in _PUBLISHED_TIERS.items()
            if (inner := _find_variant(found, when, conditions)) is not None
        }
        return replace(price, tiers=tiers)


class _PublishedModel(Protocol):
    """A model as `genai-prices` has it."""

    price_variants: object

    def get_prices(self, when: datetime, conditions: Mapping[str, str] | None = None) -> object: ...


_PUBLISHED_TIERS: Final = {
    "batch": ({"processing": "batch"},),
    "fast": ({"speed": "fast"}, {"service_tier": "fast"}),
    "flex": ({"service_tier": "flex"},),
    "priority": ({"service_tier": "priority"},),
}


def _import_published() -> Callable[[str, str], _PublishedModel | None]:
    """Import the package, and return the function that finds a model in its data."""
    from genai_prices.data_snapshot import get_snapshot

    def find_model(provider: str, model: str) -> _PublishedModel | None:
        try:
            found = get_snapshot().find_provider_model(model, None, provider, None)
        except LookupError:
            return None
        return cast("_PublishedModel", found[1])

    return find_model


def _find_variant(
    model: _PublishedModel, when: datetime, conditions: tuple[Mapping[str, str], ...]
) -> ModelPrice | None:
    """Return the prices of a tier; None if they are not published."""
    standard = model.get_prices(when).__dict__
    for condition in conditions:
        fields = model.get_prices(when, condition).__dict__
        if fields != standard:
            return _convert_published(fields)
    return None


_PUBLISHED_FIELDS: Final = (
    # A field without a price has that of the next one.
    ("input", ("input_mtok",)),
    ("output", ("output_mtok",)),
    ("cached_input", ("cache_read_mtok", "input_mtok")),
    ("cache_write", ("cache_write_mtok", "cache_write_5m_mtok", "input_mtok")),
    ("cache_write_1h", ("cache_write_1h_mtok", "cache_write_mtok", "input_mtok")),
    ("audio_input", ("input_audio_mtok", "input_mtok")),
    ("audio_output", ("output_audio_mtok", "output_mtok")),
)


def _convert_published(fields: Mapping[str, object]) -> ModelPrice | None:
    """Return prices of the package as ours; None if input or output has none."""
    if fields.get("input_mtok") is None or fields.get("output_mtok") is None:
        return None
    starts = sorted(
        {tier.start for value in fields.values() for tier in getattr(value, "tiers", ())}
    )
    price = _published_row(fields, None)
    return replace(price, above={start: _published_row(fields, start) for start in starts})


def _published_row(fields: Mapping[str, object], start: int | None) -> ModelPrice:
    """Return the prices of requests with more tokens than `start`; None is for all others."""
    amounts: dict[str, Decimal] = {}
    for name, sources in _PUBLISHED_FIELDS:
        value = next(fields[one] for one in sources if fields.get(one) is not None)
        amounts[name] = _price_from(value, start)
    return replace(_FREE, hosted_call=None, tiers={}, **amounts)


def _price_from(value: object, start: int | None) -> Decimal:
    if isinstance(value, Decimal):
        return value
    price: Decimal = value.base  # type: ignore[attr-defined]  # a TieredPrices of the package
    for tier in value.tiers:  # type: ignore[attr-defined]
        if start is not None and tier.start <= start:
            price = tier.price
    return price
