"""The checks of files: room on the disk, permission, size, and the copy before a change.

They look at resolved paths and never follow a link that stands at the end of one. They must never change
the file itself.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from adh.checks.check_context import CheckContext
from adh.checks.protected_places import list_uses
from adh.rules.facts import CallFacts

SPARE_BYTES = 100 * 1024 * 1024
"""The room that must be left on a disk after a write, in bytes."""
_CHANGES = ("write", "delete")


def check_disk_space(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return why there is too little room for what the call writes; empty if there is enough.

    The text has no count of free bytes: the same state gives the same text.
    """
    for use in list_uses(facts):
        if use.access not in ("write", "create"):
            continue
        # The new content stands beside the old one for a moment, and so does the copy.
        needed = content_bytes(facts) + 2 * (_file_size(use.path) or 0)
        space = os.statvfs(_nearest_folder(use.path))
        if space.f_bavail * space.f_frsize < needed + SPARE_BYTES:
            return f"The disk of {use.path} has no room for {needed:,} bytes and 100 MB to spare."
    return ""


def check_permission(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return why the system would refuse the access; empty if it would not."""
    for use in list_uses(facts):
        path = use.path
        exists = os.path.lexists(path)
        folder = _nearest_folder(path)
        if use.access in ("read", "list") and exists and not os.access(path, os.R_OK):
            return f"{path} may not be read by this user."
        if use.access == "write" and exists and not os.access(path, os.W_OK):
            return f"{path} may not be written by this user."
        if use.access in ("write", "create", "delete") and not os.access(folder, os.W_OK | os.X_OK):
            return f"{folder} may not be changed by this user."
    if not os.access(facts.folder, os.X_OK):
        return f"{facts.folder} may not be entered by this user."
    return ""


def check_size_limit(facts: CallFacts, context: CheckContext) -> str:
    """Return what is too large; empty if nothing is."""
    limit = f"more than the limit of {context.most_bytes:,} bytes."
    size = content_bytes(facts)
    if size > context.most_bytes:
        return f"The content has {size:,} bytes, {limit}"
    for use in list_uses(facts):
        found = _file_size(use.path) if use.access in ("read", "delete") else None
        if found is not None and found > context.most_bytes:
            return f"{use.path} has {found:,} bytes, {limit}"
    return ""


def save_backups(facts: CallFacts, context: CheckContext) -> str:
    """Copy each file that the call writes or deletes into the backups. A preview copies nothing.

    Returns:
        Why no copy could be made; empty if all were made or none was needed.
    """
    for use in list_uses(facts):
        if use.access not in _CHANGES or _file_size(use.path) is None:
            continue
        if context.save_backup is None:
            return "There is no place for backups."
        if not context.preview:
            context.save_backup(use.path)
    return ""


def content_bytes(facts: CallFacts) -> int:
    """Return how many bytes the call writes, as far as its arguments tell."""
    content = facts.arguments.get("content")
    return len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0


def _file_size(path: str) -> int | None:
    """Return the size of a regular file; None for anything else."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _nearest_folder(path: str) -> Path:
    """Return the nearest existing folder above a path."""
    return next(folder for folder in Path(path).parents if folder.is_dir())
