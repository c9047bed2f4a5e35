"""Reads shells and interpreters: a line for a shell is judged in turn, other code is a problem."""

from __future__ import annotations

from collections.abc import Sequence

from adh.shell.option_forms import Form, read_arguments
from adh.shell.parsed_line import Reading, Word
from adh.shell.wrappers import add_line, take_values

SAME_GRAMMAR = frozenset({"bash", "sh", "dash", "ash"})
SHELLS = SAME_GRAMMAR | {
    "zsh",
    "ksh",
    "mksh",
    "fish",
    "csh",
    "tcsh",
    "rbash",
    "yash",
    "nu",
    "xonsh",
    "elvish",
    "es",
    "ion",
    "oksh",
    "osh",
    "posh",
    "rc",
    "sash",
    "ysh",
}
SHELL = Form(
    "-abefhimnpruvxBCEHPTcls -o:plain -O:code --norc --noprofile --posix --login --noediting "
    "--restricted --verbose --rcfile=code --init-file=code --version --help",
    stops=True,
)
VERSIONS = frozenset({"-V", "-h", "-v", "--version", "--help"})
INTERPRETERS = {
    "python": Form("-bBdEhiIOPqsSuvVx -W:plain -X:plain -c:code -m:module --version --help"),
    "pypy": Form("-bBdEhiIOPqsSuvVx -W:plain -X:plain -c:code -m:module --version --help"),
    "perl": Form("-acfhlnpsStTuUvVwWX -0?:plain -C?:plain -D?:code -d?:code -e:code -E:code -F:code -i?:write -I:plain -m:code -M:code -x?:code --version --help"),
    "ruby": Form("-alnpsSvVwWhy -c -C:code -e:code -E:plain -F:plain -i?:write -I:code -K:plain -r:code -x?:code --version --help"),
    "node": Form("-v -h -c -i -e:code -p:code -r:code --eval=code --print=code --require=code --import=code --loader=code --experimental-loader=code --check --interactive --test --watch --version --help --enable-source-maps --no-warnings --trace-warnings --max-old-space-size=plain --test-reporter=plain --inspect?=code --env-file=read"),
    "nodejs": Form("-v -h -e:code -p:code -r:code --eval=code --print=code --version --help"),
    "php": Form("-vhiamnqswl -r:code -B:code -R:code -E:code -F:code -d:code -c:code -z:code -f:run -S:plain -t:plain --version --help"),
}  # fmt: skip


def read_interpreter(name: str, words: Sequence[Word]) -> Reading | None:
    """Return the code or file that a shell or an interpreter runs; None if the program is none.

    Args:
        name: the name of the program.
        words: its words, without the program itself.
    """
    plain = name.rstrip("0123456789.-") or name
    if name in SHELLS or plain in SHELLS:
        return read_shell(plain, words)
    form = INTERPRETERS.get(plain)
    if form is None:
        return None
    found = read_arguments(Form(form.options, stops=True), words)
    reading = take_values(found)
    roles = {role for role, _ in found.values}
    if found.operands and found.operands[0].value != "-":
        if "module" not in roles:
            reading.paths.append(("run", found.operands[0]))
    elif not roles & {"code", "module", "run"} and not VERSIONS & set(found.options):
        reading.problems.append(f"{name} runs the code of its input")
    return reading


def read_shell(name: str, words: Sequence[Word]) -> Reading:
    """Return the code that a shell runs: the line of `-c`, a file, or its input."""
    found = read_arguments(SHELL, words)
    reading = take_values(found)
    operands = found.operands
    if operands and (operands[0].value or "").startswith("+"):
        reading.problems.append(f"the option {operands[0].text!r} is not known")
    elif "-c" in found.options:
        if name not in SAME_GRAMMAR:
            reading.problems.append(f"an argument of {name} is code")
        line = operands[:1] or [Word("", None, unknown=True)]
        add_line(reading, line, to_bash=name == "bash")
    elif operands and "-s" not in found.options and operands[0].value != "-":
        reading.paths.append(("run", operands[0]))
    elif not {"--version", "--help"} & set(found.options):
        reading.problems.append(f"{name} runs the lines of its input")
    return reading
