"""Prints how large the code is and how its names are made: `./run python scripts/measures.py`.

It must never decide: the figures that are limits are compared by `tests/test_measures.py`.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from inspect import currentframe
from pathlib import Path

import holdfast
from holdfast import Agent, Middleware
from holdfast.testing import Emulator
from holdfast.transport.http import HttpTransport

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
OUTSIDE = ("testing", "compat")
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


def definitions(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[str, Path]]:
    """Name and file of every definition of a kind in the package."""
    for file in modules():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
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
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
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
    return sorted(one.name for one in entries if one.name != "__pycache__")


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


def print_measures(write: Callable[[str], object] = print) -> None:
    """Print one line for each figure."""
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


if __name__ == "__main__":
    print_measures()
