"""Writes the public face of the package, one line a name with its signature; the diff of that file is the review.

Public is what a module of NAMESPACES lists in `__all__`; a name that stands in several is written out once.

usage: python scripts/public_api.py --write | --check
"""

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "tests" / "api" / "public_api.txt"


NAMESPACES = (
    "holdfast",
    "holdfast.batches",
    "holdfast.calls",
    "holdfast.client",
    "holdfast.compat",
    "holdfast.errors",
    "holdfast.event_log",
    "holdfast.events",
    "holdfast.journal",
    "holdfast.mcp",
    "holdfast.middleware",
    "holdfast.models",
    "holdfast.openapi",
    "holdfast.outbox",
    "holdfast.resilience",
    "holdfast.server",
    "holdfast.sessions",
    "holdfast.skills",
    "holdfast.telemetry",
    "holdfast.testing",
    "holdfast.testing.emulator",
    "holdfast.tools",
    "holdfast.worker",
)
"""The modules that a user imports from."""


def public_modules() -> Iterator[ModuleType]:
    """The package, and each module below it that has public names."""
    for name in NAMESPACES:
        yield importlib.import_module(name)


def public_values() -> dict[str, object]:
    """Every public name with what it names, whichever namespace it stands in."""
    return {name: getattr(module, name) for module in public_modules() for name in module.__all__}


def steady(text: str) -> str:
    """The text without what changes from one process, or one version of Python, to the next."""
    text = re.sub(
        r"(?<=frozenset\(\{)[^}]*", lambda set_: ", ".join(sorted(set_[0].split(", "))), text
    )
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("pathlib._local.", "pathlib.")


def signature(value: object) -> str:
    """The parameters of something that can be called, or `(...)` when it does not tell."""
    try:
        return steady(str(inspect.signature(value)))  # type: ignore[arg-type]  # REASON: that is the question
    except (TypeError, ValueError):
        return "(...)"


def class_lines(path: str, cls: type) -> Iterator[str]:
    """A class with its bases and parameters, then each public member that it defines itself."""
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    if issubclass(cls, enum.Enum):
        yield f"{path}: enum {bases} = {', '.join(member.name for member in cls)}"
    else:
        yield f"{path}: class {bases}".rstrip() + f" {signature(cls)}"
    for name, member in sorted(vars(cls).items()):
        if name.startswith("_") or type(member) is cls:
            continue
        inner = f"{path}.{name}"
        if isinstance(member, property):
            yield f"{inner}: property"
        elif isinstance(member, staticmethod | classmethod):
            yield f"{inner}: {type(member).__name__} {signature(member.__func__)}"
        elif inspect.isfunction(member):
            yield f"{inner}{signature(member)}"


def lines(module: ModuleType, first: dict[tuple[str, int], str]) -> Iterator[str]:
    """Every public name of a module, in the order of its `__all__`; `first` says which were written."""
    for name in module.__all__:
        value = getattr(module, name)
        path = f"{module.__name__}.{name}"
        original = first.setdefault((name, id(value)), path)
        if original != path:
            yield f"{path}: is {original}"
        elif inspect.isclass(value):
            yield from class_lines(path, value)
        elif inspect.isroutine(value):
            yield f"{path}{signature(value)}"
        elif isinstance(value, Mapping):
            yield f"{path}: {type(value).__name__}"
            for key, entry in value.items():
                yield f"{path}[{key!r}] = {steady(repr(entry))}"
        else:
            yield f"{path}: {type(value).__name__} = {steady(repr(value))}"


def render() -> str:
    """The whole snapshot."""
    first: dict[tuple[str, int], str] = {}
    return "".join(f"{line}\n" for module in public_modules() for line in lines(module, first))


def main(arguments: list[str]) -> int:
    """Returns 1 when the snapshot differs from the code."""
    if arguments not in (["--write"], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    new = render()
    if arguments == ["--write"]:
        SNAPSHOT.write_text(new, "utf-8")
        return 0
    old = SNAPSHOT.read_text("utf-8")
    sys.stdout.writelines(
        unified_diff(old.splitlines(True), new.splitlines(True), SNAPSHOT.name, "the code")
    )
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
