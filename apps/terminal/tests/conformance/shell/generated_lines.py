"""Generates bash lines: built from the grammar, and then damaged a little, so that many stay valid."""

from __future__ import annotations

import random

NAMES = [
    "ls",
    "cat",
    "rm",
    "mv",
    "echo",
    "printf",
    "test",
    "wc",
    "sort",
    "head",
    "git",
    "curl",
    "fa",
    "fb",
    "a",
    "b",
    "c",
    "grep",
    "tee",
    "touch",
    "a",
    "b",
    "c",
    "st",
    "ab",
    "fa",
]
WORDS = (
    "x", "-l", "f1", "a.b", "'q r'", '"d e"', '""', "''", "\\ ", "a\\ b", "$x", '"$x"', "${x:-y}",
    "$(a)", "`b`", '"$(c d)"', '"`a "x"`"', "$'a\\x62'", '$"t"', "*", "?", "[ab]", "{p,q}", "{1..3}",
    "~", "~/z", "$HOME", "#n", "a#b", "=", "x=y", "!", "\\$x", "\\;", "'$(a)'", '"\\$(a)"', "$((1+2))",
    "$(( 1 + $(a) ))", "<(a)", ">(cat)", "é", "中", "${x}", "${#x}", "${x%y}", "${x/a/$(b)}", "${x:=$(a)}",
    "$?", "$#", "$@", '"$@"', "$1", "--", "a=b", "\\a", "r''m", 'r"m"', "\\\n", "a\\\nb", "$", '"$"', "$[1]",
    "{", "}", "[", "]", "]]", "if", "then", "do", "done", "in", "case", "^", "%", "@", "a:~", "{}", "+",
)  # fmt: skip
REDIRECTS = (
    ">o1", ">>o2", "2>o3", "<f1", "2>&1", ">&2", "&>o4", ">|o5", "<<<x", "<<<$(a)", "<>o6", "> 'o 7'",
    "2>/dev/null", ">&o8", "&>>o9", "<&-", '>"o$((1))"', "3>o3 >&3", ">o{a", "{v}>o", "1>o1 2>o2",
)  # fmt: skip
SEPARATORS = (
    ";", "&&", "||", "|", "|&", "&", "\n", " ;\n", " &&\n", " # note\n", "| \\\n", ";;", " #'\n",
)  # fmt: skip
WRAPPERS = (
    "env", "env A=1", "nice", "nice -n 5", "nohup", "timeout 2", "timeout -k 1 2", "xargs", "setsid",
    "xargs -n 1", "time", "time -p", "!", "command", "builtin", "exec", "eval", "find . -maxdepth 0 -exec",
    "stdbuf -o L", "env -i", "x=1", "y=$(a) z=b", "coproc", "exec -a n",
)  # fmt: skip
PIECES = (
    "\\\n",
    "\\\n",
    "''",
    '""',
    "$'",
    '$"',
    "<<",
    "&&",
    "((",
    "))",
    "[[",
    "${",
    "=(",
    "x=",
    " #",
    "{a,",
    ";;",
)
DAMAGE = "'\"`$(){}[];&|<>\\\n #!=*~ \t-x"


class LineGenerator:
    """Makes lines from a seed.

    Args:
        seed: the seed; the same one gives the same lines.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make_line(self) -> str:
        """Return the next line."""
        line = self._make_list(self._random.choice((1, 2, 2, 3)))
        if self._random.random() < 0.4:
            for _ in range(self._random.randint(1, 3)):
                line = self._damage(line)
        return line

    def _damage(self, line: str) -> str:
        place = self._random.randrange(len(line) + 1)
        kind = self._random.random()
        if kind < 0.35:
            return line[:place] + self._random.choice(DAMAGE) + line[place:]
        if kind < 0.5:
            return line[:place] + self._random.choice(PIECES) + line[place:]
        if kind < 0.8:
            return line[:place] + line[place + 1 :]
        start = self._random.randrange(len(line) + 1)
        piece = line[start : start + self._random.randint(1, 8)]
        return line[:place] + piece + line[place:]

    def _make_list(self, depth: int) -> str:
        parts = [self._make_statement(depth)]
        for _ in range(self._random.choice((0, 0, 1, 1, 2))):
            parts += [self._random.choice(SEPARATORS), self._make_statement(depth)]
        return self._random.choice(("", " ")).join(parts)

    def _make_statement(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.6:
            return self._make_command(depth)
        inner = self._make_list(depth - 1)
        word, name = self._make_word(0), self._random.choice(NAMES)
        forms = (
            f"({inner})", f"{{ {inner}; }}", f"if {name}; then {inner}; else {name} 2; fi",
            f"for i in {word} y; do {inner}; done", f"while fa; do {inner}; done",
            f"until {name}; do {inner}; done", f"case {word} in x|y) {inner};; *) {name} d;; esac",
            f"[[ {word} == $(a) ]] && {inner}", f"f() {{ {inner}; }}; f {word}",
            f"{name} <<E\n{word}\nE\n{inner}", f"{name} <<'E' >o\n{inner}\nE\n{name} z",
            f"{name} <<-E | wc\n\t{word} $(a)\n\tE\n", f"{name} $({inner})", f'{name} "$({inner})"',
            f"{name} `{name} {word}`", f"({inner}) >o1 2>&1", f"{{ {inner}; }} | {name}",
            f"arr=({word} $(a)); {inner}", f"(( 1 + 1 )); {inner}", f"eval '{name} z; b'",
            f"trap '{name} t' EXIT; {inner}", f"time {{ {inner}; }}", f"coproc {{ {inner}; }}",
            f"cd /tmp && {inner}", f"[ {word} = x ] || {inner}", f"select i in q; do {inner}; done",
            f"function g {{ {inner}; }}\ng", f"alias {name}='b c'; {inner}", f"x={word}; {inner}",
            f"{name} ${{x:-$({inner})}}", f"export y={word}; {inner}", f"diff <({inner}) {word}",
            f"{name} <<E1 <<E2\nq\nE1\n$(a)\nE2\n{inner}", f"let 1+1; {inner}", f"! {inner}",
            f"for ((i=0; i<2; i++)); do {inner}; break; done", f"{name} <<E\nq\nE", f"declare z={word}",
        )  # fmt: skip
        return self._random.choice(forms)

    def _make_command(self, depth: int) -> str:
        parts: list[str] = []
        while self._random.random() < 0.15:
            parts.append(self._random.choice(WRAPPERS))
        if self._random.random() < 0.05:
            parts.append(self._random.choice(REDIRECTS))
        parts.append(
            self._random.choice(NAMES) if self._random.random() < 0.93 else self._make_word(0)
        )
        for _ in range(self._random.choice((0, 1, 1, 2, 3))):
            parts.append(self._make_word(depth))
            if self._random.random() < 0.12:
                parts.append(self._random.choice(REDIRECTS))
        if any(part.startswith("find ") for part in parts):
            parts.append("\\;")
        return self._random.choice((" ", " ", " ", "  ", "\t")).join(parts)

    def _make_word(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.1:
            return f'"$({self._make_command(depth - 1)})"'
        word = self._random.choice(WORDS)
        while self._random.random() < 0.15:
            word += self._random.choice(WORDS)
        return word
