"""The public face changes on purpose: its snapshot, its lazy table and its import cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import public_api

import holdfast

ROOT = Path(__file__).resolve().parents[2]


def test_the_snapshot_is_the_code() -> None:
    assert public_api.SNAPSHOT.read_text("utf-8") == public_api.render(), (
        "the public face changed; if that is meant: ./run generate, and say so in CHANGELOG.md"
    )


def test_public_names_are_sorted_and_exist() -> None:
    for module in public_api.public_modules():
        names = list(module.__all__)
        assert names == sorted(set(names)), module.__name__
        for name in names:
            assert getattr(module, name) is not None


def test_type_checkers_see_what_the_lazy_table_says() -> None:
    source = Path(holdfast.__file__).read_text("utf-8")
    seen = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in ast.walk(node):
                if isinstance(line, ast.ImportFrom):
                    seen |= {alias.asname: line.module for alias in line.names}
    assert seen == holdfast._HOME
    assert list(holdfast._HOME) == sorted(holdfast._HOME)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = holdfast.Nothing


def test_a_lazy_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(holdfast._HOME, "Snapshot", "fractions")
    monkeypatch.setitem(holdfast._HOME, "Fraction", "fractions")
    try:
        from fractions import Fraction

        assert holdfast.Fraction is Fraction
        assert vars(holdfast)["Fraction"] is Fraction
        with pytest.raises(AttributeError, match="Snapshot"):
            _ = holdfast.Snapshot
    finally:
        vars(holdfast).pop("Fraction", None)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import holdfast; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.split())
    assert loaded <= {"holdfast", "__future__"}, sorted(loaded)


def test_importing_the_agent_and_the_tools_loads_nothing_that_only_a_run_needs() -> None:
    code = "import sys; from holdfast import Agent, tool; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "pydantic", "aiohttp", "ssl", "holdfast.runtime"}
