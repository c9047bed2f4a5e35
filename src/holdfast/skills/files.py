"""Reads files of a skill's folder, and nothing outside of it.

A path is resolved before it is judged, so that no link and no `..` leads out. This module must never
wait for a file that is not a plain one: a pipe would not end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


class UnreadableFileError(Exception):
    """Why a file is not given out, in words that a model may read."""


def resolve_inside(folder: Path, file: Path) -> Path:
    """Where `file` really is. Raises UnreadableFileError when that is not in `folder`.

    Args:
        folder: without links.
        file: any path.
    """
    try:
        real = file.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        # RuntimeError: links in a circle, before Python 3.13; ValueError: a NUL in the path.
        raise UnreadableFileError("does not exist") from error
    if not real.is_relative_to(folder):
        raise UnreadableFileError("leads out of the skill's folder")
    return real


def read_plain_file(file: Path, limit: int) -> bytes:
    """The content of a plain file.

    Args:
        file: without links.
        limit: the most bytes.

    Raises:
        UnreadableFileError: it is no plain file, too large, or may not be read.
    """
    # Without O_NONBLOCK opening a pipe waits for somebody to write into it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        opened = os.open(file, flags | getattr(os, "O_BINARY", 0))
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableFileError("is no plain file")
            with os.fdopen(opened, "rb", closefd=False) as reader:
                content = reader.read(limit + 1)
        finally:
            os.close(opened)
    except OSError as error:
        raise UnreadableFileError(f"cannot be read ({type(error).__name__})") from error
    if len(content) > limit:
        shown = max(found.st_size, len(content))
        raise UnreadableFileError(f"is too large: {shown:,} bytes, and at most {limit:,} are read")
    return content
