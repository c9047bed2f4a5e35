"""Reads the little languages of `sed` and `awk`: only scripts that certainly run nothing and write nothing."""

from __future__ import annotations

from collections.abc import Sequence

from adh.shell.option_forms import Form, read_arguments
from adh.shell.parsed_line import Reading, Word
from adh.shell.wrappers import take_values

SED = Form(
    "-nErsuz -e:script -f:code -i?:inplace -l:plain --quiet --silent --regexp-extended --separate "
    "--unbuffered --null-data --expression=script --file=code --in-place?=inplace "
    "--line-length=plain --posix --debug --sandbox --follow-symlinks --help --version"
)
AWK = Form(
    "-F:plain -v:plain -f:code -e:code -E:code -i:code -l:code --field-separator=plain "
    "--assign=plain --file=code --version --help",
    stops=True,
)
SED_COMMANDS = frozenset("pdqQnNgGhHxDPl=")
SED_FLAGS = frozenset("gpiIm0123456789")
SED_SPACES = " \t"
SED_ENDS = ";\n}"
# Signs of awk that it writes, runs or reads by itself; `>` compares too, but need not be distinguished.
AWK_ACTS = ("system", "|", ">", "getline", "@", "close", "fflush", "ENVIRON")


def read_sed(words: Sequence[Word]) -> Reading:
    """Read `sed`: a script beyond plain commands is a problem, and `-i` writes."""
    found = read_arguments(SED, words)
    reading = take_values(found)
    scripts = [word for role, word in found.values if role == "script"]
    files = list(found.operands)
    if not scripts and not any(role == "code" for role, _ in found.values):
        scripts, files = files[:1], files[1:]
    for script in scripts:
        if script.value is None or script.home is not None or not is_plain_sed(script.value):
            reading.problems.append(f"the script {script.text!r} may write or run something")
    in_place = {"-i", "--in-place"} & set(found.options)
    for word in files:
        reading.paths.append(("write" if in_place else "read", word))
    return reading


def is_plain_sed(script: str) -> bool:
    """Whether a script of sed only prints, deletes and replaces.

    >>> is_plain_sed("1,5p; s/a/b/g"), is_plain_sed("s/a/b/e"), is_plain_sed("w out")
    (True, False, False)
    """
    position = 0
    while position < len(script):
        if script[position] in SED_SPACES + ";\n":
            position += 1
            continue
        after = skip_sed_command(script, position)
        if after is None:
            return False
        position = after
    return True


def skip_sed_command(script: str, position: int) -> int | None:
    """Return where a plain command of sed ends; None if it is not certain that it is plain."""
    start = skip_sed_addresses(script, position)
    if start is None:
        return None
    while script[start : start + 1] in ("!", " "):
        start += 1
    letter = script[start : start + 1]
    if letter in ("s", "y") and letter:
        return skip_sed_replacement(script, start)
    if letter not in SED_COMMANDS or not letter:
        return None
    return skip_sed_end(script, start + 1, frozenset("0123456789") if letter in "qQl" else None)


def skip_sed_end(script: str, position: int, allowed: frozenset[str] | None) -> int | None:
    """Return where the next command may begin; None if other letters follow."""
    while position < len(script) and script[position] not in SED_ENDS:
        if script[position] not in SED_SPACES and script[position] not in (allowed or ()):
            return None
        position += 1
    return None if script[position : position + 1] == "}" else position


def skip_sed_replacement(script: str, start: int) -> int | None:
    """Return where `s/a/b/flags` ends; None if a flag may write or run something."""
    delimiter = script[start + 1 : start + 2]
    if not delimiter or delimiter in "\\\n" or delimiter.isalnum():
        return None
    position = start + 2
    for _ in range(2):
        end = find_sed_delimiter(script, position, delimiter)
        if end is None:
            return None
        position = end + 1
    return skip_sed_end(script, position, SED_FLAGS if script[start] == "s" else None)


def find_sed_delimiter(script: str, position: int, delimiter: str) -> int | None:
    """Return where the delimiter stands without a backslash; None if a bracket makes it unsure."""
    while position < len(script):
        character = script[position]
        if character == delimiter:
            return position
        # A delimiter within brackets is read in another way by each sed.
        if character == "[" and delimiter in script[position : script.find("]", position + 2) + 1]:
            return None
        position += 2 if character == "\\" else 1
    return None


def skip_sed_addresses(script: str, position: int) -> int | None:
    """Return where the command after its addresses begins; None if an address is not plain."""
    while position < len(script):
        character = script[position]
        if character == "/":
            end = find_sed_delimiter(script, position + 1, "/")
            if end is None:
                return None
            position = end + 1
            while script[position : position + 1] in ("I", "M") and position < len(script):
                position += 1
        elif character.isdigit() or character in "$,~+ ":
            position += 1
        else:
            return position
    return position


def read_awk(words: Sequence[Word]) -> Reading:
    """Read `awk`: a program that may run or write something is a problem."""
    found = read_arguments(AWK, words)
    reading = take_values(found)
    program, *files = found.operands or [Word("", "")]
    if any(role == "code" for role, _ in found.values):
        files = list(found.operands)
    elif program.value is None or program.home is not None:
        reading.problems.append("the program of awk is known only when it runs")
    elif any(word in program.value for word in AWK_ACTS):
        reading.problems.append(f"the program {program.text!r} may write or run something")
    for word in files:
        if "=" not in (word.value or ""):
            reading.paths.append(("read", word))
    return reading
