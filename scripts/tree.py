"""Writes the generated parts of ARCHITECTURE.md: the rooms of the package, and its import layers.

usage: python scripts/tree.py --write | --check
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "holdfast"
DOCUMENT = ROOT / "ARCHITECTURE.md"


def summary(module: Path) -> str:
    """The first line of the docstring of a module, without its full stop; empty if it has none."""
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".")


def rows(folder: Path, depth: int = 1) -> Iterator[tuple[str, str]]:
    """One row for each room in a folder, and for the rooms inside it."""
    for room in rooms(folder):
        yield f"{'  ' * depth}{room.name}/", summary(room / "__init__.py")
        yield from rows(room, depth + 1)


def rooms(folder: Path) -> list[Path]:
    """The folders of code in a folder, by name."""
    return sorted(place for place in folder.iterdir() if (place / "__init__.py").exists())


def top_modules() -> list[Path]:
    """The modules that are in no room, by name; the package's own `__init__.py` comes first."""
    return sorted(PACKAGE.glob("*.py"))


def tree() -> str:
    """The top modules and the rooms, each with the first sentence of its docstring."""
    table = [(f"  {module.name}", summary(module)) for module in top_modules()]
    table += rows(PACKAGE)
    width = max(len(name) for name, _ in table) + 2
    lines = [f"{name:<{width}}{text}".rstrip() for name, text in table]
    return "\n".join(["src/holdfast/", *lines])


def layers() -> str:
    """The import layers, top to bottom, as the contract in pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (item for item in contracts if item["id"] == "layers")
    return "\n".join(line.replace("(", "").replace(")", "") for line in contract["layers"])


def filled(text: str) -> str:
    """The document with its generated blocks written from the code."""
    for name, block in (("tree", tree()), ("layers", layers())):
        opening, closing = f"<!-- generated: {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(opening)
        if not found:
            raise SystemExit(f"{DOCUMENT.name} has no line {opening!r}")
        _, _, after = rest.partition(closing)
        text = f"{before}{opening}```text\n{block}\n```\n{closing}{after}"
    return text


def main(arguments: list[str]) -> int:
    """Write or check; return 1 when the document differs from the code."""
    if arguments not in (["--write"], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    old = DOCUMENT.read_text("utf-8")
    new = filled(old)
    if arguments == ["--write"]:
        DOCUMENT.write_text(new, "utf-8")
        return 0
    sys.stdout.writelines(
        unified_diff(old.splitlines(True), new.splitlines(True), DOCUMENT.name, "the code")
    )
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
