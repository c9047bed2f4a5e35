"""Reads the file that a call would change: the difference for the question, and the digest of what is there.

It must never follow a link, and must never wait for a pipe or a device.
"""

from __future__ import annotations

import os

from msgspec import Struct

from adh.approval.file_diff import describe_binary, make_diff
from adh.rules.facts import CallFacts, PathUse
from adh.storage.content_digest import ABSENT, digest_bytes, digest_path
from adh.storage.path_steps import open_parent, open_regular_file
from adh.storage.storage_errors import StorageError
from holdfast.middleware import escape_invisible

_MOST_BYTES = 1_000_000
"""The largest file whose difference is shown, in bytes."""


class FilePreview(Struct, frozen=True):
    """What a call would change in a file.

    Args:
        path: the file, absolute and resolved; empty if the call changes no file that is known.
        diff: the difference, or what stands in its place.
        digest: the digest of the file as it is now, or "absent"; empty if it cannot be read.
    """

    path: str = ""
    diff: str = ""
    digest: str = ""


def preview_change(facts: CallFacts) -> FilePreview:
    """Return what a call that writes or deletes one file would change; an empty preview for other calls.

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
