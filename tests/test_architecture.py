"""What keeps the code in its shape: layers, budgets, docstrings, and documents that match the code."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scripts import tree

pytestmark = pytest.mark.slow  # reads every file; `./run check` runs it

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
MODULES = sorted(PACKAGE.rglob("*.py"))
REGISTRATION = ROOT / "apps" / "registration" / "src" / "registration"
TERMINAL = ROOT / "apps" / "terminal" / "src" / "adh"
WITH_APPLICATIONS = MODULES + sorted(REGISTRATION.rglob("*.py")) + sorted(TERMINAL.rglob("*.py"))

FILE_LINES = 700  # a longer file is more than one subject, or stands below with its reason
LONG_FILES: dict[str, str] = {}
LOOP_LINES = 80  # of the loop itself, which is to be read first
ROOMS_WITHOUT_PURPOSE = {"utils", "util", "helpers", "common", "base", "manager", "misc"}
GENERATED_OR_BUILT = {
    ".git",
    ".hypothesis",
    ".tools",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "node_modules",
}
TEXT = {
    "",
    ".cfg",
    ".in",
    ".ini",
    ".json",
    ".jsonl",
    ".lock",
    ".md",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".yml",
}


@cache
def parse(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


def percentile_95(sizes: list[int]) -> int:
    return sorted(sizes)[int(len(sizes) * 0.95)] if sizes else 0


def files_of_the_project(folder: Path = ROOT) -> Iterator[Path]:
    for place in folder.iterdir():
        if place.name.endswith("_cache") or place.name in GENERATED_OR_BUILT:
            continue
        if place.is_dir():
            yield from files_of_the_project(place)
        elif place.is_file() and place.suffix in TEXT:
            yield place


def test_imports_keep_the_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_is_too_long(record_property: Any) -> None:
    sizes = {
        str(file.relative_to(ROOT)): file.read_text("utf-8").count("\n")
        for file in WITH_APPLICATIONS
    }
    record_property("file_lines_p95", percentile_95(list(sizes.values())))
    print(f"files: {len(sizes)}, lines at p95: {percentile_95(list(sizes.values()))}")
    assert {name for name, size in sizes.items() if size > FILE_LINES} == set(LONG_FILES)


def test_the_loop_is_read_at_a_glance() -> None:
    loop = PACKAGE / "runtime" / "driver.py"
    assert len(loop.read_text().splitlines()) <= LOOP_LINES


def test_no_condition_of_the_runtime_assigns_a_name() -> None:
    assigned = [
        f"{module.relative_to(PACKAGE)}:{inner.lineno}"
        for module in (PACKAGE / "runtime").rglob("*.py")
        for node in ast.walk(parse(module))
        for condition in conditions_of(node)
        for inner in ast.walk(condition)
        if isinstance(inner, ast.NamedExpr)
    ]
    assert assigned == []


def conditions_of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def test_every_module_says_what_it_is() -> None:
    texts = {
        str(module.relative_to(ROOT)): ast.get_docstring(parse(module)) or ""
        for module in WITH_APPLICATIONS
    }
    assert [name for name, text in texts.items() if not text] == []
    first_lines = {name: text.partition("\n")[0] for name, text in texts.items()}
    assert {name: line for name, line in first_lines.items() if line[-1:] not in (".", ":")} == {}


def test_every_room_says_what_it_must_never_do() -> None:
    places = [*PACKAGE.iterdir(), *REGISTRATION.iterdir(), *TERMINAL.iterdir()]
    rooms = [path for path in places if path.is_dir() and any(path.glob("*.py"))]
    for room in rooms:
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8"))) or ""
        assert re.search(r"\bmust (not|never)\b", " ".join(text.split())), room.name


def test_every_folder_of_code_is_a_package() -> None:
    folders = {module.parent for module in WITH_APPLICATIONS}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_room_has_a_purpose() -> None:
    names = {name for module in WITH_APPLICATIONS for name in (module.stem, module.parent.name)}
    assert names & ROOMS_WITHOUT_PURPOSE == set()


def test_the_architecture_document_shows_this_tree_and_these_layers() -> None:
    written = tree.DOCUMENT.read_text("utf-8")
    assert written == tree.filled(written), "ARCHITECTURE.md has drifted; run: ./run generate"


def test_the_tree_has_a_line_for_every_room() -> None:
    shown = tree.tree().splitlines()[1:]
    rooms = {module.parent for module in MODULES} - {PACKAGE}
    top = [module for module in MODULES if module.parent == PACKAGE]
    assert len(shown) == len(rooms) + len(top)
    assert [line for line in shown if len(line.split()) < 2] == []


def test_the_architecture_document_is_short_and_names_files_that_exist() -> None:
    written = tree.DOCUMENT.read_text("utf-8")
    assert len(written.encode()) <= 17 * 1024
    named = set(re.findall(r"[\w/]*/\w+\.py\b", written))
    assert named, "the document names no file"
    missing = [
        name for name in named if not any((root / name).exists() for root in (ROOT, PACKAGE))
    ]
    assert missing == []


CHECKED_BY_HAND = {
    "core/errors.py": "the checks import it",
    "core/type_checks.py": "it is the place of the checks",
    "models/resolve.py": "its fix is an example of a model",
    "runtime/compile.py": "its fixes are examples of lists",
    "runtime/questions/question_checks.py": "no type says that a function is async",
    "runtime/sessions/session_pool.py": "its fix is an example of an address",
    "runtime/turn_state/turn_input.py": "no type says what a prompt is made of",
    "testing/recording.py": "it imports no journal",
    "testing/replaying.py": "it imports no agent",
}


def test_arguments_are_checked_by_their_declared_types() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for call in ast.walk(parse(path))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "ConfigurationError"
        if re.search(r"must be .*got \{type\(", ast.unparse(call))
    }
    assert found <= set(CHECKED_BY_HAND), "declare the type and use core.argument_checks"


def test_the_lock_names_hashes_and_no_addresses() -> None:
    for name in ("requirements.lock", "tools.lock"):
        text = (ROOT / name).read_text("utf-8")
        assert "://" not in text, name
        assert (
            re.search(r"^\s*-", re.sub(r"--hash=sha256:[0-9a-f]{64}", "", text), re.MULTILINE)
            is None
        )
        assert text.count("==") <= text.count("--hash=sha256:"), name


def test_no_file_holds_a_path_of_a_machine() -> None:
    path = re.compile(r"(?<![\w.:/~$}-])/(?:home|root|Users|work|mnt)/[\w.]")
    found = [
        f"{file.relative_to(ROOT)}: {hit.group()}"
        for file in files_of_the_project()
        for hit in path.finditer(file.read_text("utf-8", "replace"))
    ]
    assert found == []
