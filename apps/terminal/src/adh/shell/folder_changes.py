"""Follows the working folder through `cd` and `pushd`, as far as the words tell.

It never looks at the disk: a `cd` may fail, so both folders are possible afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from adh.shell.parsed_line import Folders, FolderStep, Word
from adh.shell.tree_checks import walk_nodes
from adh.shell.word_nodes import get_text

CHANGING = frozenset({"cd", "pushd", "popd"})
PASSING = frozenset({"builtin", "command", "eval", "source", "."})
MOST_FOLDERS = 16


def may_change_folder(node: Node) -> bool:
    """Whether a command below the node changes the folder; a name in quotes counts as one."""
    for inner in walk_nodes(node):
        if inner.type == "command_name":
            text = get_text(inner).replace("\\", "").strip("'\"")
            if text in CHANGING or text in PASSING or not text.replace("_", "a").isalnum():
                return True
    return False


def change_folders(words: Sequence[Word], folders: Folders) -> tuple[Folders, Folders]:
    """Return the possible folders after a command, and those after its success."""
    if not words:
        return folders, folders
    name, rest = words[0].value, list(words[1:])
    if name in ("builtin", "command") and rest and rest[0].value in CHANGING:
        name, rest = rest[0].value, rest[1:]
    if name in ("eval", "source", ".", "popd"):
        return folders | {None}, folders | {None}
    if name not in CHANGING:
        return folders, folders
    step = read_change(name or "", rest)
    changed: Folders = frozenset(
        None if step is None or way is None else (*way, step) for way in folders
    )
    if len(folders | changed) > MOST_FOLDERS:
        return frozenset({None}), frozenset({None})
    return folders | changed, changed


def read_change(name: str, words: list[Word]) -> FolderStep | None:
    """Return the change that the words of `cd` or `pushd` make; None if only a run can tell."""
    physical = False
    while words and words[0].value in ("-P", "-L", "-e", "--", "-"):
        option = words.pop(0).value
        if option == "-":
            return None
        physical = physical or option == "-P"
        if option == "--":
            break
    if not words:
        return FolderStep(None, physical) if name == "cd" else None
    target = words[0]
    if len(words) > 1 or target.value is None:
        return None
    if target.home:
        return None
    if target.home is None and target.value[:1] in ("-", "+", ""):
        return None
    return FolderStep(target, physical)
