"""The path that a call acts on: the one that was judged, or one inside of the project.

It must never resolve a path again that was already judged: a link may have been swapped since.
"""

from __future__ import annotations

import os

from adh.rules.patterns import is_inside
from adh.storage.call_context import ApprovedCall, ApprovedCalls, CallContext
from holdfast.tools import ToolContext, ToolError

_NOT_APPROVED = ApprovedCall()


def find_approval(context: ToolContext[object]) -> ApprovedCall:
    """Return the approval of this call; an empty one if there is none."""
    return context.shared(ApprovedCalls).find(context.key) or _NOT_APPROVED


def find_judged_path(context: ToolContext[CallContext], written: str, home: str) -> str:
    """Return the absolute path without links that a call may act on.

    Args:
        context: the call.
        written: the path as the call has it.
        home: the person's home folder, for "~".

    Raises:
        ToolError: the path cannot be used, or nobody judged it and it is outside of the project.
    """
    judged = find_approval(context).paths.get(written)
    if judged is not None:
        return judged
    try:
        resolved = os.path.realpath(join_path(context.deps.folder, written, home))
    except (OSError, ValueError):
        raise ToolError(
            "ValueError: the path cannot be used: it holds a character that no path has"
        ) from None
    if not is_inside(resolved, context.deps.project):
        raise ToolError("PermissionError: the path is outside of the project")
    return resolved


def join_path(folder: str, written: str, home: str) -> str:
    """Return the absolute path that a written one means, with its links and `..`.

    Raises:
        ValueError: it holds a NUL character or is empty.

    >>> join_path("/project", "~/a", "/people/ada"), join_path("/project", "b", "")
    ('/people/ada/a', '/project/b')
    """
    if not written or "\0" in written:
        raise ValueError("a path must not be empty or hold NUL")
    if written == "~" or written.startswith("~/"):
        written = home + written[1:]
    return os.path.join(folder, written)  # noqa: PTH118  # REASON: Path would drop a dot or a slash
