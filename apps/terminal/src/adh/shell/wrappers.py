"""Sees through the programs that run another program, such as `env`, `sudo` and `xargs`.

A wrapper that cannot be seen through for certain is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from adh.shell.operand_roles import Roles, add_value
from adh.shell.option_forms import Arguments, Form, read_arguments
from adh.shell.parsed_line import Reading, Word
from adh.shell.variables import is_safe_value

UNKNOWN_OPERANDS: Final = Word("...", None, many=True)
APPENDED: Final = Word("...", None, many=True, unknown=True)
HELP = " --help --version"

# A form whose operands are "command" runs its operands, after `skip` others.
WRAPPERS = {
    "time": Form("-pvaq -f:plain -o:write --portability --verbose --append --quiet --format=plain --output=write"),
    "nice": Form("-0123456789 -n:plain --adjustment=plain" + HELP),
    "nohup": Form(HELP),
    "timeout": Form("-fpv -k:plain -s:plain --foreground --kill-after=plain --signal=plain --preserve-status --verbose" + HELP, skip=1),
    "stdbuf": Form("-i:plain -o:plain -e:plain --input=plain --output=plain --error=plain" + HELP),
    "setsid": Form("-cfw --ctty --fork --wait" + HELP),
    "ionice": Form("-t -c:plain -n:plain --class=plain --classdata=plain --ignore" + HELP),
    "chrt": Form("-abfimorRv -T:plain -P:plain -D:plain", skip=1),
    "taskset": Form("-a -c --all-tasks --cpu-list", skip=1),
    "builtin": Form(),
    "exec": Form("-cl -a:code"),
    "coproc": Form(),
    "doas": Form("-nL -C:read -u:plain"),
    "chroot": Form("--userspec=plain --groups=plain --skip-chdir", skip=1),
    "unshare": Form("-imnpuUCTrfc --map-root-user --fork --mount --net --pid --user"),
    "fakeroot": Form("-lhv -s:write -i:read"),
    "strace": Form("-cCdfFhiqrtTvVwxyz -e:plain -o:write -p:plain -s:plain -u:plain -a:plain -E:env"),
    "ltrace": Form("-cCfhiLrStTV -e:plain -o:write -p:plain -s:plain -u:plain"),
    "unbuffer": Form("-p"),
    "rlwrap": Form(""),
    "xvfb-run": Form("-a --auto-servernum"),
    "catchsegv": Form(),
    "busybox": Form(),
    "toybox": Form(),
    "runuser": Form("-u:plain"),
    "systemd-inhibit": Form(),
    "linux32": Form(),
    "linux64": Form(),
    "setarch": Form("-BFILRSTXZ v", skip=1),
    "prlimit": Form(),
    "firejail": Form(),
    "torsocks": Form(),
    "proxychains": Form("-q"),
    "proxychains4": Form("-q"),
    "pkexec": Form("--user=plain --disable-internal-agent"),
    "cgexec": Form("-g:plain --sticky"),
    "dbus-run-session": Form("--config-file=read --dbus-daemon=code"),
    "aa-exec": Form("-div -p:plain -n:plain"),
    "numactl": Form("-N:plain -m:plain -C:plain -i:plain -p:plain -l"),
    "direnv": Form(),
    "faketime": Form("-fm", skip=1),
    "caffeinate": Form("-dimsu -t:plain -w:plain"),
    "chpst": Form("-u:plain -n:plain"),
    "softlimit": Form("-m:plain"),
    "aoss": Form(),
    "chronic": Form("-ve"),
    "choom": Form("-n:plain --adjust=plain" + HELP),
    "cpulimit": Form("-zfiv -l:plain --limit=plain --foreground --include-children --verbose" + HELP),
    "dumb-init": Form("-cv --single-child --verbose"),
    "eatmydata": Form(),
    "gosu": Form(HELP, skip=1),
    "grc": Form("--pty --colour=plain" + HELP),
    "logsave": Form("-asv", skip=1),
    "multitime": Form("-ql -n:plain -s:plain"),
    "nocache": Form("-n:plain"),
    "pexec": Form(),
    "setlock": Form("-nNxX", skip=1),
    "setpriv": Form("--no-new-privs --clear-groups --reuid=plain --regid=plain --groups=plain" + HELP),
    "sshpass": Form("-ev -f:read -d:plain -p:plain -P:plain"),
    "su-exec": Form(skip=1),
    "systemd-cat": Form("-t:plain -p:plain --identifier=plain --priority=plain" + HELP),
    "tini": Form("-svgw -p:plain"),
    "torify": Form("-q"),
    "tsocks": Form(),
}  # fmt: skip
SET_LETTERS = frozenset("euxo")
PIPE_OPTIONS = frozenset({"pipefail", "errexit", "nounset", "xtrace"})
OPENS_SHELL = frozenset(
    {
        "chroot",
        "unshare",
        "fakeroot",
        "setarch",
        "linux32",
        "linux64",
        "runuser",
        "firejail",
        "doas",
    }
)
READ_BY_BASH_ALONE = re.compile(r"""\$['"]|\[\[\s|&>|\{[^\s}]*(?:,|\.\.)""")
"""Quotes, tests, redirections and lists of braces that other shells take for text or for programs."""
KEYWORDS = frozenset({"time", "coproc"})
ENV = Form(
    "-i0v -u:plain -C:elsewhere -S:code --ignore-environment --null --unset=plain --chdir=elsewhere "
    "--split-string=code --block-signal?=plain --default-signal?=plain --ignore-signal?=plain "
    "--debug" + HELP,
    stops=True,
)
SUDO = Form(
    "-AbBEHknPSK -C:plain -g:plain -p:plain -T:plain -u:plain -D:elsewhere --user=plain "
    "--group=plain --preserve-env?=plain --set-home --stdin --non-interactive --background "
    "--chdir=elsewhere --prompt=plain" + HELP,
    stops=True,
)
XARGS = Form(
    "-0oprtx -a:read -d:plain -E:plain -e?:plain -I:plain -i?:plain -L:plain -l?:plain -n:plain "
    "-P:plain -s:plain --null --arg-file=read --delimiter=plain --eof?=plain --replace?=plain "
    "--max-lines?=plain --max-args=plain --max-procs=plain --interactive --no-run-if-empty "
    "--max-chars=plain --show-limits --verbose --exit --open-tty --process-slot-var=plain" + HELP,
    stops=True,
)
COMMAND = Form("-pvV", stops=True)
FLOCK = Form(
    "-senowxuFv -E:plain -c:command --shared --exclusive --unlock --nonblock --nb --close --verbose "
    "--wait=plain --timeout=plain --conflict-exit-code=plain --no-fork" + HELP,
    stops=True,
)
WATCH = Form(
    "-bcdegptwxC -n:plain -q:plain --beep --color --no-color --differences?=plain --errexit "
    "--chgexit --interval=plain --precise --no-title --no-wrap --exec" + HELP,
    stops=True,
)


def read_wrapper(name: str, words: Sequence[Word]) -> Reading | None:
    """Return the program that a wrapper runs; None if the program is none.

    Args:
        name: the name of the program.
        words: its words, without the program itself.
    """
    if name in SPECIAL:
        return SPECIAL[name](words)
    form = WRAPPERS.get(name)
    if form is None:
        return None
    found = read_arguments(Form(form.options, stops=True), words)
    reading = take_values(found)
    for word in found.operands[: form.skip]:
        if word.value is None:
            reading.problems.append(f"{word.text!r} is known only when it runs")
    program = found.operands[form.skip :]
    if not program and name in OPENS_SHELL:
        reading.problems.append(f"{name} opens a shell that runs the lines of its input")
    if name in KEYWORDS:
        program = take_keyword_assignments(reading, program)
    add_program(reading, program)
    return reading


def take_values(found: Arguments) -> Reading:
    """Return the reading of a wrapper's own options."""
    roles = Roles([], list(found.problems))
    reading = Reading()
    for role, word in found.values:
        if role == "elsewhere":
            reading.elsewhere = True
            roles.paths.append(("list", word))
        elif role == "command":
            add_line(reading, [word])
        elif role == "env":
            add_variable(reading, word)
        else:
            add_value(role, word, roles)
    reading.paths.extend(roles.paths)
    reading.problems.extend(roles.problems)
    return reading


def add_program(reading: Reading, words: Sequence[Word]) -> None:
    """Add a program that is run with these words."""
    if words:
        reading.programs.append(tuple(words))


def add_line(reading: Reading, words: Sequence[Word], *, to_bash: bool = False) -> None:
    """Add a command line that a shell is given as these words.

    Args:
        reading: the reading that is added to.
        words: the words of the line.
        to_bash: whether the shell is certainly bash, as which every line is read.
    """
    if any(word.value is None or word.home is not None for word in words):
        reading.problems.append("gives a shell a line that is known only when it runs")
        return
    line = " ".join(word.value or "" for word in words)
    if not to_bash and (found := READ_BY_BASH_ALONE.search(line)):
        reading.problems.append(
            f"gives a shell {found[0]!r}, which not every shell reads as bash does"
        )
    reading.lines.append(line)


def add_variable(reading: Reading, word: Word) -> None:
    """Add a variable that is set for the program that is run."""
    name, _, value = (word.value or word.prefix).partition("=")
    reading.variables.append(name)
    if not is_safe_value(name, value if word.value is not None else None):
        reading.problems.append(f"sets {name} to another encoding")


def take_assignments(reading: Reading, operands: Sequence[Word]) -> list[Word]:
    """Take the leading words such as `NAME=value`, and return the others."""
    rest = list(operands)
    while rest and "=" in (rest[0].value or rest[0].prefix):
        add_variable(reading, rest.pop(0))
    return rest


def take_keyword_assignments(reading: Reading, operands: Sequence[Word]) -> list[Word]:
    """Take the assignments that follow a word of the grammar, such as `time A=1 ls`."""
    rest = list(operands)
    while rest and "=" in rest[0].text:
        name = rest[0].text.partition("=")[0].removesuffix("+")
        if not name.isidentifier():
            reading.problems.append(f"{rest[0].text!r} may set a variable")
            break
        reading.variables.append(name)
        rest.pop(0)
    return rest


def read_env(words: Sequence[Word]) -> Reading:
    """Read `env`."""
    if words and words[0].value == "-":
        words = words[1:]
    found = read_arguments(ENV, words)
    reading = take_values(found)
    add_program(reading, take_assignments(reading, found.operands))
    return reading


def read_sudo(words: Sequence[Word]) -> Reading:
    """Read `sudo`. Its options that open a shell or an editor are problems."""
    found = read_arguments(SUDO, words)
    reading = take_values(found)
    add_program(reading, take_assignments(reading, found.operands))
    return reading


def read_xargs(words: Sequence[Word]) -> Reading:
    """Read `xargs`: the words that it adds are known only when it runs."""
    found = read_arguments(XARGS, words)
    reading = take_values(found)
    replaces = any(option in ("-I", "-i", "--replace") for option in found.options)
    if replaces and found.operands:
        # Any word may hold the text that is replaced, and the text may be set in many ways.
        first, *rest = found.operands
        unknown = [Word(word.text, None, unknown=True) for word in rest]
        add_program(reading, [first, *unknown])
        names = [word.value for role, word in found.values if role == "plain"] + ["{}"]
        if first.value is None or any(name and name in first.value for name in names):
            reading.problems.append("the program is known only when it runs")
        return reading
    add_program(reading, [*(found.operands or [Word("echo", "echo")]), APPENDED])
    return reading


def read_command(words: Sequence[Word]) -> Reading:
    """Read `command`, which runs a program unless it only looks for it."""
    found = read_arguments(COMMAND, words)
    reading = take_values(found)
    if not {"-v", "-V"} & set(found.options):
        add_program(reading, found.operands)
    return reading


def read_flock(words: Sequence[Word]) -> Reading:
    """Read `flock`, whose first operand is a file, and whose others are a program or `-c LINE`."""
    found = read_arguments(FLOCK, words)
    reading = take_values(found)
    lock, *rest = found.operands or [APPENDED]
    reading.paths.append(("write", lock))
    if rest and rest[0].value in ("-c", "--command"):
        add_line(reading, rest[1:])
    else:
        add_program(reading, rest)
    return reading


def read_watch(words: Sequence[Word]) -> Reading:
    """Read `watch`, which gives its words to a shell, or runs them with `-x`."""
    found = read_arguments(WATCH, words)
    reading = take_values(found)
    if {"-x", "--exec"} & set(found.options):
        add_program(reading, found.operands)
    elif found.operands:
        add_line(reading, found.operands)
    return reading


def read_eval(words: Sequence[Word]) -> Reading:
    """Read `eval`: its line is judged, and a person sees it, as bash reads it a second time."""
    reading = Reading(problems=["eval runs its words as a line"])
    if words and all(word.value is not None and word.home is None for word in words):
        add_line(reading, words, to_bash=True)
    return reading


def read_trap(words: Sequence[Word]) -> Reading:
    """Read `trap`, whose first word is a line that runs later."""
    rest = [word for word in words if word.value != "--"]
    if not rest or rest[0].value in ("-l", "-p"):
        return Reading()
    reading = Reading(problems=["trap runs a line later"])
    if rest[0].value not in ("", "-"):
        add_line(reading, rest[:1], to_bash=True)
    return reading


def read_set(words: Sequence[Word]) -> Reading:
    """Read `set`: only the options that make a line stricter or more talkative are known."""
    values = [word.value for word in words]
    if values and values[-1] in PIPE_OPTIONS and (values[-2:-1] or [""])[0] not in ("", None):
        values.pop()
    if all(
        value is not None and value.lstrip("-+") and set(value[1:]) <= SET_LETTERS
        for value in values
    ):
        return Reading()
    return Reading(problems=["set changes how lines are read"])


def is_operand(word: Word) -> bool:
    """Whether a word stands for the operands of `[ ]`, which are read from the tree."""
    return word is UNKNOWN_OPERANDS


def read_test(words: Sequence[Word]) -> Reading:
    """Read `test`: it evaluates the name of a variable as an expression."""
    reading = Reading()
    if any(word.many and not is_operand(word) for word in words) or any(
        word.value in ("-v", "-R") for word in words
    ):
        reading.problems.append("test may evaluate the value of a variable as an expression")
    if len(words) == 2 and words[0].value is None:
        reading.problems.append("the operator of a test is known only when it runs")
    return reading


SPECIAL: dict[str, Callable[[Sequence[Word]], Reading]] = {
    "env": read_env,
    "sudo": read_sudo,
    "xargs": read_xargs,
    "command": read_command,
    "flock": read_flock,
    "watch": read_watch,
    "eval": read_eval,
    "trap": read_trap,
    "set": read_set,
    "test": read_test,
    "[": read_test,
}
