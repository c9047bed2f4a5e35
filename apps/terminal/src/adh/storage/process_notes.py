"""Names a running process in a note, so that a later start can find out whether it still runs.

The number alone is not enough: a process that ended keeps its number until its parent has asked how it ended,
and another process may get the number afterwards. This module must never signal a process.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19
_ENDED = (b"Z", b"X")


def describe_own_process() -> dict[str, int]:
    """Return a note about this process: its number, and when it started, in ticks since the boot.

    The start is 0 on a system without `/proc`.
    """
    return {"process": os.getpid(), "started": _read_start(os.getpid()) or 0}


def is_process_running(note: object) -> bool:
    """Return whether the process of a note still runs.

    Args:
        note: the decoded note, with the fields of `describe_own_process`.

    Raises:
        ValueError: it is no note of a process.
    """
    match note:
        case {"process": int(process), "started": int(started)}:
            pass
        case _:
            raise ValueError("a note must have the numbers `process` and `started`")
    if started and (_PROC / "self").exists():
        return _read_start(process) == started
    return _has_number(process)


def _read_start(process: int) -> int | None:
    """Return when a process started; None if it has ended."""
    try:
        # The name of the program, in parentheses, may hold anything.
        fields = (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[_STATE] in _ENDED else int(fields[_STARTED])
    except (OSError, IndexError, ValueError):
        return None


def _has_number(process: int) -> bool:
    """Whether any process has a number, for a system without `/proc`."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
