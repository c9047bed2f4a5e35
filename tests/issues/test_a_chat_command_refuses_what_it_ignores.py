"""`/undo 3` in `holdfast chat` undid one turn, and other commands ignored what was typed behind them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.terminal import holdfast

from holdfast.testing import Emulator


@pytest.mark.parametrize("command", ["/help", "/tools", "/undo", "/retry", "/quit", "/exit"])
def test_an_argument_too_many_is_refused(emulator: Callable[..., Emulator], command: str) -> None:
    provider = emulator()
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    done = holdfast("chat", *address, said=f"Hello?\n{command} 3\n")
    assert done.stdout == "You said: Hello?\n"
    assert f"✗ {command}: takes no argument. Type {command} alone" in done.stderr
    assert "forgot" not in done.stderr
    assert len(provider.requests) == 1
