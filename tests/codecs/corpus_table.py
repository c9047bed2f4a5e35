"""The table of recorded traffic: what every wire was replayed on, and what became of each row.

usage: python -m tests.codecs.corpus_table --write | --check

Without the corpus there is nothing to count: the page stays as it is.
"""

import sys
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

import pytest
from tests.codecs.anthropic import bodies as anthropic
from tests.codecs.anthropic import independent_reader as anthropic_reader
from tests.codecs.anthropic import test_replay as anthropic_replay
from tests.codecs.gemini import bodies as gemini
from tests.codecs.gemini import independent_reader as gemini_reader
from tests.codecs.gemini import test_replay as gemini_replay
from tests.codecs.openai_chat import bodies as chat
from tests.codecs.openai_chat import test_replay as chat_replay
from tests.codecs.openai_responses import bodies as responses
from tests.codecs.openai_responses import independent_reader as responses_reader
from tests.codecs.openai_responses import test_replay as responses_replay
from tests.corpus import ROOT, Row, every_row

from holdfast.core.messages import ReplyKind

PAGE = ROOT / "docs" / "reference" / "recorded-traffic.md"
OPENING, CLOSING = "<!-- generated: recorded traffic -->\n", "<!-- end -->"
HEAD = ("wire", "mode", "rows", "decoded", "refused", "skipped", "why skipped")
OTHERS = "no wire of Holdfast's"
DECODED, REFUSED = "decoded", "refused"


class Line(NamedTuple):
    """One line of the table."""

    wire: str
    mode: str
    rows: int
    decoded: int
    refused: int
    skipped: int
    why: str


def of_chat(row: Row) -> str:
    assembled = chat.read(row.body, row.content_type)
    if (row.status or 200) >= 300:
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        return REFUSED
    chat_replay.compare(chat_replay.Reading(row), assembled)
    return DECODED


def of_responses(row: Row) -> str:
    assembled, told = responses.read(row.body), responses_reader.reading(row.body)
    if told is None or told.status in ("failed", "queued"):
        assert assembled.reply.kind in (ReplyKind.ERROR_REPLY, ReplyKind.NOT_A_REPLY)
        return REFUSED
    responses_replay.compare(row, told, assembled)
    return DECODED


def of_anthropic(row: Row) -> str:
    assembled, told = anthropic.read(row.body), anthropic_reader.message(row.body)
    if told is None:
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        return REFUSED
    anthropic_replay.compare(row, told, assembled)
    return DECODED


def of_gemini(row: Row) -> str:
    assembled, objects = (
        gemini.read(row.body, row.content_type, "gemini"),
        gemini_reader.chunks(row.body),
    )
    if objects is None:
        assert assembled.reply.kind is ReplyKind.NOT_A_REPLY
        return REFUSED
    reading = gemini_reader.Reading(objects)
    gemini_replay.compare(row, reading, assembled)
    return REFUSED if reading.error else DECODED


OURS: dict[str, Callable[[Row], str]] = {
    "openai_chat": of_chat,
    "openai_responses": of_responses,
    "anthropic_messages": of_anthropic,
    "gemini": of_gemini,
}


def lines() -> list[Line]:
    """Every row, replayed; a row that is read in another way than by the small reader raises."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in every_row():
        mode = "streamed" if row.framing in ("sse", "json_array", "ndjson") else "whole"
        replay = OURS.get(row.dialect)
        counts[row.dialect, mode, replay(row) if replay is not None else OTHERS] += 1
    made = []
    keys = sorted(counts, key=lambda key: (key[0] not in OURS, key))
    for (dialect, mode), group in groupby(keys, key=lambda key: key[:2]):
        found = {outcome: counts[dialect, mode, outcome] for _, _, outcome in group}
        skipped = sum(found.values()) - found.get(DECODED, 0) - found.get(REFUSED, 0)
        why = "; ".join(name for name in found if name not in (DECODED, REFUSED))
        made.append(
            Line(
                dialect,
                mode,
                sum(found.values()),
                found.get(DECODED, 0),
                found.get(REFUSED, 0),
                skipped,
                why,
            )
        )
    return made


def table(found: list[Line]) -> str:
    """The lines as Markdown, with their sum for the wires of Holdfast's own."""
    ours = [line for line in found if not line.skipped]
    total = Line("all four", "", *(sum(line[at] for line in ours) for at in (2, 3, 4, 5)), "")
    shown = [
        [f"{cell:,}" if isinstance(cell, int) else cell for cell in line]
        for line in (*ours, total, *(line for line in found if line.skipped))
    ]
    rule = "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    return (
        "\n".join(
            [
                "| " + " | ".join(HEAD) + " |",
                rule,
                *("| " + " | ".join(line) + " |" for line in shown),
            ]
        )
        + "\n"
    )


def filled(page: str) -> str:
    """The page with the table of today."""
    before, opening, rest = page.partition(OPENING)
    _, closing, after = rest.partition(CLOSING)
    assert opening
    assert closing
    return f"{before}{opening}\n{table(lines())}\n{closing}{after}"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is current."""
    try:
        wanted = filled(PAGE.read_text("utf-8"))
    except pytest.skip.Exception as reason:
        print(f"{PAGE.name} is left as it is: {reason}")
        return 0
    if arguments == ["--write"]:
        PAGE.write_text(wanted, "utf-8")
        return 0
    return int(wanted != PAGE.read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
