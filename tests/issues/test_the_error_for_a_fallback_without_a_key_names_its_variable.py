"""A fallback that lacked its key was answered with "pass api_key=", which had been passed.

`api_key` and `base_url` are those of the first model, so whoever followed the advice had the same error
again. Which of the fallbacks was meant was not said either.
"""

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.testing import ScriptedModel


def refused(fallback: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        Agent("openai:first", api_key="made-up", fallback=[ScriptedModel(), fallback])
    return str(raised.value)


def test_it_names_the_fallback_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert refused("anthropic:claude-sonnet-4-5") == (
        "fallback[1]: ANTHROPIC_API_KEY is not set, and anthropic needs a key. "
        "Write ModelAt('anthropic:claude-sonnet-4-5', api_key=...), or export ANTHROPIC_API_KEY=..."
    )


def test_an_address_that_a_fallback_cannot_have_is_not_asked_for() -> None:
    assert refused("azure:my-deployment") == (
        "fallback[1]: azure needs a URL with resource filled in. "
        "Write ModelAt('azure:my-deployment', base_url=...)"
    )


def test_an_unknown_provider_is_told_as_ever() -> None:
    assert refused("opanai:gpt-5.2").startswith("fallback[1]: unknown provider 'opanai'. did you")
