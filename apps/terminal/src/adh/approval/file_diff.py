"""The difference that a call would make to a file, as a person reads it.

Every invisible character is shown as an escape. The text is bounded, and says what it leaves out. This
module must never read a file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from holdfast.middleware import escape_invisible

MOST_LINES = 600
"""The most lines of a difference that are shown."""
LONGEST_LINE = 400
"""The longest line that is shown whole, in characters."""
_MOST_COMPARED = 3_000
"""The most changed lines of a file that are compared with each other; more are shown as replaced."""
_CONTEXT = 3


def make_diff(old: str | None, new: str | None, name: str) -> str:
    r"""Return the difference between two contents as a unified diff.

    Args:
        old: the content now; None if the file does not exist.
        new: the content then; None if the file is deleted.
        name: the name of the file, as the headers show it.

    >>> print(make_diff("a\nb\n", "a\nc\n", "x.txt"))
    --- x.txt
    +++ x.txt
    @@ -1,2 +1,2 @@
     a
    -b
    +c
    """
    if old == new:
        return "(no change)"
    before, after = _split_lines(old or ""), _split_lines(new or "")
    header = [f"--- {name if old is not None else '(new file)'}"]
    header.append(f"+++ {name if new is not None else '(deleted)'}")
    lines = [*header, *_compare_lines(before, after)]
    return "\n".join(_bound_lines([escape_invisible(_cut_line(line)) for line in lines]))


def describe_binary(old_bytes: int, new_bytes: int) -> str:
    """Return what is shown in place of a difference that is no text.

    >>> describe_binary(1_000, 20)
    '(not text: 1,000 bytes before, 20 bytes after)'
    """
    return f"(not text: {old_bytes:,} bytes before, {new_bytes:,} bytes after)"


def _split_lines(text: str) -> list[str]:
    """Return the lines by line feeds alone, so that a carriage return stays and is shown."""
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]


def _compare_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    same = _count_same(before, after)
    tail = _count_same(before[same:][::-1], after[same:][::-1])
    changed = max(len(before), len(after)) - same - tail
    if changed <= _MOST_COMPARED:
        # What is the same at both ends is cut off first, but for the context.
        begin, end = max(0, same - _CONTEXT), max(0, tail - _CONTEXT)
        yield from _shift_hunks(
            difflib.unified_diff(
                before[begin : len(before) - end],
                after[begin : len(after) - end],
                lineterm="",
                n=_CONTEXT,
            ),
            begin,
        )
        return
    old, new = before[same : len(before) - tail], after[same : len(after) - tail]
    yield f"@@ -{same + 1},{len(old)} +{same + 1},{len(new)} @@"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def _count_same(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = zip(before, after, strict=False)
    return next(
        (count for count, (one, other) in enumerate(pairs) if one != other),
        min(len(before), len(after)),
    )


def _shift_hunks(lines: Iterator[str], begin: int) -> Iterator[str]:
    """Yield the lines of a diff without its headers, with line numbers of the whole file."""
    for number, line in enumerate(lines):
        if number < 2:
            continue
        if line.startswith("@@"):
            _, old, new, _ = line.split(" ")
            yield f"@@ -{_shift_range(old[1:], begin)} +{_shift_range(new[1:], begin)} @@"
        else:
            yield line


def _shift_range(numbers: str, begin: int) -> str:
    first, comma, count = numbers.partition(",")
    return f"{int(first) + begin}{comma}{count}"


def _cut_line(line: str) -> str:
    text, newline, mark = line.partition("\n")
    longest = LONGEST_LINE + 1  # with its sign
    if len(text) > longest:
        text = f"{text[:longest]}… ({len(text) - longest:,} more characters)"
    return text + newline + mark


def _bound_lines(lines: list[str]) -> list[str]:
    """Return the first and the last lines of a long difference, and how many are left out."""
    if len(lines) <= MOST_LINES:
        return lines
    half = MOST_LINES // 2
    left_out = len(lines) - 2 * half
    return [*lines[:half], f"… {left_out:,} lines are not shown …", *lines[-half:]]
