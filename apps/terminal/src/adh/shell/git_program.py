"""Reads `git`: whether a form only reads, the programs that it may run, and the addresses that it reaches."""

from __future__ import annotations

from collections.abc import Sequence

from adh.shell.code_options import is_code_option
from adh.shell.git_forms import find_shown_file, is_read_only_git
from adh.shell.network_programs import is_remote_path
from adh.shell.parsed_line import Reading, Word

COMMANDS = frozenset(
    [
        "add",
        "am",
        "apply",
        "archive",
        "bisect",
        "blame",
        "branch",
        "bundle",
        "cat-file",
        "check-attr",
        "check-ignore",
        "checkout",
        "cherry",
        "cherry-pick",
        "clean",
        "clone",
        "commit",
        "commit-graph",
        "commit-tree",
        "config",
        "count-objects",
        "describe",
        "diff",
        "diff-files",
        "diff-index",
        "diff-tree",
        "fetch",
        "for-each-ref",
        "format-patch",
        "fsck",
        "gc",
        "grep",
        "hash-object",
        "help",
        "init",
        "log",
        "ls-files",
        "ls-remote",
        "ls-tree",
        "maintenance",
        "merge",
        "merge-base",
        "mv",
        "name-rev",
        "notes",
        "prune",
        "pull",
        "push",
        "range-diff",
        "read-tree",
        "rebase",
        "reflog",
        "remote",
        "repack",
        "replace",
        "reset",
        "restore",
        "rev-list",
        "rev-parse",
        "revert",
        "rm",
        "shortlog",
        "show",
        "show-branch",
        "show-ref",
        "sparse-checkout",
        "stash",
        "status",
        "submodule",
        "switch",
        "symbolic-ref",
        "tag",
        "update-index",
        "update-ref",
        "verify-commit",
        "verify-tag",
        "version",
        "whatchanged",
        "worktree",
        "write-tree",
    ]
)
RUNS_CODE = {
    "bisect": "run visualize view",
    "rebase": "-x --exec",
    "submodule": "foreach",
    "grep": "-O --open-files-in-pager",
    "clone": "-c --config --template -u --upload-pack",
    "init": "--template",
    "fetch": "--upload-pack",
    "pull": "--upload-pack",
    "ls-remote": "--upload-pack",
    "push": "--receive-pack --exec",
    "archive": "--exec --remote",
    "log": "--ext-diff --textconv",
    "show": "--ext-diff --textconv",
    "diff": "--ext-diff --textconv",
    "commit": "-e --edit",
    "help": "-w --web -i --info",
}  # fmt: skip
CONFIG_READS = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"})
GLOBAL_FLAGS = frozenset(
    {"--no-pager", "-P", "--version", "--help", "--no-optional-locks", "--literal-pathspecs"}
)
REACHES = frozenset({"clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule"})
SHOWS_FILES = frozenset({"diff", "log", "show", "status"})
RUNNING_SCHEMES = ("ext::", "fd::")


def read_git(words: Sequence[Word]) -> Reading:
    """Return the reading of a form of `git`.

    Args:
        words: its words, without the program itself.
    """
    reading = Reading()
    rest = list(words)
    while rest and (rest[0].value or "").startswith("-"):
        read_global_option(rest, reading)
    if not rest:
        return reading
    name, *others = rest
    if name.value is None or name.value not in COMMANDS:
        reading.problems.append(f"git {name.text} may be an alias of anything")
        return reading
    for option in RUNS_CODE.get(name.value, "").split():
        if any(is_code_option(word, option) for word in others):
            reading.problems.append(f"an argument of git {name.value} is code")
            break
    if name.value == "config" and not (others and others[0].value in CONFIG_READS):
        reading.problems.append("git config sets what git runs later")
    if name.value in REACHES:
        add_addresses(others, reading)
    for word in others:
        add_output(word, reading)
    argv = ["git", *(word.value for word in words)]
    reading.read_only = all(w.home is None for w in words) and is_read_only_git(argv)
    if reading.read_only and name.value in SHOWS_FILES:
        add_shown_files(others, reading)
    return reading


def add_shown_files(words: Sequence[Word], reading: Reading) -> None:
    """Add the files that a read-only form shows. A revision counts as a file of its name."""
    for word in words:
        text = word.value or ""
        path = "" if text.startswith("-") else find_shown_file(text)
        if path:
            reading.paths.append(("read", Word(word.text, path)))


def read_global_option(rest: list[Word], reading: Reading) -> None:
    """Take one option before the name of the form, with its value."""
    option = rest.pop(0).value or ""
    if option == "-C":
        reading.paths.extend(("list", word) for word in rest[:1])
        del rest[:1]
    elif option not in GLOBAL_FLAGS:
        reading.problems.append(f"the option {option} changes what git runs")
        if "=" not in option:
            del rest[:1]


def add_addresses(words: Sequence[Word], reading: Reading) -> None:
    """Add the addresses of other repositories."""
    for word in words:
        text = word.value if word.value is not None else word.prefix
        if text.startswith(RUNNING_SCHEMES):
            reading.problems.append("the address of a repository is a command")
        elif "://" in text:
            reading.urls.append(text)
        elif is_remote_path(text) and not text.startswith("-") and "@" in text:
            reading.urls.append(f"ssh://{text}")


def add_output(word: Word, reading: Reading) -> None:
    """Add the file that `--output` writes."""
    text = word.value if word.value is not None else word.prefix
    option, equals, value = text.partition("=")
    if len(option) > 4 and "--output".startswith(option):
        if not equals or word.value is None:
            reading.problems.append("git writes a file that is not known")
        else:
            reading.paths.append(("write", Word(word.text, value)))
