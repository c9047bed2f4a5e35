"""Keys that were written where they do not belong, or into an address, were shown in full.

A header that was written as one text came back in the error, with its key. A password in `base_url`,
which HTTP allows, was in `describe()` and in every `repr`.
"""

from __future__ import annotations

import pytest

from holdfast import Agent, ConfigurationError, ModelAt
from holdfast.models.resolve import resolve_model
from holdfast.transport.http import HttpTransport

KEY = "8f7a6b5c4d3e2f1a"
ADDRESS = f"https://bob:{KEY}@gateway.example/v1"


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (f"X-Gateway: {KEY}", "'X-Gateway' with a value"),
        (f"Authorization:Bearer {KEY}", "'Authorization' with a value"),
        (f"Bearer {KEY}", "a text of 23 characters that may be a key"),
    ],
)
def test_in_the_error_of_a_header(header: str, shown: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ModelAt("openai:a", headers={header: ""})
    assert str(raised.value) == f"headers: {shown} is not a header name"


def test_in_what_describes_a_model() -> None:
    place = ModelAt("ollama:a", base_url=ADDRESS)
    model = resolve_model(place, HttpTransport)
    agent = Agent("ollama:a", base_url=ADDRESS)
    for shown in (repr(place), repr(model), str(model.describe()), repr(agent), agent.describe()):
        assert KEY not in shown
    assert "https://[redacted]@gateway.example/v1" in agent.describe()


def test_in_the_error_of_an_address() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("openai:a", api_key="k", base_url=f"wss://bob:{KEY}@gateway.example/v1")
    assert KEY not in str(raised.value)
