"""Finds the reader of a program whose words have a grammar of their own, such as `find` and `git`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adh.shell.code_options import read_code_options
from adh.shell.find_program import read_find
from adh.shell.git_program import read_git
from adh.shell.interpreters import read_interpreter
from adh.shell.network_programs import (
    read_curl,
    read_nc,
    read_remote_copy,
    read_ssh,
    read_wget,
)
from adh.shell.option_forms import Form, read_arguments
from adh.shell.parsed_line import Reading, Word
from adh.shell.text_programs import read_awk, read_sed
from adh.shell.wrappers import add_program, take_values

SU = Form(
    "-lmpPfh -c:command -g:plain -G:plain -s:code -w:plain --command=command --login --shell=code",
    "plain",
)
RUNS_AFTER = {
    "bundle": "exec", "poetry": "run", "uv": "run", "pipenv": "run", "pdm": "run", "rye": "run",
    "hatch": "run", "mise": "exec", "direnv": "exec", "npm": "exec", "pnpm": "exec", "yarn": "exec",
    "conda": "run", "rbenv": "exec", "pyenv": "exec", "asdf": "exec", "opam": "exec",
}  # fmt: skip
DD_READS = "if"
DD_WRITES = "of"


def read_special(name: str, words: Sequence[Word]) -> Reading | None:
    """Return the reading of a program with its own grammar; None if it has none.

    Args:
        name: the name of the program.
        words: its words, without the program itself.
    """
    if reader := READERS.get(name):
        return reader(words)
    if name in ("scp", "sftp", "rsync"):
        return read_remote_copy(name, words)
    if name in RUNS_AFTER and words and words[0].value == RUNS_AFTER[name]:
        return read_run_after(words[1:])
    return read_interpreter(name, words) or read_code_options(name, words)


def read_dd(words: Sequence[Word]) -> Reading:
    """Read `dd`, whose words are such as `of=file`."""
    reading = Reading()
    for word in words:
        name, equals, value = (word.value or "").partition("=")
        if word.value is None or not equals:
            reading.problems.append(f"{word.text!r} of dd is not known")
        elif name == DD_READS:
            reading.paths.append(("read", Word(word.text, value)))
        elif name == DD_WRITES:
            reading.paths.append(("write", Word(word.text, value)))
    return reading


def read_su(words: Sequence[Word]) -> Reading:
    """Read `su`: the line of `-c`, or the lines of its input."""
    found = read_arguments(SU, words)
    reading = take_values(found)
    if not any(role == "command" for role, _ in found.values):
        reading.problems.append("su runs the lines of its input")
    reading.elsewhere = True
    return reading


def read_run_after(words: Sequence[Word]) -> Reading:
    """Read a program that runs another after one word, such as `poetry run`."""
    reading = Reading()
    rest = list(words)
    if rest and rest[0].value == "--":
        rest.pop(0)
    if rest and (rest[0].value or rest[0].prefix).startswith("-"):
        reading.problems.append(f"the option {rest[0].text!r} is not known")
    else:
        add_program(reading, rest)
    return reading


READERS: dict[str, Callable[[Sequence[Word]], Reading]] = {
    "find": read_find,
    "git": read_git,
    "sed": read_sed,
    "gsed": read_sed,
    "awk": read_awk,
    "gawk": read_awk,
    "mawk": read_awk,
    "nawk": read_awk,
    "curl": read_curl,
    "wget": read_wget,
    "ssh": read_ssh,
    "nc": read_nc,
    "ncat": read_nc,
    "netcat": read_nc,
    "dd": read_dd,
    "su": read_su,
}
