"""Patterns over names of tools, paths and words of a command.

It must never touch the disk: paths come resolved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from unicodedata import normalize

from adh.rules.facts import CommandUse

# Programs in these folders are the system's own; `./ls` may be anything.
SYSTEM_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
UNKNOWN_WORD = "\0"

_SEPARATORS = re.compile(r"([;&|(){}]+)")
_GIT_OPTIONS_WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix")
)


def match_tool(pattern: str, tool: str) -> bool:
    """Return whether a tool's name fits a pattern with `*`, in any case.

    >>> match_tool("Delete_*", "delete_file")
    True
    """
    return fnmatchcase(tool.casefold(), pattern.casefold().replace("[", "[[]"))


def is_inside(path: str, folder: str) -> bool:
    """Return whether a resolved path is the folder or lies in it. A path that is not resolved is not.

    >>> is_inside("/p/a", "/p"), is_inside("/pq", "/p"), is_inside("/p/../q", "/p")
    (True, False, False)
    """
    if not path.startswith("/") or any(name in (".", "..") for name in path.split("/")):
        return False
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def match_path(pattern: str, path: str, project: str, home: str = "") -> bool:
    """Return whether a resolved path fits a pattern, in any case.

    Without a slash the pattern is compared with the last name. With one it is compared with the
    whole path and with the path inside the project. `*` matches any characters, slashes included;
    a slash at the end means the folder and everything in it; `~/` is the home folder.

    Args:
        pattern: the pattern.
        path: the absolute path, resolved.
        project: the folder of the project, resolved.
        home: the home folder, resolved; without it `~/` matches nothing.

    >>> match_path("*.env", "/p/conf/a.env", "/p"), match_path("docs/*", "/p/docs/a/b", "/p")
    (True, True)
    >>> match_path(".ssh/", "/h/.ssh/id", "/p"), match_path("docs/*", "/q/docs/a", "/p")
    (True, False)
    """
    pattern, path = _fold(pattern), _fold(path)
    project, home = _fold(project), _fold(home)
    if pattern.startswith("~/"):
        if not home:
            return False
        pattern = _literal(home.rstrip("/")) + pattern[1:]
    candidates = [path]
    if is_inside(path, project):
        candidates.append(path[len(project.rstrip("/")) + 1 :])
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        return any(_match_folder(pattern.rstrip("/"), candidate) for candidate in candidates)
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    return any(fnmatchcase(candidate, form) for candidate in candidates for form in _forms(pattern))


def normalize_path(folder: str, written: str, home: str = "") -> str:
    """Return a path as it is written, absolute and without `.` and `..`; links are not followed.

    Args:
        folder: the folder that a relative path begins in, absolute.
        written: the path, with or without quotes around it.
        home: the home folder, for `~`.

    >>> normalize_path("/p", "a/../b"), normalize_path("/p", "~/c", "/h")
    ('/p/b', '/h/c')
    """
    plain = written.strip("'\"")
    if plain == "~" or plain.startswith("~/"):
        plain = home + plain[1:]
    names: list[str] = []
    for name in (plain if plain.startswith("/") else f"{folder}/{plain}").split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names)


def reaches_outside(pattern: str) -> bool:
    """Return whether a pattern names a place outside of any project: it begins with `/` or `~/`."""
    return pattern.startswith(("/", "~/"))


def _match_folder(pattern: str, candidate: str) -> bool:
    if not pattern:
        return True
    if "/" not in pattern:
        return any(fnmatchcase(name, pattern) for name in candidate.split("/") if name)
    forms = _forms(pattern)
    return any(fnmatchcase(candidate, form + end) for form in forms for end in ("", "/*"))


def _forms(pattern: str) -> tuple[str, ...]:
    # "**/" also stands for no folder at all.
    short = pattern.removeprefix("**/")
    return (pattern, short, pattern.replace("/**/", "/"))


def _fold(text: str) -> str:
    # Some file systems make no difference between cases, and none between forms of a letter.
    return normalize("NFC", text).casefold()


def _literal(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def match_words(pattern: str, words: Sequence[str]) -> bool:
    """Return whether the words, joined by one space, fit a pattern with `*`.

    >>> match_words("git push *", ["git", "push", "origin"])
    True
    """
    return fnmatchcase(" ".join(words), " ".join(pattern.split()))


def starts_with_words(beginning: str, words: Sequence[str], *, strict: bool = False) -> bool:
    """Return whether the words begin with these words.

    Args:
        beginning: the words to begin with, apart by spaces.
        words: the words of a command.
        strict: whether a word after the program that is known only at run time counts as the one that is
            asked for.

    >>> starts_with_words("git push", ["git", "push", "-f"]), starts_with_words("ls", ["lsof"])
    (True, False)
    """
    wanted = beginning.split()
    return len(words) >= len(wanted) and all(
        word == one or (strict and at > 0 and word == UNKNOWN_WORD)
        for at, (word, one) in enumerate(zip(words, wanted, strict=False))
    )


def list_word_forms(command: CommandUse, *, strict: bool) -> tuple[tuple[str, ...], ...]:
    """Return the forms of a command's words that a rule is compared with.

    A rule that frees a command sees it as it is written: `./ls` is not `ls`. A rule that restricts one
    must not be evaded, so it also sees the program without its folder and in small letters, and git
    without the options before its subcommand.

    Args:
        command: the command.
        strict: whether the rule asks or denies.

    >>> list_word_forms(CommandUse(("/bin/ls", "-l"), ""), strict=False)
    (('ls', '-l'),)
    """
    words = tuple(UNKNOWN_WORD if word is None else word for word in command.argv)
    if not words:
        return ((),)
    folder, _, name = words[0].rpartition("/")
    plain = (name, *words[1:]) if folder in SYSTEM_FOLDERS else words
    if not strict:
        return (plain,)
    lowered = (name.casefold(), *words[1:])
    forms = [plain, words, lowered]
    if lowered[0] == "git":
        forms.append(("git", *_skip_git_options(words[1:])))
    return tuple(dict.fromkeys(forms))


def _skip_git_options(words: Sequence[str]) -> tuple[str, ...]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_OPTIONS_WITH_VALUE else 1
    return tuple(words[at:])


def defines_fork_bomb(line: str) -> bool:
    """Return whether a function of the line starts itself twice through a pipe.

    Args:
        line: the whole command line.

    >>> defines_fork_bomb(":(){ :|:& };:"), defines_fork_bomb("function f { f | f & }; f")
    (True, True)
    >>> defines_fork_bomb("f() { ls elf|fox; }; f")
    False
    """
    parts = _SEPARATORS.split("".join(line.split()))
    words, ends = parts[::2], parts[1::2]
    defined = {
        word.removeprefix("function")
        for word, end in zip(words, ends, strict=False)
        if end.startswith("(){") or (word.startswith("function") and end.startswith("{"))
    }
    return any(
        word in defined and end == "|" and word == following
        for word, end, following in zip(words, ends, words[1:], strict=False)
    )
