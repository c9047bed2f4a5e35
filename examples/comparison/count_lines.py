"""Counts the lines of code of the programs in this folder: ours, and those of pydantic-ai.

A line counts if it has code. Blank lines, comments and docstrings do not count. All programs are
formatted by the same formatter, with the same line length.

    ./run python examples/comparison/count_lines.py
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

FOLDER = Path(__file__).parent
NOT_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def count_lines(source: str) -> int:
    """Return the number of lines with code.

    >>> count_lines('x = 1  # one' + chr(10) * 2 + '# two')
    1
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - find_docstring_lines(source))


def find_docstring_lines(source: str) -> set[int]:
    """Return the numbers of the lines of all docstrings."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node) is not None:
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def count_programs() -> dict[str, tuple[int, int]]:
    """Return the lines of each task: with Holdfast, and with pydantic-ai."""
    counts: dict[str, tuple[int, int]] = {}
    for ours in sorted(FOLDER.glob("*_holdfast.py")):
        task = ours.stem.removesuffix("_holdfast")
        theirs = FOLDER / f"{task}_pydantic_ai.py"
        counts[task] = count_lines(ours.read_text("utf-8")), count_lines(theirs.read_text("utf-8"))
    return counts


def main() -> None:
    """Print one row for each task."""
    print(f"{'task':<20}{'holdfast':>10}{'pydantic-ai':>13}")
    rows = count_programs()
    for task, (ours, theirs) in rows.items():
        print(f"{task:<20}{ours:>10}{theirs:>13}")
    print(f"{'all':<20}{sum(one[0] for one in rows.values()):>10}", end="")
    print(f"{sum(one[1] for one in rows.values()):>13}")


if __name__ == "__main__":
    main()
