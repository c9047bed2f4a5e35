"""Generates lines of one command with every way of quoting, and lets bash say which words they have.

The lines are safe to run: their only command is a function that writes down its words. One restricted
bash without programs reads all of them, in an empty folder.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from adh.shell import Word, parse_command_line

HOME = "/h"
COMMAND = "w"
# No letters of a builtin of bash but ":" and "[", which run nothing.
PLAIN = "qxz09_-+,:@%^/~=.!#[]{}*?\u00e9\u4e2d"
TEXT = "qxz 09'\"`$(){}[];&|\\#!=*~?,.-\n\t\u00e9"
ESCAPES = ("\\\\", "\\'", '\\"', "\\n", "\\t", "\\x71", "\\172", "\\u00e9", "\\e", "\\?", "\\q", "\\c'", "\\cx", "\\\n", "\\0", "\\'\\\\")  # fmt: skip
WHOLE = (
    "''", '""', "$''", '$""', "$x", '"$x"', "${x}", '"${x}"', "${x:-q}", '${x:-"q z"}', "${x:-'q z'}", "${x#'}",
    "${x#'}'}", "${x#\\}}", '"${x#\'}"', "\"${x:-'}'}\"", "${#x}", "${x/q/'}'}", "$((1+2))", "$(( (1) ))", "$[1]", "$((x))",
    "$", '"$"', "$$", "$#", "$@", '"$@"', "$1", "~", "~/q", "~q", "$HOME", '"$HOME"/q', "{q,z}", "{q,{x,z}}", "{q,'x,z'}",
    "q{,z}", "{1..3}", "{}", "{q}", "{q,\\}}", '{"q,"z,}', "{$x,z}", "*", "?", "[qz]", "\\*", "'*'", "#q", "q#z", "\\#", "!",
    "!!", "!q", "=", "x=q", "[", "]", "[[", "]]", "{", "}", "\\\\", "\\'", '\\"', "\\$x", "\\`", "\\ ", "\\q", "\\\n",
    "q\\\nz", "'q\\\nz'", '"q\\\nz"', "$'q\\\nz'", "$'\\\\'", "$'\\''", "$'\\\\\\''", "$'\\\\', z #'", "'\\'", "'\\\\'", '"\\\\"', '"\\""',
    "\"'\"", "'\"'", "\"$'q'\"", "\"$'\"", "'$x'", "\"`w 'q z'`\"", '"$(w "q z")"', "\"$(w 'q)')\"", "$(w q)", "`w q`",
    "$(w $(w q))", '"$(w "$(w \'"\')")"', "$(w '#' #)\n)", "`w \\`w q\\``", "<(w q)", "@(q)", "q(z)", "$'\\x27'", "$'q'\\''z'",
)  # fmt: skip
BLANKS = (" ", " ", " ", "  ", "\t", " \\\n", "\\\n ", " \\\n\t")
ENDS = (
    " ",
    "; ",
    "\n",
    " && ",
    " | ",
    " & ",
    ";",
    " #",
    " # ",
    " # '\n",
    ' #"\n',
    "\\\n",
    " <<< ",
    "|&",
    " || ",
)
DAMAGE = "'\"`$(){}[];&|\\\n #!=*~ \tqx"
PIECES = (
    "$'",
    '$"',
    "$(",
    "${",
    "$((",
    "))",
    "\\\n",
    "\\\\",
    "''",
    '""',
    "'\\''",
    " #",
    "{q,",
    "\\'",
    '\\"',
    "`",
    "#'",
)
# A function of a line may call itself.
FUNCTION = re.compile(r"\([\s\\]*\)")
# A record has the number of its line, since what runs beside a line may write after its end, and no line
# break, so that bash writes it at once.
SCRIPT = r"""
exec 3>&1 1>&2
note() { builtin printf '%s\0' "$number" "$#" "${@//$'\n'/$'\uf8ff'}" >&3; }
w() { note w "$@"; }
command_not_found_handle() { note "$@"; }
readonly -f note w command_not_found_handle
readonly FUNCNEST=20
ulimit -t 300
set -f
number=0
while IFS= read -r -d '' line; do
    (eval "$line"; wait) </dev/null
    number=$((number + 1))
done
"""
LONGEST_RUN = 300.0


class WordLines:
    """Makes lines of one command.

    Args:
        seed: the seed; the same one gives the same lines.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make_line(self) -> str:
        """Return the next line."""
        while True:
            line = self._make_command(2)
            while self._random.random() < 0.25:
                line += self._random.choice(ENDS) + self._make_command(1)
            if self._random.random() < 0.4:
                for _ in range(self._random.randint(1, 3)):
                    line = self._damage(line)
            if FUNCTION.search(line) is None:
                return line

    def _damage(self, line: str) -> str:
        place = self._random.randrange(len(line) + 1)
        kind = self._random.random()
        if kind < 0.3:
            return line[:place] + self._random.choice(DAMAGE) + line[place:]
        if kind < 0.5:
            return line[:place] + self._random.choice(PIECES) + line[place:]
        if kind < 0.75:
            return line[:place] + line[place + 1 :]
        start = self._random.randrange(len(line) + 1)
        return line[:place] + line[start : start + self._random.randint(1, 8)] + line[place:]

    def _make_command(self, depth: int) -> str:
        line = COMMAND
        for _ in range(self._random.choice((1, 1, 2, 2, 3))):
            line += self._random.choice(BLANKS) + self._make_word(depth)
        return line

    def _make_word(self, depth: int) -> str:
        word = self._make_piece(depth)
        while self._random.random() < 0.5:
            word += self._make_piece(depth)
        return word

    def _make_piece(self, depth: int) -> str:
        kind = self._random.random()
        if kind < 0.3:
            return self._random.choice(WHOLE)
        if kind < 0.45:
            return "".join(self._random.choices(PLAIN, k=self._random.randint(1, 3)))
        if kind < 0.5:
            return "\\" + self._random.choice(TEXT)
        if kind < 0.6:
            return "'" + self._make_text().replace("'", "") + "'"
        if kind < 0.75:
            return self._random.choice(("$'", "$'", "$'", "q$'")) + self._make_escapes() + "'"
        if kind < 0.9 or depth <= 0:
            return self._random.choice(('"', '"', '$"')) + self._make_quoted(depth) + '"'
        return self._make_nested(depth)

    def _make_text(self) -> str:
        return "".join(self._random.choices(TEXT, k=self._random.randint(0, 5)))

    def _make_escapes(self) -> str:
        parts: list[str] = []
        for _ in range(self._random.randint(0, 4)):
            is_escape = self._random.random() < 0.6
            parts.append(
                self._random.choice(ESCAPES) if is_escape
                else self._make_text().replace("'", "").replace("\\", "")
            )  # fmt: skip
        return "".join(parts)

    def _make_quoted(self, depth: int) -> str:
        parts: list[str] = []
        for _ in range(self._random.randint(0, 3)):
            kind = self._random.random()
            if kind < 0.6:
                parts.append(re.sub(r'["`\\$]', r"\\\g<0>", self._make_text()))
            elif kind < 0.75:
                parts.append(re.sub(r'["`]', "", self._make_text()))
            elif kind < 0.85:
                parts.append(self._random.choice(("$x", "${x}", "${x:-q}", "$HOME", "$((1))")))
            elif depth > 0:
                parts.append(self._make_nested(depth))
        return "".join(parts)

    def _make_nested(self, depth: int) -> str:
        inner = self._make_command(depth - 1)
        form = self._random.choice(
            ("$({})", "$({})", "$( {}\n)", "`{}`", "${{x:-{}}}", "${{x#{}}}")
        )
        return form.format(inner if form[1] != "{" else self._make_word(depth - 1))


def run_lines(lines: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return the commands with their words that bash made of each line.

    Raises:
        subprocess.TimeoutExpired: bash did not read all of them in time.
    """
    bash = shutil.which("bash")
    assert bash is not None, "bash is not installed"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        subprocess.run(
            [bash, "--norc", "--noprofile", "-r", "-c", SCRIPT],
            input=b"".join(line.encode() + b"\0" for line in lines), cwd=folder, check=True, timeout=LONGEST_RUN,
            env={"PATH": folder, "HOME": HOME, "LC_ALL": "C.UTF-8"}, stdout=log, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert not list(Path(folder).iterdir())
        log.seek(0)
        return split_log(log.read().split(b"\0"), len(lines))


def split_log(fields: Sequence[bytes], count: int) -> list[list[tuple[str, ...]]]:
    """Return the commands of each line from what bash has written down."""
    found: list[list[tuple[str, ...]]] = [[] for _ in range(count)]
    position = 0
    while position + 1 < len(fields):
        end = position + 2 + int(fields[position + 1])
        texts = [field.decode(errors="surrogateescape") for field in fields[position + 2 : end]]
        words = tuple(text.replace("\uf8ff", "\n") for text in texts)
        found[int(fields[position])].append(words)
        position = end
    return found


def read_commands(line: str) -> list[tuple[Word, ...]] | None:
    """Return the words of each command of a line as the reader has them; None if it would be asked."""
    parsed = parse_command_line(line)
    if parsed.problem or any(command.problems for command in parsed.commands):
        return None
    return [command.words for command in parsed.commands]


def are_same_words(read: Sequence[Word], words: Sequence[str]) -> bool:
    """Whether the words that were read are those of bash; a word that only a run can tell fits many."""
    reached = {0}
    for word in read:
        home = HOME if word.home == "" else ""
        known = word.value if word.value is not None else word.unmatched
        if word.home or (known is None and word.many):
            reached = set(range(min(reached), len(words) + 1))
        elif known is not None:
            reached = {at + 1 for at in reached if words[at : at + 1] == (home + known,)}
        else:
            start = home + word.prefix
            reached = {at + 1 for at in reached if at < len(words) and words[at].startswith(start)}
        if not reached:
            return False
    return len(words) in reached


def find_differences(seed: int, count: int) -> tuple[list[str], int, int]:
    """Return where bash and the reader differ, how many lines are readable, and how many of them ran.

    Args:
        seed: the seed of the lines.
        count: how many lines.
    """
    generator = WordLines(seed)
    lines = [generator.make_line() for _ in range(count)]
    differences: list[str] = []
    readable = ran = 0
    for line, commands in zip(lines, run_lines(lines), strict=True):
        read = read_commands(line)
        if read is None:
            continue
        readable += 1
        ran += bool(commands)
        differences += [
            f"{line!r} has {words!r}, read {read!r}"
            for words in commands
            if not any(are_same_words(one, words) for one in read)
        ]
    return differences, readable, ran
