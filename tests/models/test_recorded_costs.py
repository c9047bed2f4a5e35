"""What recorded replies cost: computed by hand, tokens times the price of a million, to the last digit.

The prices are those that the vendors published in 2026-11. A hosted search costs 0.01, which is 10,000
of the unit of this table, a millionth of a dollar, for each call that the reply shows.
"""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from functools import cache

import pytest
from tests.codecs.reading import assemble_deltas, read_deltas
from tests.corpus import corpus

from holdfast.core.messages import Reply
from holdfast.models.presets import PRESETS
from holdfast.models.prices import PricedModel, Prices, PriceTable
from holdfast.models.resolve import load_codec

CLAUDE = {
    "input": "3",
    "output": "15",
    "cached_input": "0.3",
    "cache_write": "3.75",
    "cache_write_1h": "6",
}
HALF = {"input": "0.625", "output": "5", "cached_input": "0.0625"}
TABLE: PriceTable = {
    "claude-sonnet-4": CLAUDE,
    "claude-sonnet-4-6": CLAUDE,
    "claude-sonnet-4-5": {
        **CLAUDE,
        "hosted_call": "0.01",
        "above": {"200000": {"input": "6", "output": "22.5", "cached_input": "0.6"}},
    },
    "claude-haiku-4-5": {
        "input": "1",
        "output": "5",
        "cached_input": "0.1",
        "cache_write": "1.25",
        "cache_write_1h": "2",
    },
    "gpt-4o": {"input": "2.5", "output": "10", "cached_input": "1.25"},
    "gpt-4o-mini": {"input": "0.15", "output": "0.6", "cached_input": "0.075"},
    "gpt-5": {
        "input": "1.25",
        "output": "10",
        "cached_input": "0.125",
        "tiers": {
            "flex": HALF,
            "batch": HALF,
            "priority": {"input": "2.5", "output": "20", "cached_input": "0.25"},
        },
    },
    "gpt-5-nano": {
        "input": "0.05",
        "output": "0.4",
        "tiers": {"flex": {"input": "0.025", "output": "0.2"}},
    },
    "gpt-5.4": {
        "input": "2.5",
        "output": "15",
        "tiers": {"priority": {"input": "5", "output": "30"}},
    },
    "gpt-audio-mini": {
        "input": "0.6",
        "output": "2.4",
        "audio_input": "10",
        "audio_output": "20",
    },
    "gemini-2.0-flash": {
        "input": "0.1",
        "output": "0.4",
        "cached_input": "0.025",
        "audio_input": "0.7",
    },
    "gemini-2.5-flash": {
        "input": "0.3",
        "output": "2.5",
        "cached_input": "0.03",
        "audio_input": "1",
    },
    "gemini-3-flash-preview": {"input": "0.5", "output": "3", "audio_input": "1"},
    "llama-3.3-70b-versatile": {"input": "0.59", "output": "0.79"},
}

# The id of the recorded reply, the preset, and the sum.
COSTS = (
    ("9edbe938fa86283e", "anthropic", "24 * 3 + 1857 * 0.3 + 33 * 15"),
    ("fb9df0f79849b9b3", "anthropic", "28 * 3 + 1425 * 0.3 + 13 * 15"),
    ("d576b9e1372e3b45", "anthropic", "3 * 3 + 4890 * 0.3 + 353 * 3.75 + 323 * 15"),
    ("fc031ac8d6cd2d16", "anthropic", "6 * 3 + 1069 * 0.3 + 85 * 3.75 + 110 * 15"),
    ("79043da30d694c53", "anthropic", "17 * 3 + 2056 * 6 + 100 * 15"),
    ("a70ad55663bfd1cf", "anthropic", "28 * 3 + 1425 * 6 + 13 * 15"),
    ("69bd19952a272e4a", "anthropic", "818 * 1 + 99 * 5"),
    ("d1bb71a70908fa26", "anthropic", "1149 * 3 + 58 * 15"),
    ("d6efb1374ce52dac", "anthropic", "67 * 3 + 1849 * 15"),
    ("35fd6d4d7702d05b", "anthropic", "46 * 1 + 133 * 5"),
    ("6ae8721f1b194f12", "anthropic", "10 * 1 + 7351 * 1.25 + 4 * 5"),
    ("9a85002142f6446d", "anthropic", "3 * 3 + 5169 * 3.75 + 72 * 15"),
    ("d3600462fa576e42", "anthropic", "18 * 3 + 2055 * 3.75 + 100 * 15"),
    ("6f2277d84a88a6e7", "anthropic", "7 * 3 + 1069 * 3.75 + 60 * 15"),
    ("e745809b2a51473b", "anthropic", "3 * 3 + 1636 * 3.75 + 4 * 15"),
    ("735ecc2eb5e61936", "gemini", "41 * 0.1 + 25 * 0.7 + 17 * 0.4"),
    ("570bbaca0c797fff", "gemini", "43 * 0.3 + 33 * 1 + 61 * 2.5"),
    ("4489e30251297896", "gemini", "14 * 0.3 + 176 * 1 + 46 * 2.5"),
    ("840792da89ced1ff", "gemini", "6 * 0.3 + 119 * 1 + 35 * 2.5"),
    ("ecccb554b960ed20", "gemini", "190 * 0.5 + 113 * 1 + 203 * 3"),
    ("24fc4b159e690a3c", "gemini", "154 * 0.3 + 191 * 0.03 + 104 * 2.5"),
    ("ea0d48f5182fa76d", "gemini", "115 * 0.3 + 230 * 0.03 + 37 * 2.5"),
    ("3b9436be029af2a4", "gemini", "873 * 0.3 + 3760 * 0.03 + 3 * 2.5"),
    ("9a0354a2b3d072c1", "gemini", "847 * 0.3 + 3765 * 0.03 + 3 * 2.5"),
    ("980600fb21a0c06c", "gemini", "331 * 0.3 + 2917 * 0.03 + 36 * 1 + 122 * 2.5"),
    ("abc8c548c4ef09aa", "gemini", "125 * 0.3 + 51 * 2.5"),
    ("c3945364ade630ea", "gemini", "504 * 0.3 + 469 * 2.5"),
    ("c542587b2448041a", "gemini", "215 * 0.3 + 84 * 2.5"),
    ("a78cb33916f6102c", "gemini", "161 * 0.5 + 93 * 3"),
    ("b37b3afffaea07b0", "groq", "1041 * 0.59 + 36 * 0.79"),
    ("a69541f7cba94693", "groq", "765 * 0.59 + 10 * 0.79"),
    ("6cdc06a3247fc54e", "groq", "1045 * 0.59 + 34 * 0.79"),
    ("dab046680d0afb46", "groq", "409 * 0.59 + 21 * 0.79"),
    ("17d8e8f34f87c4a3", "openai", "16 * 0.6 + 37 * 10 + 123 * 2.4"),
    ("c479142868e71f2b", "openai", "16 * 0.6 + 4 * 10 + 49 * 2.4"),
    ("2aa9688acb1a51fb", "openai", "14 * 0.6 + 17 * 2.4 + 51 * 20"),
    ("15152bcedf7fffd9", "openai", "68 * 2.5 + 1152 * 1.25 + 100 * 10"),
    ("6930dae85c5f1d46", "openai", "261 * 0.15 + 22 * 0.6"),
    ("2d980b97bb1c1aa9", "openai", "378 * 0.05 + 2456 * 0.4"),
    ("a9c39181ed25d195", "openai", "68 * 2.5 + 17 * 10"),
    ("7e4215efa7ffe181", "openai", "56 * 0.15 + 17 * 0.6"),
    ("55eb8e859c9565d1", "openai", "8 * 0.025 + 368 * 0.2"),
    ("af3faa64829f427c", "openai", "8 * 2.5 + 82 * 20"),
    ("50e6d12aa6a941ca", "openai", "8 * 2.5 + 11 * 20"),
    ("7f9700eb06a3125b", "openai-responses", "39 * 1.25 + 2048 * 0.125 + 124 * 10"),
    ("211e67e40a99bb2d", "openai-responses", "112 * 0.15 + 4352 * 0.075 + 48 * 0.6"),
    ("343837bc8fae0279", "openai-responses", "125 * 2.5 + 1390 * 1.25 + 8 * 10"),
    ("29ad982272ab46a4", "openai-responses", "12 * 0.15 + 91 * 0.6"),
    ("5c437634cd765fd2", "openai-responses", "34 * 2.5 + 14 * 10"),
    ("c67cc4db355ee84b", "openai-responses", "108 * 2.5 + 14 * 10"),
    ("b794eaabfd37edbf", "openai-responses", "325 * 2.5 + 190 * 10"),
    ("8688bed5baca58f7", "openai-responses", "53 * 0.625 + 469 * 5"),
    ("657fced8613bb1ed", "openai-responses", "8 * 2.5 + 15 * 20"),
    ("0b327ffc162feb63", "openai-responses", "8 * 2.5 + 70 * 20"),
    ("12cb3cf3358fa4b2", "openai-responses", "13 * 5 + 5 * 30"),
    ("34ce1d027de28361", "vertex", "13 * 0.3 + 100 * 1 + 32 * 2.5"),
    ("58d7a36a86340d64", "vertex", "9 * 0.1 + 150 * 0.7 + 19 * 0.4"),
    ("f4605c6d3c06a510", "vertex", "780 * 0.5 + 250 * 1 + 519 * 3"),
    ("eef6d09ac5b1fdbd", "vertex", "9 * 0.1 + 150 * 0.7 + 22 * 0.4"),
    ("c3a4d3b9280ab932", "vertex", "140 * 0.5 + 80 * 1 + 282 * 3"),
    ("b54b909fe0ad2c9e", "vertex", "11 * 0.3 + 9602 * 0.03 + 72 * 2.5"),
    ("ec03a7ddaee0edad", "vertex", "22 * 0.5 + 761 * 3"),
    ("765b10e1d0e599e7", "vertex", "7 * 0.3 + 24 * 2.5"),
    ("e0630499c3901b89", "vertex", "318 * 0.3 + 22 * 2.5"),
    ("8d4dc0dfda39c9a4", "vertex", "174 * 0.3 + 62 * 2.5"),
    ("d7b0ffc43e9390f6", "anthropic", "404500 * 6 + 943 * 22.5 + 11 * 10000"),
    ("ec1c9e700d9e1c0c", "anthropic", "401468 * 6 + 792 * 22.5 + 11 * 10000"),
    ("1472507b3f52994c", "anthropic", "482529 * 6 + 1310 * 22.5 + 4 * 10000"),
    ("061225c28839d79e", "anthropic", "494549 * 6 + 1245 * 22.5 + 4 * 10000"),
)


@cache
def recorded_replies() -> dict[str, Reply]:
    """Return the replies of the table, as our codecs read them."""
    wanted = {name: preset for name, preset, _ in COSTS}
    found: dict[str, Reply] = {}
    with gzip.open(corpus() / "wire.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            name = line[8:24]
            if name not in wanted:
                continue
            preset = PRESETS[wanted[name]]
            response = json.loads(line)["response"]
            codec = load_codec(preset.wire, preset.profile)
            kind = (response["headers"] or {}).get("content-type") or ""
            deltas = read_deltas(codec, response["body"].encode(), kind, preset.name)
            found[name] = assemble_deltas(deltas, preset.wire, preset.profile).reply
    return found


@pytest.mark.parametrize(("name", "preset", "by_hand"), COSTS)
def test_a_recorded_reply_costs_what_a_person_computes(
    name: str, preset: str, by_hand: str
) -> None:
    reply = recorded_replies()[name]
    factors = [term.split(" * ") for term in by_hand.split(" + ")]
    wanted = sum(int(count) * Decimal(price) for count, price in factors) / 1_000_000
    for prices in (Prices(TABLE), Prices.known(TABLE)):
        cost = prices.cost_of(PricedModel("", reply.model, preset), reply.usage, reply.tier)
        assert (cost.amount, cost.known) == (wanted, True)
    if not reply.usage.hosted_calls:  # which published prices do not tell apart
        known = Prices.known().cost_of(
            PricedModel("", reply.model, preset), reply.usage, reply.tier, at=1_795_000_000.0
        )
        assert (known.amount, known.known) == (wanted, True)


def test_the_table_has_every_kind_of_price() -> None:
    used = list(recorded_replies().values())
    for field in ("cached_input", "cache_write", "cache_write_1h", "audio_input", "audio_output"):
        assert any(getattr(reply.usage, field) for reply in used), field
    assert {reply.tier for reply in used} == {"", "flex", "priority"}
    assert max(reply.usage.input for reply in used) > 400_000
    assert any(reply.usage.hosted_calls for reply in used)
    assert len(COSTS) >= 60
