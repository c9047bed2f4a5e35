"""What a killed program left: temporary files in projects, and processes of commands.

It must never touch what another running instance uses.
"""

from __future__ import annotations

from msgspec import Struct

from adh.tools.tools_context import ToolsContext


class Leftovers(Struct, frozen=True, kw_only=True):
    """What was left and is gone now.

    Args:
        files: the temporary files, which never had their names.
        processes: how many processes were ended.
    """

    files: tuple[str, ...] = ()
    processes: int = 0


def remove_leftovers(context: ToolsContext) -> Leftovers:
    """Remove what killed instances of the program left. Call it at the start, beside the tools.

    Args:
        context: what the tools work with.
    """
    running = context.running
    return Leftovers(
        files=context.pending.remove_leftovers(),
        processes=0 if running is None else running.end_abandoned(),
    )
