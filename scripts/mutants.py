"""Changes one operator, constant or branch of a room at a time, and looks whether a test fails: `./run mutants ROOM`.

The tests that reach each line are found once for a room, with the contexts of coverage, and saved under
`build/mutants`. A mutant is compiled in the memory of a process of its own, so that no file is ever
changed. It is killed when a test fails, or when its tests do not end within the limit; what survives is
printed. This script must never write into the work tree outside `build`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "codecs", "resilience", "journal", "runtime", "server")
MORE_TESTS = {
    "core": ("tests/properties", "tests/tools"),
    "codecs": ("tests/wire",),
    "journal": ("tests/properties", "tests/sessions"),
    "runtime": ("tests/middleware", "tests/wire", "tests/test_subagents.py"),
    "server": ("tests/api",),
}
"""The tests of a room beside those of its own folder."""

LIMIT = 60.0  # seconds for a mutant
SHARE_FOR_TESTS = (
    2 / 3
)  # of the limit: the quickest tests up to here are run, by their recorded seconds
MOST_TESTS = 400
SLOWEST_TEST = 10.0
PASSED, FAILED, NO_TESTS = 0, 1, 5  # exit codes of pytest

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
TEXTS = {"fix", "safe", "message", "reason", "name", "detail", "title", "help", "description"}
"""Keyword arguments whose values are read by people."""
LOGS = {"_log", "log", "logger", "logging", "warnings"}


class Mutant(NamedTuple):
    """One change of one file.

    Args:
        file: the file, from the root on.
        index: which of the changes of the file it is.
        line: the line of the change.
        begins: the line where its statement begins.
        old: the expression or statement before.
        new: the same afterwards.
    """

    file: str
    index: int
    line: int
    begins: int
    old: str
    new: str


class Change(NamedTuple):
    """What may be changed in a file: a node, the function that makes the new one, and the statement."""

    node: ast.AST
    make: Callable[[], ast.AST]
    begins: int


class _Collector(ast.NodeVisitor):
    """Finds the nodes that may be changed, in the order of the tree."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._begins = 0

    def visit(self, node: ast.AST) -> None:
        outer = self._begins
        if isinstance(node, ast.stmt):
            self._begins = node.lineno
        super().visit(node)
        self._begins = outer

    def add(self, node: ast.AST, change: Callable[[], ast.AST]) -> None:
        self.changes.append(Change(node, change, self._begins))

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # What nobody's code depends on: annotations, texts for people, and what is only for type checkers.

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit_all([node.value] if node.value else [])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name not in ("__repr__", "__str__"):
            defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
            self.visit_all([*defaults, *node.body])

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # REASON: a name of ast

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.body)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Call(self, node: ast.Call) -> None:
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in LOGS:
            return
        self.visit(node.func)
        self.visit_all(node.args)
        self.visit_all(one.value for one in node.keywords if one.arg not in TEXTS)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        if "__all__" not in names:
            self.generic_visit(node)

    # What is changed.

    def visit_Compare(self, node: ast.Compare) -> None:
        self._swap_operator(node, node.ops, 0)
        self.visit_all([node.left, *node.comparators])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.add(node, lambda: _with(node, op=OPERATORS[type(node.op)]()))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS and not _is_of_types(node) and not _is_of_texts(node):
            self.add(node, lambda: _with(node, op=OPERATORS[type(node.op)]()))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS and not _is_text(node.value):
            self.add(node, lambda: _with(node, op=OPERATORS[type(node.op)]()))
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add(node, lambda: node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, lambda: ast.Constant(not value))
        elif isinstance(value, int | float):
            self.add(node, lambda: ast.Constant(value + 1))

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in (getattr(one, "id", "") for one in ast.walk(node.test)):
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if isinstance(node.test, ast.Constant):
            self.visit_all([*node.body, *node.orelse])
        else:
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._negate(node.guard)
        self.visit_all([*([node.guard] if node.guard else []), *node.body])

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add(node, ast.Break)

    def visit_Break(self, node: ast.Break) -> None:
        self.add(node, ast.Pass)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.generic_visit(node)
        elif isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def _swap_operator(self, node: ast.Compare, ops: list[ast.cmpop], place: int) -> None:
        self.add(node, lambda: _with(node, ops=[OPERATORS[type(ops[place])](), *ops[1:]]))

    def _negate(self, test: ast.expr) -> None:
        """Take the other branch; a comparison and a `not` are changed by themselves."""
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            self.add(test, lambda: ast.UnaryOp(ast.Not(), test))


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    """A copy of a node with other fields."""
    values = {name: getattr(node, name) for name in node._fields} | fields
    return ast.copy_location(type(node)(**values), node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_of_types(node: ast.BinOp) -> bool:
    """Whether `|` makes a union of types."""
    ends = [node.left, node.right]
    return isinstance(node.op, ast.BitOr) and any(
        (isinstance(one, ast.Constant) and one.value is None)
        or (
            isinstance(one, ast.Name)
            and (one.id[:1].isupper() or one.id in ("str", "int", "bytes"))
        )
        or isinstance(one, ast.Subscript)
        for one in ends
    )


def _is_of_texts(node: ast.BinOp) -> bool:
    """Whether an operator joins or formats texts, which fails in any case."""
    return _is_text(node.left) or _is_text(node.right)


class _Replacer(ast.NodeTransformer):
    """Puts a node in place of another one."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def find_changes(source: str) -> tuple[ast.Module, list[Change]]:
    """The tree of a source text, and what may be changed in it."""
    tree = ast.parse(source)
    collector = _Collector()
    collector.visit(tree)
    return tree, collector.changes


def find_mutants(file: Path, root: Path = ROOT) -> list[Mutant]:
    """All mutants of a file."""
    _, changes = find_changes(file.read_text("utf-8"))
    name = str(file.relative_to(root))
    return [
        Mutant(name, index, getattr(node, "lineno", begins), begins, show(node), show(make()))
        for index, (node, make, begins) in enumerate(changes)
    ]


def mutate(source: str, index: int) -> ast.Module:
    """The tree of a source text with one change."""
    tree, changes = find_changes(source)
    node, make, _ = changes[index]
    new = ast.copy_location(make(), node)
    return ast.fix_missing_locations(_Replacer(node, new).visit(tree))


def show(node: ast.AST) -> str:
    """The text of a node, on one line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


class MutantImport(importlib.abc.MetaPathFinder):
    """Imports one module with a change, from memory."""

    def __init__(self, mutant: Mutant, root: Path) -> None:
        self._path, self._index = str(root / mutant.file), mutant.index

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module of the mutant, and leave all others to the other finders."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin != self._path:
            return None
        loader = _MutantLoader(name, self._path, self._index)
        return importlib.util.spec_from_file_location(
            name,
            self._path,
            loader=loader,
            submodule_search_locations=spec.submodule_search_locations,
        )


class _MutantLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, index: int) -> None:
        super().__init__(name, path)
        self._index = index

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # REASON: as importlib calls it
        """Compile the changed tree; no compiled file is read or written."""
        tree = mutate(Path(self.path).read_text("utf-8"), self._index)
        return compile(tree, self.path, "exec", dont_inherit=True)


class Selection:
    """A plugin of pytest that runs certain tests only, the quickest first."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out all other tests."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._seconds),
            key=lambda item: self._seconds[item.nodeid],
        )


class Contexts:
    """A plugin of pytest that records which lines each test reaches, and how long it takes."""

    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Attribute lines to this test from now on."""
        self._coverage.switch_context(nodeid)
        self.seconds[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Attribute lines to nothing."""
        self.seconds[nodeid] = time.monotonic() - self.seconds[nodeid]
        self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that fails or is skipped without a mutant kills none."""
        if not report.passed:
            self.failed.add(report.nodeid)


class Reach(NamedTuple):
    """Which tests reach which lines.

    Args:
        seconds: how long each test takes.
        lines: for each file, the tests of each line.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def select(self, mutant: Mutant, most_seconds: float) -> dict[str, float]:
        """The quickest tests that reach the line of a mutant, of so many seconds together.

        A line that runs at the import of its module has no test of its own: it gets those of the module,
        and those of the room if nothing of the module is called. A line that never runs has none.
        """
        lines = self.lines.get(mutant.file, {})
        own = [line for line in (mutant.line, mutant.begins) if line in lines]
        names = {name for line in own for name in lines[line]}
        if not names and own:
            names = {name for found in lines.values() for name in found} or set(self.seconds)
        chosen, total = {}, 0.0
        for name in sorted(names, key=lambda name: (self.seconds.get(name, SLOWEST_TEST), name)):
            seconds = self.seconds.get(name, SLOWEST_TEST)
            if chosen and (total + seconds > most_seconds or len(chosen) >= MOST_TESTS):
                break
            chosen[name] = seconds
            total += seconds
        return chosen


def pytest_arguments(folder: Path) -> list[str]:
    """The arguments of each run: one process, and all of its files in a folder."""
    # The hook that rewrites assertions would import the package in place of the mutant.
    plain = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options = [*plain, f"--basetemp={folder / 'tests'}"]
    return [*options, "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]


def collect_reach(source: Path, tests: Sequence[str], folder: Path, root: Path) -> Reach:
    """Run tests under coverage, and return which lines of the source they reach."""
    os.chdir(root)
    measured = coverage.Coverage(data_file=None, source=[str(source)], config_file=False)
    contexts = Contexts(measured)
    measured.start()
    code = pytest.main([*pytest_arguments(folder), *tests], plugins=[contexts])
    measured.stop()
    if code not in (PASSED, FAILED):
        raise RuntimeError(f"pytest ended with status {int(code)}")
    data = measured.get_data()
    lines: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        by_line = {
            line: sorted({name for name in names if name} - contexts.failed)
            for line, names in data.contexts_by_lineno(file).items()
        }
        lines[str(Path(file).relative_to(root))] = by_line
    return Reach(contexts.seconds, lines)


def digest_files(paths: Iterable[Path]) -> str:
    """A digest of the Python files below some places."""
    state = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            state.update(str(file).encode() + file.read_bytes())
    return state.hexdigest()


def read_reach(path: Path, digest: str) -> Reach | None:
    """The saved reach of a room, unless its files have changed since."""
    if not path.exists():
        return None
    saved = json.loads(path.read_text("utf-8"))
    if saved["digest"] != digest:
        return None
    names = saved["tests"]
    lines = {
        file: {int(line): [names[one] for one in tests] for line, tests in by_line.items()}
        for file, by_line in saved["lines"].items()
    }
    return Reach(dict(zip(names, saved["seconds"], strict=True)), lines)


def write_reach(path: Path, digest: str, reach: Reach) -> None:
    """Save the reach of a room, whole or not at all."""
    names = sorted(reach.seconds)
    numbers = {name: number for number, name in enumerate(names)}
    lines = {
        file: {
            line: [numbers[one] for one in tests if one in numbers] for line, tests in found.items()
        }
        for file, found in reach.lines.items()
    }
    saved = {
        "digest": digest,
        "tests": names,
        "seconds": [round(reach.seconds[name], 4) for name in names],
        "lines": lines,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(saved), "utf-8")
    draft.replace(path)


def fork(work: Callable[[], int], limit: float, output: Path | None = None) -> int:
    """Start work in a process group of its own, which ends at the limit even if nobody watches it.

    Args:
        work: returns the status of the process.
        limit: seconds until the process ends by itself; 0 for none.
        output: the file for what it prints; by default it prints where this process does.
    """
    process = os.fork()
    if process:
        with contextlib.suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(process, process)
        return process
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.alarm(math.ceil(limit))
        if output is not None:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
        code = work()
    except Exception:  # noqa: BLE001  # REASON: the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def end_group(process: int) -> None:
    """Kill a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def run_tests(seconds: dict[str, float], root: Path, mutant: Mutant | None, folder: Path) -> int:
    """Run tests with a mutant, in a process that has not imported its module yet."""
    os.chdir(root)
    if mutant is not None:
        sys.meta_path.insert(0, MutantImport(mutant, root))
    files = sorted({name.partition("::")[0] for name in seconds})
    arguments = [*pytest_arguments(folder), "-x", "--no-header", *files]
    return int(pytest.main(arguments, plugins=[Selection(seconds)]))


class Verdict(NamedTuple):
    """What became of a mutant.

    Args:
        mutant: the mutant.
        state: "killed", "limit" (its tests did not end), "survived", "no test", or "unknown": the tests
            do not end without the mutant either.
        test: the first line of the summary of pytest.
        seconds: how long it took.
    """

    mutant: Mutant
    state: str
    test: str
    seconds: float


Run = Callable[[Mutant | None, Path], int]
"""Runs tests with a mutant or without one, with a folder for their files, and returns the code of pytest."""


class Trial:
    """Runs the tests of one mutant in a process of its own.

    Args:
        mutant: the mutant.
        run: runs its tests.
        limit: seconds for them.
    """

    def __init__(self, mutant: Mutant, run: Run, limit: float) -> None:
        self._mutant, self._run, self._limit = mutant, run, limit
        self._began = time.monotonic()
        self._start(mutant)

    def _start(self, changed: Mutant | None) -> None:
        self._changed = changed
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._deadline = time.monotonic() + self._limit
        folder = self._folder
        work = partial(self._run, changed, folder)
        self._process = fork(work, self._limit + 5, folder / "output")

    def close(self) -> None:
        """End the process and what it started, and remove its files."""
        if self._process:
            end_group(self._process)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._process = 0
        shutil.rmtree(self._folder, ignore_errors=True)

    def poll(self) -> Verdict | None:
        """Return what became of the mutant, once that is known."""
        done, status = os.waitpid(self._process, os.WNOHANG)
        if not done and time.monotonic() < self._deadline:
            return None
        output = self._folder / "output"
        lines = output.read_text("utf-8", "replace").splitlines() if output.exists() else []
        self.close()
        if self._changed is None:  # the same tests without the mutant
            return self._judge("limit" if done else "unknown", "")
        if not done:
            self._start(None)
            return None
        code = os.waitstatus_to_exitcode(status)
        state = {PASSED: "survived", NO_TESTS: "no test"}.get(code, "killed")
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return self._judge(state, failed[0] if failed else "")

    def _judge(self, state: str, test: str) -> Verdict:
        return Verdict(self._mutant, state, test, time.monotonic() - self._began)


def try_mutants(
    mutants: Sequence[Mutant], reach: Reach, *, jobs: int, limit: float, root: Path = ROOT
) -> Iterator[Verdict]:
    """Try mutants, some at once, and yield each as it is judged."""
    waiting = list(reversed(mutants))
    running: list[Trial] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop()
                seconds = reach.select(mutant, limit * SHARE_FOR_TESTS)
                if seconds:
                    run = partial(run_tests, seconds, root)
                    running.append(Trial(mutant, run, limit))
                else:
                    yield Verdict(mutant, "no test", "", 0.0)
            time.sleep(0.05)
            for trial in list(running):
                verdict = trial.poll()
                if verdict is not None:
                    running.remove(trial)
                    yield verdict
    finally:
        for trial in running:
            trial.close()


def find_reach(room: str, tests: Sequence[str], *, root: Path = ROOT) -> Reach:
    """The reach of a room: the saved one, or collected now in a process of its own."""
    source = root / "src" / "holdfast" / room
    digest = digest_files([source, *(root / one for one in tests)])
    path = root / "build" / "mutants" / f"{room}.json"
    reach = read_reach(path, digest)
    if reach is None:
        print(f"{room}: which tests reach which lines ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="mutants-") as place:

            def work() -> int:
                write_reach(path, digest, collect_reach(source, tests, Path(place), root))
                return 0

            process = fork(work, limit=0)
            try:
                os.waitpid(process, 0)
            finally:
                end_group(process)
        reach = read_reach(path, digest)
    if reach is None:
        sys.exit(f"mutants: the tests of {room} could not be run")
    return reach


def take_sample(mutants: Sequence[Mutant], count: int, seed: str) -> list[Mutant]:
    """As many mutants as are wanted, the same for the same seed; all of them for 0."""
    if not 0 < count < len(mutants):
        return list(mutants)
    return random.Random(seed).sample(mutants, count)


def load_libraries() -> None:
    """Import slow libraries once for all processes; no plugin of pytest, which would be too early."""
    for name in ("aiohttp", "msgspec", "pydantic"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def print_verdict(verdict: Verdict) -> None:
    """Print one line for a mutant."""
    mutant = verdict.mutant
    place = f"{mutant.file}:{mutant.line}"
    print(f"{verdict.state:8} {place} {mutant.old}  =>  {mutant.new}", flush=True)


def main() -> int:
    """Try a sample of mutants, and print what survived."""
    parser = argparse.ArgumentParser(prog="./run mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"by default {', '.join(ROOMS)}")
    parser.add_argument("--count", type=int, default=50, help="mutants for each room; 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="the same seed takes the same sample")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at once")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds for a mutant; more on a busy machine"
    )
    parser.add_argument("--tests", nargs="+", help="tests instead of those of the room")
    parser.add_argument("--only", nargs="+", metavar="FILE:LINE", help="all mutants of these lines")
    options = parser.parse_args()
    os.environ.setdefault("HYPOTHESIS_PROFILE", "fixed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load_libraries()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    left: list[Verdict] = []
    for room in options.rooms or ROOMS:
        tests = options.tests or [f"tests/{room}", *MORE_TESTS.get(room, ())]
        reach = find_reach(room, tests)
        files = sorted((ROOT / "src" / "holdfast" / room).rglob("*.py"))
        mutants = [one for file in files for one in find_mutants(file)]
        if options.only:
            ends = tuple(options.only)
            mutants = [one for one in mutants if f"{one.file}:{one.line}".endswith(ends)]
        else:
            mutants = take_sample(mutants, options.count, f"{options.seed} {room}")
        for verdict in try_mutants(mutants, reach, jobs=options.jobs, limit=options.limit):
            print_verdict(verdict)
            counts[room][verdict.state] += 1
            if verdict.state not in ("killed", "limit"):
                left.append(verdict)
    print("\nNot killed:" if left else "\nAll were killed.")
    for verdict in left:
        print_verdict(verdict)
    for room, count in counts.items():
        killed = count["killed"] + count["limit"]
        known = count.total() - count["unknown"]
        print(f"{room}: {killed} of {known} killed; {dict(sorted(count.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
