"""Resolves the words of a command to the paths that it touches.

It reads no file: links are resolved by the function that the caller gives.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from adh.rules.facts import Access, PathUse
from adh.shell.parsed_line import Folders, FolderStep, Word

Resolve = Callable[[str], str]
UNRESTRICTED = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
# What is open there was judged where it was opened.
DESCRIPTORS = re.compile(r"/(?:dev|proc/self)/fd/[0-9]+")
# Links that lead elsewhere for each process, such as /proc/self/cwd.
OF_PROCESS = re.compile(r"/proc/(?:self|thread-self|[0-9]+)/.*")
NETWORK_FOLDERS = ("/dev/tcp/", "/dev/udp/")
# How a pattern begins that fits the name of the folder above.
FIT_PARENT = (".*", ".?", ".[", "..*")
UNKNOWN_FOLDER = "its folder is known only when it runs"


class Touched(Struct):
    """The paths and addresses of a command, and what could not be resolved."""

    paths: list[PathUse]
    urls: list[str]
    problems: list[str]


class PathResolver(Struct, frozen=True):
    """Where the words of a command lead.

    Args:
        folders: the folders that the command may run in.
        known: whether these are all the folders that it may run in.
        home: the person's home folder.
        resolve: returns an absolute path without links.
    """

    folders: tuple[str, ...]
    known: bool
    home: str
    resolve: Resolve

    def add(self, word: Word, access: Access, touched: Touched) -> None:
        """Add the paths of a word.

        Args:
            word: the word as a path.
            access: what the command does there.
            touched: what is added to.
        """
        is_input = word.value == "-" and access == "read"
        if (word.value == "" or is_input) and word.home is None:
            return
        if word.value is None and not self._is_bounded(word):
            if word.prefix.startswith("/dev/fd/"):
                return
            touched.problems.append(f"the path {word.text!r} is known only when it runs")
            return
        text = word.value if word.value is not None else word.prefix.rpartition("/")[0]
        if word.value is None and not text and word.prefix.startswith("/"):
            text = "/"
        # No file may fit a pattern: the program then receives the pattern itself.
        for written in (text,) if word.unmatched is None else (text, word.unmatched):
            if not self._add_network(written, touched):
                self._add_text(word, written, access, touched)

    def _is_bounded(self, word: Word) -> bool:
        goes_up = may_go_up(word.prefix if word.unmatched is None else word.unmatched)
        return word.pattern and not word.unknown and not goes_up

    def _add_network(self, text: str, touched: Touched) -> bool:
        normal = posixpath.normpath(text)
        for folder in NETWORK_FOLDERS:
            if normal.startswith(folder):
                host, _, port = normal[len(folder) :].partition("/")
                touched.urls.append(f"{folder[5:8]}://{host}:{port}")
                touched.problems.append("opens a network connection as a file")
                return True
        return False

    def _add_text(self, word: Word, text: str, access: Access, touched: Touched) -> None:
        if word.home is not None:
            if word.home:
                touched.problems.append(f"the home folder of {word.home} is not known")
                return
            starts: tuple[str, ...] = (self.home,)
            text = text.lstrip("/")
        else:
            starts = self.folders
            if not self.known and not text.startswith("/"):
                touched.problems.append(UNKNOWN_FOLDER)
        for start in starts:
            joined = posixpath.join(start, text) if text else start
            normal = "/" + posixpath.normpath(joined).lstrip("/")
            if normal in UNRESTRICTED or DESCRIPTORS.fullmatch(normal):
                continue
            if OF_PROCESS.fullmatch(normal):
                touched.problems.append(f"{normal} leads where only a run can tell")
            use = PathUse(self.resolve(joined), access, word.text)
            if use not in touched.paths:
                touched.paths.append(use)


def may_go_up(pattern: str) -> bool:
    """Whether a pattern may lead to a folder above the one that it begins in.

    In bash before 5.2 a pattern such as `.*` fits `..` too.

    >>> may_go_up("../*.py"), may_go_up("*/../x"), may_go_up("a/.*/x")
    (False, True, True)
    """
    names = pattern.split("/")
    return ".." in names[1:] or any(name.startswith(FIT_PARENT) for name in names)


def make_resolver(folders: Folders, folder: str, home: str, resolve: Resolve) -> PathResolver:
    """Return the resolver for a command that came to its folder in one of these ways."""
    found: list[str] = []
    known = True
    for way in sorted(folders, key=repr):
        if way is None:
            known = False
            continue
        for place in follow_folder_steps(way, folder, home, resolve):
            if place not in found:
                found.append(place)
    return PathResolver(tuple(found) or (folder,), known, home, resolve)


def follow_folder_steps(
    way: Sequence[FolderStep], folder: str, home: str, resolve: Resolve
) -> tuple[str, ...]:
    """Return the folders that a way of `cd` steps leads to: the logical and the physical one."""
    logical = physical = folder
    for step in way:
        target = step.target
        text = (target.value or "") if target is not None else ""
        if target is None or target.home is not None:
            text = posixpath.join(home, text.lstrip("/"))
        physical = resolve(posixpath.join(physical, text))
        logical = posixpath.normpath(posixpath.join(logical, text))
        if step.physical:
            logical = resolve(logical)
    return (logical,) if resolve(logical) == physical else (logical, physical)
