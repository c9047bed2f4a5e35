"""The public API: its snapshot, its lazy table and its import cost."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from scripts import public_api

import holdfast

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
LAZY = [name for name in public_api.NAMESPACES if name != "holdfast.testing.emulator"]
"""The namespaces that import a name when it is asked for."""


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


@pytest.mark.parametrize("name", LAZY)
def test_type_checkers_see_what_the_lazy_table_says(name: str) -> None:
    module = importlib.import_module(name)
    seen = {}
    for node in ast.parse(Path(str(module.__file__)).read_text("utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in ast.walk(node):
                if isinstance(line, ast.ImportFrom) and line.module != "collections.abc":
                    seen |= {alias.asname: line.module for alias in line.names}
    assert seen == module._HOME
    assert list(module._HOME) == sorted(module._HOME)


def test_a_module_with_public_names_is_a_namespace() -> None:
    found = {
        ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        for path in [*(SRC / "holdfast").rglob("__init__.py"), *(SRC / "holdfast").glob("*.py")]
        if "__all__" in path.read_text("utf-8")
    }
    assert found == set(public_api.NAMESPACES)


def test_no_module_of_a_room_hides_a_public_name() -> None:
    """To import `holdfast.tools.tool` sets `holdfast.tools.tool` to the module."""
    for module in public_api.public_modules():
        files = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}
        assert not files & set(module.__all__), module.__name__


def test_the_top_holds_what_most_programs_need_and_no_more() -> None:
    assert len(holdfast.__all__) <= 70


def test_only_compat_names_the_systems_that_it_spells() -> None:
    """Elsewhere the source of a rule is a vendor's document or a decision record."""
    found = [
        path.relative_to(SRC).as_posix()
        for path in (SRC / "holdfast").rglob("*.py")
        if path.relative_to(SRC / "holdfast").parts[0] not in ("compat", "resilience")
        and re.search(r"\bseeds? 00\d|\bthe seed's\b", path.read_text("utf-8"))
    ]
    assert found == []


def test_a_name_means_the_same_in_every_namespace() -> None:
    meanings: dict[str, set[int]] = {}
    for module in public_api.public_modules():
        for name in module.__all__:
            meanings.setdefault(name, set()).add(id(getattr(module, name)))
    assert [name for name, values in meanings.items() if len(values) > 1] == []


@pytest.mark.slow  # takes half a second or more
def test_inside_the_package_only_the_namespaces_import_the_package_itself() -> None:
    importers = {
        path.relative_to(SRC / "holdfast").as_posix()
        for path in (SRC / "holdfast").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module == "holdfast"
        and [name.name for name in node.names] != ["__version__"]
    }
    spelled = {name.removeprefix("holdfast.").replace(".", "/") for name in LAZY[1:]}
    assert {name.removesuffix("/__init__.py").removesuffix(".py") for name in importers} == spelled


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = holdfast.Nothing


def test_a_lazy_name_is_looked_up_once() -> None:
    module: dict[str, object] = {"__name__": "numbers_of_mine"}
    names, find_name, _ = holdfast.lazy_names(
        module, {"Fraction": "fractions", "Absent": "fractions"}
    )
    assert names == ["Absent", "Fraction"]
    assert find_name("Fraction") is module["Fraction"] is Fraction
    with pytest.raises(AttributeError, match="Absent"):
        find_name("Absent")
    with pytest.raises(AttributeError, match="'numbers_of_mine' has no attribute 'Other'"):
        find_name("Other")


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
