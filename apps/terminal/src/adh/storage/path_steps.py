"""Opens a path step by step through directory descriptors, so that no symbolic link is ever followed.

A path is checked first and used later. If somebody replaces one of its folders by a link in between, the
step over it fails here. This module must never resolve a path itself: it takes an absolute path that was
resolved when the call was judged.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from adh.storage.storage_errors import LinkInPathError, ProjectFileError

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP_FLAGS = _STEP | getattr(os, "O_PATH", os.O_RDONLY)
_FILE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"),
)


def name_kind(mode: int) -> str:
    """Return the word for the kind of a file, by its `st_mode`.

    >>> name_kind(0o100644)
    'file'
    """
    return next((word for matches, word in _KINDS if matches(mode)), "file of an unknown kind")


@contextmanager
def open_parent(path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that holds a path, and the last part of the path.

    Args:
        path: an absolute path without `..` and without links. The last part need not exist.
        create: whether missing folders are created, with the mode 0777 less the umask.

    Raises:
        LinkInPathError: a folder of the path is a symbolic link.
        OSError: a folder does not exist or may not be entered.
        ValueError: the path is not absolute, or has a part `..`.
    """
    steps = _split_path(path)
    folder = os.open("/", _STEP_FLAGS)
    try:
        for count, step in enumerate(steps[:-1], start=1):
            inner = _open_step(folder, step, "/" + "/".join(steps[:count]), create)
            os.close(folder)
            folder = inner
        yield folder, steps[-1] if steps else "."
    finally:
        os.close(folder)


def _split_path(path: str) -> list[str]:
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if not path.startswith("/") or ".." in steps:
        raise ValueError("the path must be absolute and without '..'")
    return steps


def _open_step(folder: int, step: str, path: str, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(step, dir_fd=folder)
    try:
        return os.open(step, _STEP_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and is_link(folder, step):
            raise make_link_error(path) from None
        error.filename = path
        raise


def is_link(folder: int, name: str) -> bool:
    """Whether the entry of this folder is a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def make_link_error(path: str) -> LinkInPathError:
    """Return the error for a path that is a symbolic link where none was expected."""
    return LinkInPathError(
        path,
        "is a symbolic link that was not there when the call was judged",
        "Call the tool again",
    )


def open_regular_file(folder: int, name: str, path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file of a folder. Pipes, sockets and devices are refused, and never waited for.

    Args:
        folder: a descriptor of the folder.
        name: the name of the entry.
        path: the whole path, for errors.
        flags: how the file is opened.

    Raises:
        LinkInPathError: the entry is a symbolic link.
        ProjectFileError: the entry is not a regular file.
        OSError: it does not exist or may not be opened.
    """
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    _check_regular(found.st_mode, path)
    try:
        descriptor = os.open(name, flags | _FILE_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise make_link_error(path) from None
        raise
    try:
        # It may have been replaced since.
        _check_regular(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(mode: int, path: str) -> None:
    if stat.S_ISLNK(mode):
        raise make_link_error(path)
    if not stat.S_ISREG(mode):
        kind = name_kind(mode)
        fix = "List it instead" if kind == "folder" else "Only regular files are read or written"
        raise ProjectFileError(path, f"is not a regular file but a {kind}", fix)


def open_folder(folder: int, name: str, path: str) -> int:
    """Open a folder so that its entries can be listed.

    Raises:
        LinkInPathError: the entry is a symbolic link.
        OSError: it does not exist, is not a folder, or may not be listed.
    """
    try:
        return os.open(name, _STEP | os.O_RDONLY, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and is_link(folder, name):
            raise make_link_error(path) from None
        raise
