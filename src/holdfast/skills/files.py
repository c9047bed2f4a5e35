"""Reads files in a skill's folder, and none outside of it.

A path is resolved before it is checked, so that no link and no `..` leads out. This module must never
open a pipe or a device: reading from it might never end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


class UnreadableFileError(Exception):
    """Why a file cannot be read, in words that a model may read."""


def resolve_inside(folder: Path, file: Path) -> Path:
    """Return the resolved path of `file`. Raises UnreadableFileError when it is not in `folder`.

    Args:
        folder: a folder with all links resolved.
        file: any path.
    """
    try:
        real = file.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        # RuntimeError: a cycle of links, before Python 3.13. ValueError: a NUL in the path.
        raise UnreadableFileError("does not exist") from error
    if not real.is_relative_to(folder):
        raise UnreadableFileError("leads out of the skill's folder")
    return real


def read_plain_file(file: Path, limit: int) -> bytes:
    """Return the content of a regular file.

    Args:
        file: a path with all links resolved.
        limit: the largest size in bytes.

    Raises:
        UnreadableFileError: it is not a regular file, is too large, or may not be read.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(file, flags | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableFileError("is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as reader:
                content = reader.read(limit + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnreadableFileError(f"cannot be read ({type(error).__name__})") from error
    if len(content) > limit:
        size = max(status.st_size, len(content))
        raise UnreadableFileError(f"is too large: {size:,} bytes, and the limit is {limit:,}")
    return content
