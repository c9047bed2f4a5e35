"""Reads the file that a call would change: the difference for the question, and the digest of its content.

It must never follow a link, and must never wait for a pipe or a device. Every invisible character of a
difference is shown as an escape; its text is bounded, and names the parts that it leaves out.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from adh.rules.facts import CallFacts, PathUse
from adh.storage.content_digest import ABSENT, digest_bytes, digest_path
from adh.storage.path_steps import open_parent, open_regular_file
from adh.storage.storage_errors import StorageError
from holdfast.middleware import escape_invisible

_MOST_BYTES = 1_000_000
"""The largest file whose difference is shown, in bytes."""


class FilePreview(Struct, frozen=True):
    """The change that a call would make to a file.

    Args:
        path: the file, absolute and resolved; empty if the call changes no file that is known.
        diff: the difference, or the text in its place.
        digest: the digest of the file as it is now, or "absent"; empty if it cannot be read.
    """

    path: str = ""
    diff: str = ""
    digest: str = ""


def preview_change(facts: CallFacts) -> FilePreview:
    """Return the change of a call that writes or deletes one file; an empty preview for other calls.

    Args:
        facts: the call.
    """
    changes = [use for use in facts.paths if use.access in ("write", "create", "delete")]
    content = facts.arguments.get("content")
    if len(changes) != 1 or (changes[0].access != "delete" and not isinstance(content, str)):
        return FilePreview()
    use = changes[0]
    new = content if isinstance(content, str) and use.access != "delete" else None
    try:
        old = _read_content(use)
    except (StorageError, OSError) as error:
        return FilePreview(use.path, _explain_unreadable(error))
    if isinstance(old, bytes | None):
        digest = ABSENT if old is None else digest_bytes(old)
        return FilePreview(use.path, _show_change(old, new, use.path), digest)
    sizes = f"{old:,} bytes before, {len((new or '').encode('utf-8', 'replace')):,} bytes after"
    return FilePreview(use.path, f"(too large to compare: {sizes})", digest_path(use.path))


def _read_content(use: PathUse) -> bytes | int | None:
    """Return the content; its size if it is too large to show; None if there is no file."""
    try:
        with open_parent(use.path) as (folder, name):
            descriptor = open_regular_file(folder, name, use.path)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
        return content if len(content) <= _MOST_BYTES else os.fstat(file.fileno()).st_size


def _show_change(old: bytes | None, new: str | None, path: str) -> str:
    try:
        text = None if old is None else old.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text is not None and "\0" in text:
        return describe_binary(len(old or b""), len((new or "").encode("utf-8", "replace")))
    return make_diff(text, new, escape_invisible(path))


def _explain_unreadable(error: Exception) -> str:
    reason = error.problem if isinstance(error, StorageError) else type(error).__name__
    return f"(what is there cannot be shown: it {escape_invisible(reason)})"


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
    """Return the text in place of a difference of binary files.

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
        # Equal lines at both ends are cut off first, but for the context.
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
