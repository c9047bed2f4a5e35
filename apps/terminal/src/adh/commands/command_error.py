"""The error of a command that cannot do what it was asked for.

It must import no other room: the screen's prompt is painted before the library is there.
"""

from __future__ import annotations

from adh.commands.exit_statuses import ExitStatus


class CommandError(Exception):
    """A command cannot do what it was asked for.

    Args:
        message: what is wrong.
        fix: what the person can do, as a command or a sentence; may be empty.
        status: the exit status.
    """

    def __init__(
        self, message: str, *, fix: str = "", status: ExitStatus = ExitStatus.BLOCKED
    ) -> None:
        super().__init__(message)
        self.fix = fix
        self.status = status
