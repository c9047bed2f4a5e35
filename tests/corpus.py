"""Recorded traffic for replay: rows of one dialect, ways to cut a body, and a table of what was seen.

The corpus is no part of this repository: it is found through HOLDFAST_CORPUS, or beside the
checkout. Tests that need it skip, and say so, where it is absent.
"""

import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """One interaction of the corpus."""

    id: str
    provider: str
    dialect: str
    stream: bool
    kinds: tuple[str, ...]
    request: dict[str, Any] | None
    status: int
    headers: dict[str, str]
    framing: str
    truncated: bool
    body: bytes
    notes: tuple[str, ...]

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type") or ""


def corpus() -> Path:
    """Where the recorded traffic is; skips, and says so, where it is absent."""
    place = Path(os.environ.get("HOLDFAST_CORPUS", ROOT.parent / "shared" / "corpus"))
    if not (place / "wire.jsonl.gz").exists():
        pytest.skip(f"SKIPPED WITHOUT EVIDENCE: no recorded traffic at {place}")
    return place


def every_row() -> Iterator[Row]:
    """All of it, one row at a time."""
    with gzip.open(corpus() / "wire.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield _row(json.loads(line))


@cache
def rows(dialect: str) -> tuple[Row, ...]:
    """Every row of a dialect, whoever the provider was."""
    found = []
    with gzip.open(corpus() / "wire.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            if f'"dialect": "{dialect}"' in line or f'"dialect":"{dialect}"' in line:
                row = json.loads(line)
                if row["dialect"] == dialect:
                    found.append(_row(row))
    return tuple(found)


def _row(row: dict[str, Any]) -> Row:
    response = row["response"]
    body = response["body"]
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    return Row(
        id=row["id"],
        provider=row["provider"],
        dialect=row["dialect"],
        stream=bool(row["stream"]),
        kinds=tuple(row["kinds"] or ()),
        request=row["request"],
        status=response["status"],
        headers=response["headers"] or {},
        framing=response["framing"],
        truncated=bool(response["truncated"]),
        body=text.encode(),
        notes=tuple(row["notes"] or ()),
    )


def byte_by_byte(body: bytes) -> Iterator[bytes]:
    for at in range(len(body)):
        yield body[at : at + 1]


def at_random(body: bytes, seed: str, longest: int = 400) -> Iterator[bytes]:
    """Pieces of random length, the same for the same seed."""
    rng = random.Random(seed)
    at = 0
    while at < len(body):
        size = rng.choice((1, 2, 3, rng.randint(4, longest)))
        yield body[at : at + size]
        at += size


class Table:
    """Counts of what a replay met, printed at its end."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.counts: Counter[tuple[object, ...]] = Counter()

    def add(self, *values: object) -> None:
        self.counts[values] += 1

    def __str__(self) -> str:
        lines = ["  ".join(("rows".rjust(6), *self.columns))]
        for values, count in sorted(self.counts.items(), key=lambda item: (-item[1], str(item[0]))):
            lines.append("  ".join((str(count).rjust(6), *(str(value) for value in values))))
        return "\n".join(lines)
