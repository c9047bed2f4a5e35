"""Each requirement has tests that prove it, and these tests are there."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parents[2]
TABLE: dict[str, dict[str, list[str]]] = tomllib.loads(
    (TESTS / "requirements.toml").read_text(encoding="utf-8")
)
ROWS = [(section, row, tests) for section, rows in TABLE.items() for row, tests in rows.items()]


@cache
def list_functions(path: str) -> frozenset[str]:
    file = next(
        (folder / path for folder in (TESTS, ROOT) if (folder / path).is_file()), TESTS / path
    )
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def test_every_section_has_rows() -> None:
    assert [section.partition(" ")[0] for section in TABLE] == [str(n) for n in range(1, 11)]
    assert all(len(rows) >= 5 for rows in TABLE.values())


@pytest.mark.slow  # takes half a second or more
def test_a_row_has_tests_that_are_there() -> None:
    assert [(section, row) for section, row, tests in ROWS if not tests] == []
    named = {test: test.partition("::") for _, _, tests in ROWS for test in tests}
    assert [
        test for test, (path, _, name) in named.items() if name not in list_functions(path)
    ] == []
    no_tests = {path for path, _, name in named.values() if not name.startswith("test_")}
    assert {path for path in no_tests if not path.startswith("benchmarks/")} == set()
