"""Every protocol sends the recorded bytes of the recorded turns."""

from __future__ import annotations

import pytest
from tests.server.protocols.recorded_turns import TEXTS, read_turns, word_turns

PROTOCOLS = ("agui", "chat", "responses", "told_turn", "timeline", "vercel")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return word_turns(read_turns())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_sends_the_recorded_bytes(texts: dict[str, str], protocol: str) -> None:
    recorded = (TEXTS / f"{protocol}.txt").read_text(encoding="utf-8")
    assert texts[protocol].splitlines() == recorded.splitlines()


def test_no_protocol_is_left_out(texts: dict[str, str]) -> None:
    assert sorted(texts) == sorted(PROTOCOLS)
    assert sorted(file.stem for file in TEXTS.glob("*.txt")) == sorted(PROTOCOLS)
