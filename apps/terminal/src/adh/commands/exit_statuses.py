"""The end of a command: its exit status, and the error of one that cannot do its task.

A status must never say "done" for a run in which a rule stopped a call: a pipeline reads nothing else. This
module must import no other room: the screen's prompt is painted before the library is there.
"""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit statuses of `adh`."""

    DONE = 0
    FAILED = 1
    BLOCKED = 2
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


STATUSES = """exit status:
  0    done
  1    failed
  2    blocked by a rule, or by a question that nobody could answer; wrong arguments or files
  130  stopped by Ctrl-C
  141  the reader of the output closed it
"""


class CommandError(Exception):
    """A command cannot do its task.

    Args:
        message: the problem.
        fix: the next step of the person, as a command or a sentence; may be empty.
        status: the exit status.
    """

    def __init__(
        self, message: str, *, fix: str = "", status: ExitStatus = ExitStatus.BLOCKED
    ) -> None:
        super().__init__(message)
        self.fix = fix
        self.status = status
