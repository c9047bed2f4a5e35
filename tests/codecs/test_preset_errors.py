"""Every preset's refusals have the right category, by the table of its own wire."""

import pytest
from tests.codecs.bodies import failure, name
from tests.codecs.preset_errors import CASES

from holdfast.codecs.anthropic.errors import classify as classify_anthropic
from holdfast.codecs.gemini.errors import classify as classify_gemini
from holdfast.codecs.openai_chat.errors import classify as classify_chat
from holdfast.codecs.openai_responses.errors import classify as classify_responses
from holdfast.models import presets

CLASSIFY = {
    "openai_chat": classify_chat,
    "openai_responses": classify_responses,
    "anthropic": classify_anthropic,
    "gemini": classify_gemini,
}
# The same servers as a preset with cases of its own, at another address.
ALIKE = {
    "xai-responses": "xai",
    "azure-responses": "azure",
    "deepseek-beta": "deepseek",
    "vertex-express": "vertex",
    "sglang": "vllm",  # the same forms of errors
}


def test_the_words_of_a_preset_mean() -> None:
    found = [
        (name(case), CLASSIFY[presets.PRESETS[case[0]].wire](failure(case)).category.value, case[3])
        for case in CASES
    ]
    assert [row for row in found if row[1] != row[2]] == []


def test_no_preset_is_without_cases() -> None:
    known = {provider for provider, *_ in CASES}
    assert {ALIKE.get(preset, preset) for preset in presets.PRESETS} <= known


@pytest.mark.parametrize(("alike", "origin"), ALIKE.items())
def test_another_address_of_the_same_server_means_the_same(alike: str, origin: str) -> None:
    wire = presets.PRESETS[alike].wire
    for case in (one for one in CASES if one[0] == origin):
        moved = (alike, *case[1:])
        assert CLASSIFY[wire](failure(moved)).category.value == case[3], case
