"""`ErrorResponse("rate_limit", {"retry-after": "7"})` asks for seven seconds, whatever the provider would add."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Agent
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import ErrorResponse, HttpStatus


@pytest.mark.parametrize("name", ["retry-after", "Retry-After"])
@pytest.mark.parametrize("kind", [ErrorResponse, HttpStatus])
def test_the_client_waits_as_long_as_the_test_says(
    emulator: Callable[..., Emulator], fake_clock: FakeClock, kind: type, name: str
) -> None:
    error = "rate_limit" if kind is ErrorResponse else 429
    provider = emulator(["Hello."], faults=[kind(error, {name: "7"})])
    agent = Agent("openai:any", base_url=provider.base_url, api_key="any", clock=fake_clock)
    assert agent.run_sync("Hello?").output == "Hello."
    assert fake_clock.sleeps == [7]
