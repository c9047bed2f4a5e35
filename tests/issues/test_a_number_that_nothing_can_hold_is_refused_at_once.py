"""A number of a thousand digits raised OverflowError, or was refused first by the journal of a run."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, Limits, ModelSettings
from holdfast.resilience import RetryOptions
from holdfast.testing import ScriptedModel

HUGE = 10**400


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Limits, "seconds"),
        (Limits, "iterations"),
        (ModelSettings, "temperature"),
        (ModelSettings, "seed"),
        (RetryOptions, "retry_delay"),
    ],
)
@pytest.mark.parametrize("number", [HUGE, 10**10_000], ids=["long", "too_long_to_print"])
def test_a_huge_number_is_refused_by_its_name(kind: Any, field: str, number: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"\.{field}: .* a number of \d+ bits"):
        kind(**{field: number})


def test_a_huge_number_is_refused_by_the_agent() -> None:
    with pytest.raises(ConfigurationError, match="tool_timeout"):
        Agent(ScriptedModel("Hi"), tool_timeout=HUGE)
