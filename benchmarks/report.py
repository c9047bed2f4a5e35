"""Rows as a Markdown table, and the files of `results/`.

This module must never write what tells one machine from another: no name, no path, no user.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.runner import Row

RESULTS = Path(__file__).parent / "results"
_HEAD = ("what", "floor", "ours", "ours by floor", "least - most", "at most", "")
_PACKAGES = ("aiohttp", "msgspec")
_TEXT = """\
# Results

Written by `python -m benchmarks --save`. `floor` is aiohttp and msgspec doing the same requests and
reading the same fields with the least code; both sides are medians. The comparison is the median
over pairs of samples taken in turns, with its least and its most. For a paced reply to `run` the floor
is a bare asyncio protocol that appends what the socket has, and for a burst it is openai's client, which
asks for a whole reply. For the deltas of the other wires the floor is Chat Completions; for the objects of the vendors' SDKs it is the budget of seed 004. Of
the twenty built-ins sixteen (idle) and fifteen (working) have hooks; the others are settings.

{versions}

{table}
"""


def table(rows: Iterable[Row]) -> str:
    """The rows as Markdown, columns aligned."""
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def save(rows: Iterable[Row], names: Iterable[str]) -> None:
    """Writes one JSON file a case, and the table of those of `names` that have one."""
    RESULTS.mkdir(exist_ok=True)
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row.case, []).append(row)
    for name, found in by_case.items():
        text = msgspec.json.format(msgspec.json.encode(found), indent=1)
        (RESULTS / f"{name}.json").write_bytes(text + b"\n")
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    text_of_all = _TEXT.format(
        versions=f"{implementation}, {versions}.", table=table(_saved(names))
    )
    (RESULTS / "README.md").write_text(text_of_all)


def _saved(names: Iterable[str]) -> list[Row]:
    files = (RESULTS / f"{name}.json" for name in names)
    return [
        row
        for file in files
        if file.exists()
        for row in msgspec.json.decode(file.read_bytes(), type=list[Row])
    ]


def _cells(row: Row) -> tuple[str, ...]:
    shown = row.shown if row.shown == "x" else f" {row.shown}"
    limit = "" if row.limit is None else f"{row.limit:g}{shown}"
    verdict = "" if row.limit is None else ("over" if row.exceeded else "ok")
    return (
        row.what,
        _amount(row.floor, row.unit),
        _amount(row.ours, row.unit),
        f"{_places(row.middle)}{shown}",
        f"{_places(row.least)} - {_places(row.most)}",
        limit,
        verdict,
    )


def _places(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        for scale, name in ((1.0, "s"), (1e-3, "ms")):
            if value >= scale:
                return f"{value / scale:.3g} {name}"
        return f"{value * 1e6:.3g} us"
    if unit == "B":
        return f"{value / 1e6:.1f} MB" if value >= 1e6 else f"{value / 1e3:.1f} KB"
    return f"{value:.2f}" if value < 1e6 else f"{value / 1e6:.0f} M"
