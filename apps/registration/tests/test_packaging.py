"""The service is a distribution of its own, and names what it needs."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

APPLICATION = Path(__file__).resolve().parents[1]


def test_the_installed_distribution_needs_what_its_project_file_says() -> None:
    project = tomllib.loads((APPLICATION / "pyproject.toml").read_text("utf-8"))["project"]
    installed = [need for need in requires("holdfast-registration") or [] if "extra ==" not in need]
    assert sorted(map(read_name, installed)) == sorted(map(read_name, project["dependencies"]))


def read_name(requirement: str) -> str:
    """The name of a requirement, with its extras and without its versions."""
    return re.split(r"[\[<>=!~; ]", requirement)[0]


def test_every_package_that_is_imported_is_named() -> None:
    project = tomllib.loads((APPLICATION / "pyproject.toml").read_text("utf-8"))["project"]
    needs = project["dependencies"] + project["optional-dependencies"]["postgres"]
    modules = {
        "pillow": "PIL",
        "pillow-heif": "pillow_heif",
        "python-dateutil": "dateutil",
        "python-multipart": "python_multipart",
    }
    named = {modules.get(read_name(need), read_name(need)) for need in needs}
    assert set(find_imports()) - sys.stdlib_module_names - {"registration"} <= named


def find_imports() -> Iterator[str]:
    """The packages that the service imports, anywhere in its modules."""
    for module in (APPLICATION / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]
