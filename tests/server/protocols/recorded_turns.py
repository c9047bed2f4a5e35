"""Recorded turns of every kind, and the text that each protocol makes of them.

`python -m tests.server.protocols.recorded_turns` writes the texts to `tests/golden/turns` again, after a change
that a protocol is meant to have. `record_turns.py` records the turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.server.protocols.told import project, saved_items, show_items, tell

from holdfast.cli.timeline import build_timeline
from holdfast.event_log.stream_items import EventItem, StreamItem
from holdfast.journal.encoding import to_json
from holdfast.journal.port import Record
from holdfast.models import Prices
from holdfast.server.protocols.agui.message_list import MessageList, list_messages
from holdfast.server.protocols.agui.projection import AguiProjection
from holdfast.server.protocols.chat.projection import ChatFailure, ChatProjection
from holdfast.server.protocols.openai_shapes import SegmentName
from holdfast.server.protocols.segments import Hold, split_turn
from holdfast.server.protocols.vercel.projection import VercelProjection
from holdfast.server.protocols.vercel.ui_messages import read_history

TEXTS = Path(__file__).parents[2] / "golden" / "turns"
TURNS = TEXTS / "turns.jsonl"


class RecordedTurn(msgspec.Struct, frozen=True):
    """A turn as a live reader of the service gets it."""

    name: str
    items: tuple[StreamItem, ...]


def read_turns() -> list[RecordedTurn]:
    """Return the recorded turns."""
    lines = TURNS.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=RecordedTurn) for line in lines]


def word_turns(turns: Iterable[RecordedTurn]) -> dict[str, str]:
    """Return the text that each protocol makes of turns, by the name of the protocol."""
    texts: dict[str, list[str]] = {}
    for turn in turns:
        events = [one.event for one in turn.items if isinstance(one, EventItem)]
        records = [Record(event) for event in events]
        told = [split_turn(events, hold) for hold in ("no", "output")]
        timeline = build_timeline(records, Prices({"*": {"input": 3, "output": 15}}))
        worded = (
            *(("live", *one) for one in _word_items(turn.items, "no")),
            *(("saved", *one) for one in _word_items(saved_items(events), "accepted")),
            ("history", "agui", list_messages("ada", records)),
            ("history", "vercel", read_history("ada", records, {"weather"})),
            ("history", "told_turn", told),
            ("history", "timeline", timeline),
        )
        for source, protocol, lines in worded:
            text = texts.setdefault(protocol, [])
            text.append(f"== {turn.name}, {source}")
            text += [to_json(line).decode() for line in lines]
    return {protocol: "\n".join([*lines, ""]) for protocol, lines in texts.items()}


def _word_items(items: Sequence[StreamItem], hold: Hold) -> Iterator[tuple[str, Iterable[Any]]]:
    shown = show_items(items)
    agui = AguiProjection("ada", "r1", MessageList("ada"))
    yield "agui", [*agui.start([]), *(event for one in shown for event in agui.feed(one))]
    vercel = VercelProjection("ada", 1, {"weather"})
    yield "vercel", [vercel.start(), *(event for one in shown for event in vercel.feed(one, "1"))]
    for segment in (0, 1):
        told = tell(items, segment, hold)
        if told:
            yield "responses", project(items, segment, hold=hold)
            yield "chat", _word_chat(told, segment)


def _word_chat(told: Sequence[Any], segment: int) -> Iterator[Any]:
    chat = ChatProjection(SegmentName("ada", 1, segment), has_usage=True)
    for event in told:
        for line in chat.feed(event):
            yield line.to_json() if isinstance(line, ChatFailure) else line
    yield chat.build_completion()


def write_texts() -> None:
    """Write the texts of all protocols."""
    for protocol, text in word_turns(read_turns()).items():
        (TEXTS / f"{protocol}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_texts()
