"""A name means one thing: no two public classes and no two files of the program are called alike."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

FILES = sorted((Path(__file__).parents[1] / "src" / "adh").rglob("*.py"))


def test_each_public_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name
        for file in FILES
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_each_file_has_a_name_of_its_own() -> None:
    names = Counter(file.name for file in FILES if file.name != "__init__.py")
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []
