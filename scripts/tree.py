"""Writes the parts of ARCHITECTURE.md that the code already says: the tree of the package and its import layers.

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
    """One row a file, and one a folder, which stands for the `__init__.py` in it."""
    indent = "  " * depth
    if depth == 1:
        yield f"{indent}__init__.py", summary(folder / "__init__.py")
    for file in sorted(folder.glob("*.py")):
        if file.name != "__init__.py":
            yield f"{indent}{file.name}", summary(file)
    for room in sorted(folder.iterdir()):
        if any(room.rglob("*.py")):
            yield f"{indent}{room.name}/", summary(room / "__init__.py")
            yield from rows(room, depth + 1)


def tree() -> str:
    """The tree of the package, each line with what the file says of itself."""
    table = list(rows(PACKAGE))
    width = max(len(name) for name, _ in table) + 2
    lines = [f"{name:<{width}}{text}".rstrip() for name, text in table]
    return "\n".join(["src/holdfast/", *lines])


def layers() -> str:
    """The import layers, top to bottom, as the contract in pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (item for item in contracts if item["type"] == "layers")
    return "\n".join(line.replace("(", "").replace(")", "") for line in contract["layers"])


def filled(text: str) -> str:
    """The document with every generated block replaced by what the code says now."""
    for name, block in (("tree", tree()), ("layers", layers())):
        opening, closing = f"<!-- generated: {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(opening)
        if not found:
            raise SystemExit(f"{DOCUMENT.name} has no line {opening!r}")
        _, _, after = rest.partition(closing)
        text = f"{before}{opening}```text\n{block}\n```\n{closing}{after}"
    return text


def main(arguments: list[str]) -> int:
    """Returns 1 when the document has drifted from the code."""
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
