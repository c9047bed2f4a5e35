"""The emulator gives a reply again after a line that cannot be read, as after other damaged replies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Agent
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import GarbageLine


@pytest.mark.parametrize("wire", ["openai", "openai-responses", "anthropic", "gemini"])
def test_the_reply_comes_again(
    emulator: Callable[..., Emulator], fake_clock: FakeClock, wire: str
) -> None:
    provider = emulator(["first", "second"], faults=[GarbageLine()])
    known = wire if wire in ("anthropic", "gemini") else "openai_chat"
    agent = Agent(
        f"{wire}:any", base_url=provider.base_url_for(known), api_key="any", clock=fake_clock
    )
    assert agent.run_sync("Hello?").output == "first"
    assert len(provider.requests) == 2
