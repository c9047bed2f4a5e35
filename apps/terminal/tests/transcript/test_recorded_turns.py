"""The transcript of the turns that every protocol is compared with.

`python apps/terminal/tests/transcript/test_recorded_turns.py` writes the recorded blocks again, after a change that
the transcript is meant to have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from adh.transcript.blocks import ToolBlock
from adh.transcript.fold import Transcript
from holdfast import Event

TURNS = Path(__file__).parents[4] / "tests" / "golden" / "turns" / "turns.jsonl"
BLOCKS = Path(__file__).with_name("recorded_blocks.txt")


def show_turn(line: bytes) -> list[str]:
    """Return the blocks and the end of a recorded turn, a line each."""
    turn: dict[str, Any] = msgspec.json.decode(line)
    transcript = Transcript(price=lambda usage: usage.total / 1000)
    for item in turn["items"]:
        if item["type"] == "event":
            event: Event = msgspec.convert(item["event"], Event)  # type: ignore[arg-type]
            transcript.apply(event, event.at)
    lines = [f"== {turn['name']}"]
    for block in transcript.blocks:
        header = f"{block.header} " if isinstance(block, ToolBlock) else ""
        fields = msgspec.json.encode(block, enc_hook=list).decode()
        lines.append(f"{type(block).__name__}: {header}{fields}")
    outcome = msgspec.json.encode(transcript.outcome).decode()
    return [*lines, f"{transcript.usage.total} tokens, {transcript.cost}: {outcome}"]


def show_turns() -> list[str]:
    return [line for turn in TURNS.read_bytes().splitlines() for line in show_turn(turn)]


def test_the_blocks_of_every_turn_are_the_recorded_ones() -> None:
    assert show_turns() == BLOCKS.read_text("utf-8").splitlines()


if __name__ == "__main__":
    BLOCKS.write_text("\n".join([*show_turns(), ""]), encoding="utf-8")
