"""Prices: which row a model has, what is wrong in a table, and what is not known."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.cli.main import main
from holdfast.core.cost import Cost, CostSum, join_costs
from holdfast.core.messages import Usage
from holdfast.errors import ConfigurationError
from holdfast.models import PricedModel, Prices
from holdfast.models.presets import PRESETS
from holdfast.models.prices import PRICE_PROVIDERS, PriceTable, name_priced
from holdfast.models.resolve import ModelAt, resolve_model
from holdfast.transport.http import HttpTransport

USAGE = Usage(1_000_000, 1_000_000)
ROW = {"input": "1", "output": "10"}


def cost(prices: Prices, model: PricedModel | str, usage: Usage = USAGE, tier: str = "") -> str:
    named = PricedModel(model) if isinstance(model, str) else model
    return str(prices.cost_of(named, usage, tier))


@pytest.mark.parametrize(
    ("asked", "replied"),
    [
        ("m", ""),
        ("m", "m-2025-12-11"),
        ("x", "m-20251211"),
        ("m@20251211", ""),
        ("us.m-20250929-v1:0", ""),
        ("eu.m", ""),
        ("my-deployment", "m-2025-12-11"),
    ],
)
def test_a_model_is_found_without_its_date_and_its_region(asked: str, replied: str) -> None:
    assert cost(Prices({"m": ROW}), PricedModel(asked, replied)) == "11 USD"


def test_an_exact_name_comes_first_and_the_provider_before_all() -> None:
    table: PriceTable = {
        "m": {"input": 1, "output": 0},
        "m-2025-12-11": {"input": 2, "output": 0},
        "openai:m": {"input": 3, "output": 0},
        "*": {"input": 4, "output": 0},
    }
    prices = Prices(table, currency="EUR")
    assert cost(prices, PricedModel("m", "m-2025-12-11")) == "2 EUR"
    assert cost(prices, PricedModel("m", "m-2025-12-12")) == "1 EUR"
    assert cost(prices, PricedModel("m", "m-2025-12-12", "openai")) == "3 EUR"
    assert cost(prices, "other") == "4 EUR"


def test_what_has_no_price_is_not_known_and_never_zero() -> None:
    prices = Prices({"m": ROW})
    unknown = prices.cost_of(PricedModel("other"), USAGE)
    assert (unknown.known, unknown.total) == (False, None)
    part = prices.cost_of(PricedModel("m"), Usage(1_000_000, 0, cache_write=500_000))
    assert str(part) == "at least 0.5 USD"
    for usage in (
        Usage(1, 1, hosted_calls=1),
        Usage(1, 1, audio_input=1),
        Usage(0, 1, audio_output=1),
    ):
        assert not prices.cost_of(PricedModel("m"), usage).known
    assert prices.cost_of(PricedModel("other"), Usage()).known
    assert cost(prices, "m", tier="batch") == "not known"


def test_rows_inside_a_row_have_what_it_has() -> None:
    table: PriceTable = {
        "m": {
            **ROW,
            "cached_input": "0.1",
            "cache_write": "2",
            "above": {"1000": {"input": "2"}, "2000": {"output": "30"}},
            "tiers": {"batch": {"output": "5", "above": {"1000": {"output": "6"}}}},
        }
    }
    prices = Prices(table)
    assert cost(prices, "m", Usage(1000, 0)) == "0.001 USD"
    assert cost(prices, "m", Usage(1001, 0)) == "0.002002 USD"
    assert cost(prices, "m", Usage(2001, 1)) == "0.002031 USD"
    assert cost(prices, "m", Usage(10, 10), tier="batch") == "0.00006 USD"
    assert cost(prices, "m", Usage(1001, 1), tier="batch") == "0.001007 USD"
    assert cost(prices, "m", Usage(10, 0, cache_write=10)) == "0.00002 USD"


def test_every_preset_has_somebody_who_publishes_its_prices_or_none() -> None:
    assert set(PRICE_PROVIDERS) == set(PRESETS)
    from genai_prices.data_snapshot import get_snapshot

    known = {provider.id for provider in get_snapshot().providers}
    assert {one for one in PRICE_PROVIDERS.values() if one not in (None, "local")} <= known


def test_published_prices_are_for_the_address_of_the_provider() -> None:
    prices = Prices.known({"mine": ROW})
    own = PricedModel("gpt-5", "", "openai")
    assert cost(prices, own) == "11.25 USD"
    assert not prices.cost_of(replace(own, is_own=False), USAGE).known
    assert cost(prices, PricedModel("mine", "", "openai", is_own=False)) == "11 USD"
    assert not prices.cost_of(PricedModel("no-such-model", "", "openai"), USAGE).known
    assert not prices.cost_of(PricedModel("gpt-5"), USAGE).known  # of no provider
    assert cost(prices, PricedModel("llama3.2", "", "ollama", is_own=False)) == "0 USD"
    assert cost(prices, own, tier="batch") == "5.625 USD"
    assert not prices.cost_of(own, USAGE, "provisioned").known
    assert prices.source.startswith("genai-prices ")
    assert "genai-prices" in repr(prices)


@pytest.mark.parametrize(
    ("model", "base_url", "is_own"),
    [
        ("openai:gpt-5", None, True),
        ("openai:gpt-5", "https://eu.api.openai.com/v1", True),
        ("openai:gpt-5", "https://gateway.example/v1", False),
        ("openai:gpt-5", "https://api.openai.com.evil.example/v1", False),
        ("anthropic:claude-sonnet-4-5", "https://gateway.example", False),
        ("azure:mine", "https://mine.openai.azure.com", True),
        ("vertex:gemini-2.5-flash", "https://aiplatform.googleapis.com/v1beta1/projects/p", True),
        ("vertex:gemini-2.5-flash", "https://us-aiplatform.googleapis.com/v1", True),
        ("bedrock-anthropic:claude", "https://bedrock-runtime.eu-west-1.amazonaws.com/a", True),
        ("bedrock-anthropic:claude", "https://x.execute-api.eu-west-1.amazonaws.com/a", False),
    ],
)
def test_an_address_is_the_providers_own(model: str, base_url: str | None, is_own: bool) -> None:
    made = resolve_model(ModelAt(model, base_url=base_url, api_key="k"), HttpTransport)
    priced = name_priced(made, made.model)
    assert (priced.provider, priced.is_own) == (model.partition(":")[0], is_own)


@pytest.mark.slow  # starts a process
def test_published_prices_are_imported_by_the_first_price_and_never_updated() -> None:
    code = (
        "import sys\n"
        "from holdfast.models import Prices, PricedModel\n"
        "from holdfast.core.messages import Usage\n"
        "prices = Prices.known()\n"
        "assert 'genai_prices' not in sys.modules\n"
        "prices.cost_of(PricedModel('gpt-5', '', 'openai'), Usage(1, 1))\n"
        "import threading\n"
        "assert 'genai_prices' in sys.modules and threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"m": {"input": 1.5, "output": 1}}, r"table\['m'\].input: .* got float. .*\"1.5\""),
        ({"m": {"input": float("nan"), "output": 1}}, "got float"),
        ({"m": {"input": Decimal("NaN"), "output": 1}}, "from 0 to 1,000,000,000"),
        ({"m": {"input": "1", "output": "-1"}}, "output: must be a number from 0"),
        ({"m": {"input": "Infinity", "output": "1"}}, "from 0 to 1,000,000,000"),
        ({"m": {"input": "much", "output": "1"}}, "a text that is not a number"),
        ({"m": {"input": True, "output": 1}}, "must be a number, got bool"),
        ({"m": {"input": "1"}}, "output: is missing"),
        ({"m": {"input": 1, "output": 1, "cache_writ": 1}}, "Did you mean cache_write?"),
        ({"m": {"input": 1, "output": 1, "zzz": 1}}, "Known are input, output"),
        ({"m": {"input": 1, "output": 1, "tiers": {"flux": {}}}}, "Did you mean flex?"),
        ({"m": {"input": 1, "output": 1, "tiers": 3}}, "must be a mapping of prices, got int"),
        ({"m": {"input": 1, "output": 1, "above": {"many": {}}}}, "a number of tokens as its key"),
        ({"m": {"input": 1, "output": 1, "above": {"9": {"input": -1}}}}, "above.9.*input"),
        ({"m": 3}, "must be a mapping of prices, got int"),
        ({3: {}}, "a name of a model that is not a text"),
        (3, "table: must be a mapping, got int"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(table: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Prices(table)  # type: ignore[arg-type]


def test_a_table_beside_published_prices_is_in_their_currency() -> None:
    with pytest.raises(
        ConfigurationError, match="currency: is EUR, and published prices are in USD"
    ):
        Prices.known({"m": ROW}, currency="EUR")
    with pytest.raises(ConfigurationError, match="three capital letters"):
        Prices({"m": ROW}, currency="euro")


def test_a_file_has_decimals_and_perhaps_published_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(
        'currency = "EUR"\n["gpt-5.2"]\ninput = 1.1\noutput = 10\n'
        '["gpt-5.2".above.200000]\ninput = 2.2\n'
    )
    prices = Prices.read_file(path)
    assert cost(prices, "gpt-5.2", Usage(100_000, 0)) == "0.11 EUR"
    assert cost(prices, "gpt-5.2", Usage(300_000, 0)) == "0.66 EUR"
    path.write_text("known = true\n[mine]\ninput = 1\noutput = 1\n")
    assert Prices.read_file(path).source
    assert Prices.read_file("known").source


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read: No such file"),
        ("[", "is not TOML"),
        ("[m]\ninput = 1\n", "output: is missing"),
        ("[m]\ninput = 1\noutput = -1\n", "output: must be a number from 0"),
        ("[m]\ninput = 1\noutput = nan\n", "output: must be a number from 0"),
        ("[m]\ninput = 1\noutput = 1\nper = 2\n", "unknown field 'per'"),
        ("m = 3\n", "must be a mapping of prices, got int"),
        ("currency = 3\n", "currency: must be three capital letters"),
        ("known = 3\n", "known: must be true or false"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.toml"
    if text is not None:
        path.write_text(text)
    (tmp_path / "a.toml").write_text('name = "a"\nmodel = "openai:gpt-5.2"\n')
    assert main(["serve", str(tmp_path / "a.toml"), "--prices", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "--prices" in shown
    assert problem in shown


def test_two_currencies_are_never_added() -> None:
    one, other = Cost(Decimal(1)), Cost(Decimal(2), "EUR")
    with pytest.raises(ConfigurationError, match="USD and EUR cannot be added"):
        _ = one + other
    assert join_costs(one, other) == Cost(Decimal(1), "USD", known=False)
    assert join_costs(None, one) == one


def test_a_cost_is_saved_as_text_and_read_again() -> None:
    saved = msgspec.json.encode(Cost(Decimal("0.10"), "EUR", known=False))
    assert saved == b'{"amount":"0.10","currency":"EUR","known":false}'
    assert msgspec.json.decode(saved, type=Cost) == Cost(Decimal("0.10"), "EUR", known=False)
    for amount in ("-1", "NaN"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(saved.replace(b"0.10", amount.encode()), type=Cost)


COUNTS = st.integers(0, 2**53)


@given(COUNTS, COUNTS, COUNTS, st.decimals(0, 1000, places=9))
@settings(max_examples=25, deadline=None)
def test_a_sum_of_costs_is_exact_in_every_context(
    one: int, two: int, three: int, price: Decimal
) -> None:
    prices = Prices({"m": {"input": price, "output": price}})
    with localcontext() as context:
        context.prec = 3
        total = CostSum()
        for count in (one, two, three):
            total.add(prices.cost_of(PricedModel("m"), Usage(count)), has_used=True)
    assert total.cost is not None
    with localcontext() as context:
        context.prec = 60
        assert total.cost.amount == (one + two + three) * price / 1_000_000
