"""Prints how large the code is, how it is divided, named and worded: `./run python scripts/measures.py`.

With `--list` it names the small modules that one other file imports, and the climbs of a turn; with
`--tests` it collects the tests as well, which takes a minute. It must never decide: the figures that are
limits are compared by `tests/test_measures.py`.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import io
import re
import subprocess
import sys
import threading
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from inspect import currentframe
from pathlib import Path
from statistics import mean, median
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

import holdfast
from holdfast import Agent, MemoryJournal, Middleware
from holdfast.testing import Emulator, ScriptedModel
from holdfast.transport.http import HttpTransport
from holdfast.worker import Worker

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
REGISTRATION = ROOT / "apps" / "registration" / "src" / "registration"
TERMINAL = ROOT / "apps" / "terminal" / "src" / "adh"
PACKAGES = (PACKAGE, REGISTRATION, TERMINAL)
OUTSIDE = ("testing", "compat")
SMALL = 80  # code lines; a smaller module that one file imports is a candidate for being part of that file
MANY_CASES = 40
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
TELLING = {"tell", "tells", "told", "telling"}
# Forms such as `read`, `cut` and `set` are verbs as well, so they are not counted.
PARTICIPLE = re.compile(
    r"[a-z]+ed|begun|bound|brought|built|done|drawn|driven|found|given|gone|got|heard|held|hidden"
    r"|kept|known|laid|left|lent|lost|made|met|paid|said|seen|sent|shown|spent|spoken|stood|taken"
    r"|taught|thrown|told|torn|undone|won|written"
)
VERBS = {"exceed", "feed", "need", "proceed", "seed", "shed", "speed"}


def modules(folder: Path = PACKAGE) -> list[Path]:
    """Every Python file below a folder."""
    return sorted(folder.rglob("*.py"))


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """The nodes of the tree of a source text."""
    return list(ast.walk(ast.parse(source)))


def definitions(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[str, Path]]:
    """Name and file of every definition of a kind in the package."""
    for file in modules():
        for node in nodes_of(file.read_text("utf-8")):
            if isinstance(node, kind):
                yield getattr(node, "name", ""), file.relative_to(PACKAGE)


def doubled_classes() -> dict[str, list[str]]:
    """Class names that are defined in more than one file, with these files."""
    places = defaultdict(list)
    for name, file in definitions(ast.ClassDef):
        places[name].append(str(file))
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def long_positional_calls() -> list[str]:
    """The calls with six or more positional arguments, with file and line."""
    return [
        f"{file.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node.func)}"
        for file in modules()
        for node in nodes_of(file.read_text("utf-8"))
        if isinstance(node, ast.Call) and len(node.args) >= 6
    ]


def function_names() -> list[str]:
    """The names of all functions and methods but the special ones, without leading underscores."""
    found = definitions((ast.FunctionDef, ast.AsyncFunctionDef))
    return [name.strip("_") for name, _ in found if not name.startswith("__")]


def one_word_share(names: list[str]) -> float:
    """The share of names that are one word."""
    return sum("_" not in name for name in names) / len(names)


def is_participle(name: str) -> bool:
    """Whether a name is a participle and nothing else."""
    return name not in VERBS and PARTICIPLE.fullmatch(name) is not None


def participle_share(names: list[str]) -> float:
    """The share of names that are a participle and nothing else."""
    return sum(is_participle(name) for name in names) / len(names)


def file_names_twice() -> dict[str, list[str]]:
    """File names that stand in several folders, without `__init__.py`."""
    places = defaultdict(list)
    for file in modules():
        if file.name != "__init__.py":
            places[file.name].append(str(file.parent.relative_to(PACKAGE)))
    return {name: folders for name, folders in sorted(places.items()) if len(folders) > 1}


def runtime_entries() -> list[str]:
    """The files and folders of the runtime."""
    entries = (PACKAGE / "runtime").iterdir()
    return sorted(one.name for one in entries if one.suffix == ".py" or any(one.glob("*.py")))


def source_size() -> tuple[int, int]:
    """Lines and files of the package outside `testing` and `compat`."""
    files = [file for file in modules() if file.relative_to(PACKAGE).parts[0] not in OUTSIDE]
    return sum(file.read_text("utf-8").count("\n") for file in files), len(files)


def own_frames(*, wrapped: bool) -> int:
    """Frames of the package between `Agent.run` and the call of the endpoint, in a second run."""
    counts: list[int] = []

    class WrapModel(Middleware):
        async def wrap_model(self, context, call_next):  # type: ignore[no-untyped-def]
            return await call_next(context)

    class CountFrames(HttpTransport):
        def send(self, request, timeouts):  # type: ignore[no-untyped-def]
            frame, count = currentframe(), 0
            while frame is not None:
                count += frame.f_code.co_filename.startswith(str(PACKAGE))
                frame = frame.f_back
            counts.append(count)
            return super().send(request, timeouts)

    async def measure() -> None:
        with Emulator(["Hello", "Hello"]) as emulator:
            agent = Agent(
                "openai:gpt-5.2",
                base_url=emulator.base_url,
                api_key="unused",
                transport=CountFrames(),
                middleware=[WrapModel()] if wrapped else [],
            )
            for _ in range(2):
                await agent.run("Hello")

    asyncio.run(measure())
    return counts[-1]


class FileSize(NamedTuple):
    """The code lines of a file: without docstrings, comments and blank lines.

    Args:
        code: how many there are.
        imports: how many of them are imports.
        bodies: the code lines of the body of each function that has one.
    """

    code: int
    imports: int
    bodies: tuple[int, ...]


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring or another text that stands alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def is_stub(body: list[ast.stmt]) -> bool:
    """Whether the body of a function is empty or `...`, with or without a docstring."""
    return all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in body)


def lines_of(*nodes: ast.AST) -> set[int]:
    """The numbers of the lines that statements cover."""
    numbers: set[int] = set()
    for node in nodes:
        numbers.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]
    return numbers


def tokens_of(source: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of a source text."""
    return tokenize.generate_tokens(io.StringIO(source).readline)


@cache
def measure_source(source: str) -> FileSize:
    """Count the code lines of a source text."""
    nodes = nodes_of(source)
    code: set[int] = set()
    for token in tokens_of(source):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= lines_of(*(node for node in nodes if is_text(node)))
    imports = lines_of(*(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)))
    bodies = [
        len(code & lines_of(*node.body))
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_stub(node.body)
    ]
    return FileSize(len(code), len(code & imports), tuple(bodies))


def measure_files(*folders: Path) -> list[FileSize]:
    """The sizes of all files below folders."""
    return [measure_source(file.read_text("utf-8")) for one in folders for file in modules(one)]


def import_share(sizes: Sequence[FileSize]) -> float:
    """The share of code lines that are imports."""
    return sum(one.imports for one in sizes) / sum(one.code for one in sizes)


def name_module(file: Path, package: Path) -> str:
    """The dotted name of a module; that of its folder for an `__init__.py`."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(source: str) -> Iterator[tuple[str, str]]:
    """What a source text imports, as a module and what may be a module in it; for type checkers, too."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, f"{node.module}.{alias.name}") for alias in node.names)


def find_importers(package: Path = PACKAGE) -> dict[Path, set[Path]]:
    """The files of a package that import each of its modules, without `__init__.py` among the modules."""
    files = modules(package)
    by_name = {name_module(file, package): file for file in files}
    importers: dict[Path, set[Path]] = {file: set() for file in files}
    for file in files:
        for module, inner in imported_names(file.read_text("utf-8")):
            imported = by_name.get(inner) or by_name.get(module)
            if imported is not None:
                importers[imported].add(file)
    return {file: found for file, found in importers.items() if file.name != "__init__.py"}


def modules_with_one_importer(package: Path = PACKAGE) -> dict[Path, tuple[Path, int]]:
    """The modules that exactly one other file of the package imports, with that file and their code lines."""
    return {
        file: (next(iter(found)), measure_source(file.read_text("utf-8")).code)
        for file, found in find_importers(package).items()
        if len(found) == 1
    }


def prose_of(source: str) -> Iterator[str]:
    """The docstrings and the comments of a source text."""
    for node in nodes_of(source):
        if is_text(node):
            yield node.value.value  # type: ignore[attr-defined]
    yield from (token.string for token in tokens_of(source) if token.type == tokenize.COMMENT)


def word_rates(*folders: Path) -> tuple[float, float]:
    """How often "what", and "tell" in any form, stand in a thousand words of docstrings and comments."""
    words = [
        word.lower()
        for folder in folders
        for file in modules(folder)
        for text in prose_of(file.read_text("utf-8"))
        for word in re.findall(r"[A-Za-z][A-Za-z']*", text)
    ]
    told = sum(word in TELLING for word in words)
    return 1000 * words.count("what") / len(words), 1000 * told / len(words)


def layers_of_rooms() -> dict[str, int]:
    """The height of each room in the contract `layers`; 0 is the lowest line."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["id"] == "layers")
    return {
        room: height
        for height, line in enumerate(reversed(layers))
        for room in re.findall(r"\w+", line)
    }


class TurnPath(NamedTuple):
    """The way of one turn through the rooms.

    Args:
        calls: how many pairs of functions are in it, of which one calls the other.
        climbs: the pairs whose called function is in a room that stands higher, as texts.
        trail: the files that get the metadata of the turn as an argument, one after the other.
        heights: the height of the room of each file of the trail.
    """

    calls: int
    climbs: list[str]
    trail: list[str]
    heights: list[int]

    def count_moves(self) -> tuple[int, int, int, int]:
        """The files of the trail, and its moves to a higher room, to a lower one, and to a file again."""
        pairs = list(zip(self.heights, self.heights[1:], strict=False))
        files = len(set(self.trail))
        up, down = (sum(a < b for a, b in pairs), sum(a > b for a, b in pairs))
        return files, up, down, len(self.trail) - files


class PathRecorder:
    """Records the calls between rooms of the package, as a profile function of all threads."""

    MARK = "a-mark-that-is-followed"

    def __init__(self) -> None:
        self._heights = layers_of_rooms()
        self._calls: dict[tuple[CodeType, CodeType], bool] = {}
        self._trail: list[str] = []

    def __enter__(self) -> Self:
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # it is how the documentation unsets it

    def read_path(self) -> TurnPath:
        """Return what was recorded."""
        climbs = [
            f"{name_place(caller)} -> {name_place(called)}"
            for (caller, called), is_climb in self._calls.items()
            if is_climb
        ]
        heights = [self._heights[room_of(file)] for file in self._trail]
        return TurnPath(len(self._calls), sorted(climbs), self._trail, heights)

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._is_in_a_room(frame.f_code):
            return
        file = file_of(frame.f_code)
        if self._trail[-1:] != [file] and self._has_mark(frame):
            self._trail.append(file)
        caller = frame.f_back
        while caller is not None and not self._is_in_a_room(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            height, own = (self._heights[room_of(file_of(one.f_code))] for one in (caller, frame))
            self._calls[caller.f_code, frame.f_code] = height < own

    def _is_in_a_room(self, code: CodeType) -> bool:
        """Whether code is in a room, without the imports of modules and the doubles for tests."""
        if not code.co_filename.startswith(f"{PACKAGE}/") or code.co_name == "<module>":
            return False
        room = room_of(file_of(code))
        return room in self._heights and room not in OUTSIDE

    def _has_mark(self, frame: FrameType) -> bool:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return any(self._is_marked(frame.f_locals.get(name)) for name in names if name != "self")

    def _is_marked(self, value: Any, depth: int = 0) -> bool:
        """Whether the mark is in a value or, to a small depth, in what it consists of."""
        if isinstance(value, str):
            return self.MARK in value
        if isinstance(value, bytes):
            return self.MARK.encode() in value
        inner: list[Any] = []
        if isinstance(value, list | tuple):
            inner = list(value)
        elif isinstance(value, dict):
            inner = list(value.values())
        else:
            inner = [getattr(value, name, None) for name in getattr(value, "__struct_fields__", ())]
        return depth < 4 and any(self._is_marked(one, depth + 1) for one in inner)


def file_of(code: CodeType) -> str:
    """The file of code, from the package on."""
    return code.co_filename.removeprefix(f"{PACKAGE}/")


def room_of(file: str) -> str:
    """The room of a file: a folder, or a module at the top."""
    return file.partition("/")[0].removesuffix(".py")


def name_place(code: CodeType) -> str:
    """The file and the name of code."""
    return f"{file_of(code)}:{code.co_qualname}"


def follow_turn(*, queued: bool) -> TurnPath:
    """Follow a turn of an agent: one that is submitted, and driven by a worker, or one that is run here.

    It is the second turn of its agent, so that nothing is imported or compiled on the way.
    """
    mark = {"mark": PathRecorder.MARK}

    async def run_through_worker(recorder: PathRecorder, agent: Agent[str]) -> None:
        async with Worker(agent, parallel=1):
            await (await agent.submit("Hello", session="first")).wait(20)
            with recorder:
                run = await agent.submit("Hello", session="second", metadata=mark)
                await run.wait(20)

    async def run_here(recorder: PathRecorder, agent: Agent[str]) -> None:
        await agent.run("Hello", session="first")
        with recorder:
            await agent.run("Hello", session="second", metadata=mark)

    agent = Agent(ScriptedModel("Hi.", "Hi."), name="measured", journal=MemoryJournal())
    recorder = PathRecorder()
    asyncio.run((run_through_worker if queued else run_here)(recorder, agent))
    return recorder.read_path()


def count_tests() -> Counter[str]:
    """How many cases each test function has, as pytest collects them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return Counter(line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line)


def print_division(write: Callable[[str], object]) -> None:
    """Print how the code is divided into files and functions, for all packages and for the library."""
    for name, packages in (("all packages", PACKAGES), ("src/holdfast", (PACKAGE,))):
        sizes = measure_files(*packages)
        code = [one.code for one in sizes]
        bodies = [body for one in sizes for body in one.bodies]
        single = [lines for one in packages for _, lines in modules_with_one_importer(one).values()]
        total = sum(len(find_importers(one)) for one in packages)
        small = sum(lines < SMALL for lines in code)
        write(f"{name}:")
        write(
            f"  code lines in a file: median {median(code):g}; {small} of {len(code)} files under {SMALL}"
        )
        write(f"  share of code lines that are imports: {import_share(sizes):.1%} of {sum(code):,}")
        write(
            f"  modules that one other file imports: {len(single)} of {total}, "
            f"{sum(lines < SMALL for lines in single)} of them under {SMALL} code lines"
        )
        write(f"  mean body of a function: {mean(bodies):.1f} code lines of {len(bodies):,}")


def print_words(write: Callable[[str], object]) -> None:
    """Print how often two words stand in docstrings and comments."""
    named = {"src/holdfast": PACKAGE, "registration": REGISTRATION, "terminal": TERMINAL}
    for name, folders in ({"all packages": PACKAGES} | {k: (v,) for k, v in named.items()}).items():
        what, told = word_rates(*folders)
        write(f'in 1,000 words of prose in {name}: {what:.1f} "what", {told:.2f} "tell"/"told"')


def print_turns(write: Callable[[str], object], *, listed: bool) -> None:
    """Print the ways of a turn through a worker and of one without it."""
    for name, queued in (("a worker's turn", True), ("an agent's own turn", False)):
        path = follow_turn(queued=queued)
        files, up, down, again = path.count_moves()
        write(f"{name}: {len(path.climbs)} climbs among {path.calls} pairs of functions")
        if listed:
            for climb in path.climbs:
                write(f"  {climb}")
        write(
            f"  its metadata: {files} files, {up} moves to a higher room, {down} to a lower one, "
            f"{again} returns to a file"
        )


def print_small_modules(write: Callable[[str], object]) -> None:
    """Print the modules with one importer and few code lines, by room."""
    write(f"modules under {SMALL} code lines that one other file imports:")
    for package in PACKAGES:
        for file, (importer, lines) in modules_with_one_importer(package).items():
            if lines < SMALL:
                names = [str(one.relative_to(package)) for one in (file, importer)]
                write(f"  {lines:3} {package.name}/{names[0]} <- {names[1]}")


def print_tests(write: Callable[[str], object], *, listed: bool) -> None:
    """Print how many tests there are, and which functions have many cases."""
    cases = count_tests()
    many = {name: count for name, count in cases.most_common() if count > MANY_CASES}
    write(f"tests: {sum(cases.values()):,} collected")
    write(f"functions with over {MANY_CASES} cases: {len(many)}, {sum(many.values()):,} cases")
    if listed:
        for name, count in many.items():
            write(f"  {count:5} {name}")


def print_measures(write: Callable[[str], object] = print, *, listed: bool = False) -> None:
    """Print one line for each figure; with `listed`, also what the engineers who fold look for."""
    print_division(write)
    print_words(write)
    print_turns(write, listed=listed)
    lines, files = source_size()
    names = function_names()
    write(f"lines of src outside testing and compat: {lines:,}; files: {files}")
    tests = sum(file.read_text("utf-8").count("\n") for file in modules(ROOT / "tests"))
    write(f"lines in tests: {tests:,}")
    write(f"class names defined twice: {len(doubled_classes())}")
    for name, places in doubled_classes().items():
        write(f"  {name}: {', '.join(places)}")
    write(f"file names that stand twice: {len(file_names_twice())}")
    for name, folders in file_names_twice().items():
        write(f"  {name}: {', '.join(folders)}")
    write(f"one-word function names: {one_word_share(names):.0%} of {len(names):,}")
    bare = Counter(name for name in names if is_participle(name))
    write(f"bare participles: {participle_share(names):.1%}; {dict(bare.most_common(12))}")
    write(f"entries of runtime/: {len(runtime_entries())}")
    write(f"public names at the top: {len(holdfast.__all__)}")
    frames = own_frames(wrapped=False), own_frames(wrapped=True)
    write(
        f"own frames from Agent.run to the endpoint call: {frames[0]}; with a wrap hook {frames[1]}"
    )


def main() -> None:
    """Print what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name modules, climbs and functions")
    parser.add_argument("--tests", action="store_true", help="collect the tests, too")
    options = parser.parse_args()
    print_measures(listed=options.list)
    if options.list:
        print_small_modules(print)
    if options.tests:
        print_tests(print, listed=options.list)


if __name__ == "__main__":
    main()
