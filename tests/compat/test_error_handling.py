"""The record of seed 000: its defaults, and the keywords of `Agent` that mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.compat.error_handling_config import ErrorHandling
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import ScriptedModel


def test_the_defaults_are_those_of_an_agent_that_says_nothing() -> None:
    handling = ErrorHandling()
    assert handling.agent_keywords() == {
        "retry": RetryOptions(),
        "tool_timeout": None,
        "detailed_errors": False,
    }
    assert handling.max_retries == 3
    assert handling.retry_delay == 1.0
    assert handling.max_retry_delay == 30.0
    assert handling.backoff_multiplier == 2.0


def test_every_setting_reaches_the_agent() -> None:
    given: dict[str, Any] = {
        "normalize_errors": False,
        "include_provider_details": True,
        "max_retries": 1,
        "retry_delay": 2.0,
        "use_provider_retry_delays": False,
        "refresh_credentials": print,
        "max_retry_delay": 9.0,
        "backoff_multiplier": 3.0,
        "max_retries_by_category": {},
        "provider_handler": None,
        "custom_retry": print,
    }
    handling = ErrorHandling(function_timeout=5, include_detailed_errors_in_chat=True, **given)
    plan = Agent(ScriptedModel(), **handling.agent_keywords())._engine.plan
    assert plan.tool_calls.retry == RetryOptions(**given)
    assert plan.tool_calls.tool_timeout == 5
    assert plan.tool_calls.detailed_errors is True
    own = {"function_timeout", "include_detailed_errors_in_chat"}
    assert set(ErrorHandling.__struct_fields__) == {*given, *own}


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"function_timeout": 0}, "error_handling.function_timeout"),
        ({"include_detailed_errors_in_chat": None}, "include_detailed_errors_in_chat"),
        ({"max_retries": -1}, "max_retries"),
    ],
)
def test_a_bad_setting_is_named(bad: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ErrorHandling(**bad)


@pytest.mark.parametrize(
    "bad", [{"tool_timeout": 0}, {"tool_timeout": "1"}, {"detailed_errors": 1}]
)
def test_the_keywords_of_an_agent_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        Agent(ScriptedModel(), **bad)
