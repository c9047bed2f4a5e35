"""The table of behaviors names every row of the seeds once, and only tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "seed-behaviors.md"
ROWS = {"000": 126, "001": 61, "002": 133, "003": 69, "004": 70}
"""The number of behaviors that each seed describes."""

ROW = re.compile(r"^\| (\d{3})-(\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
TABLE = ROW.findall(PAGE.read_text("utf-8"))


@cache
def find_tests(path: str) -> frozenset[str]:
    """Return the names of the tests of a file, those of a class as `Class::test`."""
    found: set[str] = set()
    for node in ast.parse((TESTS / path).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            functions = [one for one in node.body if isinstance(one, Function)]
            found |= {f"{node.name}::{one.name}" for one in functions}
        elif isinstance(node, Function):
            found.add(node.name)
    return frozenset(name for name in found if name.split("::")[-1].startswith("test_"))


Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_every_behavior_is_listed_once() -> None:
    assert {seed: sum(row[0] == seed for row in TABLE) for seed in ROWS} == ROWS
    numbers = [row[:2] for row in TABLE]
    assert len(set(numbers)) == len(numbers) == sum(ROWS.values())
    assert numbers == sorted(numbers, key=lambda one: (one[0], int(one[1])))


def test_each_named_test_exists() -> None:
    proofs = {proof.strip("`") for row in TABLE for proof in row[3].split(", ")}
    named = [proof.partition("::") for proof in sorted(proofs)]
    assert [path + "::" + name for path, _, name in named if name not in find_tests(path)] == []


def test_every_difference_is_marked() -> None:
    marked = [row for row in TABLE if row[2].startswith("differs: ")]
    assert len(marked) >= 15
    named = (PAGE.parent / "from-the-seeds.md").read_text("utf-8").partition("## Differences")[2]
    for seed in {row[0] for row in marked}:
        assert re.search(rf"^\| [\d, ]*{seed}", named, re.MULTILINE), seed
