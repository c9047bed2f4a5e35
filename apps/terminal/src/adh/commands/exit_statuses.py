"""How a command ended, as numbers that other programs read.

A status must never say "done" for a run in which a rule stopped a call: a pipeline reads nothing else.
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
