r"""Passes over the parts of a word by the rules of bash: quotes, expansions and substitutions.

It knows characters alone, and never the tree. A part that bash may end elsewhere raises TokenError.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Literal

from msgspec import Struct

QuoteKind = Literal[
    "raw_string",
    "ansi_c_string",
    "string",
    "command_substitution",
    "process_substitution",
    "expansion",
    "arithmetic_expansion",
]

DEEPEST_TOKENS = 200
ENDS_WORD = " \t\n;&|<>()"
CONTINUED = "\\\n"
PLAIN_SUBSCRIPT = re.compile(r"[^]\s'\"\\`$;&|<>()]*\]")
ARITHMETIC = re.compile(r"[\w \t+\-*/%<>=!&|^~?:,$#@.]*", re.ASCII)


class TokenError(Exception):
    """The line has a place that bash may split in another way."""


class Quote(Struct, frozen=True):
    """A quoted or expanded part of a word, with its signs.

    Args:
        kind: its kind, as the grammar names it.
        start: where it begins, in bytes.
        end: where it ends.
        inner: whether it stands within `${...}` and in no command there: its own text is never a word.
    """

    kind: QuoteKind
    start: int
    end: int
    inner: bool


class WordScanner(ABC):
    """A place in a line, which moves over the parts of words.

    Args:
        source: the line.
    """

    def __init__(self, source: bytes) -> None:
        # One character for each byte: only ASCII matters.
        self._text = source.decode("latin-1")
        self._end = len(self._text)
        self._position = 0
        self._depth = 0
        self.quotes: list[Quote] = []

    @abstractmethod
    def _read_commands(self, close: str) -> None:
        """Read commands up to the sign that closes them, which is not taken, or to the end."""

    def _looks_at(self, text: str) -> bool:
        return self._position < self._end and self._text.startswith(text, self._position, self._end)

    def _take(self, sign: str) -> None:
        if not self._looks_at(sign):
            raise TokenError(f"no {sign!r} where it was expected")
        self._position += len(sign)

    def _peek(self, offset: int = 0) -> str:
        place = self._position + offset
        return self._text[place] if 0 <= place < self._end else ""

    def _find_after_continuation(self, position: int) -> int:
        """Return the next place that is no end of a line that goes on."""
        while self._text.startswith(CONTINUED, position):
            position += len(CONTINUED)
        return position

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST_TOKENS:
            raise TokenError("the line is nested too deeply")

    def _record(self, kind: QuoteKind, start: int, *, inner: bool) -> None:
        self.quotes.append(Quote(kind, start, self._position, inner))

    def _pass_piece(self, *, inner: bool) -> None:
        """Pass over one character, or one quoted or expanded part."""
        character = self._peek()
        if character == "\\":
            self._pass_escape()
        elif character == "'":
            self._pass_raw(inner=inner)
        elif character == '"':
            self._pass_string(inner=inner)
        elif character == "`":
            self._pass_backquotes(inner=inner)
        elif character == "$":
            self._pass_dollar(inner=inner, quoted=False)
        else:
            self._position += 1

    def _pass_escape(self) -> None:
        if self._position + 1 >= self._end:
            raise TokenError("a backslash at the end")
        self._position += 2

    def _pass_raw(self, *, inner: bool) -> None:
        start = self._position
        end = self._text.find("'", start + 1, self._end)
        if end < 0:
            raise TokenError("a quote without its end")
        self._position = end + 1
        self._record("raw_string", start, inner=inner)

    def _pass_ansi_c(self, *, inner: bool) -> None:
        start = self._position
        self._position += 2
        while self._peek() != "'":
            if self._position >= self._end:
                raise TokenError("a quote without its end")
            self._position += 2 if self._peek() == "\\" else 1
        self._take("'")
        self._record("ansi_c_string", start, inner=inner)

    def _pass_string(self, *, inner: bool) -> None:
        start = self._position
        self._enter()
        self._take('"')
        while self._peek() != '"':
            if self._position >= self._end:
                raise TokenError("a quote without its end")
            if self._peek() == "\\":
                self._pass_escape()
            elif self._peek() == "`":
                self._pass_backquotes(inner=inner)
            elif self._peek() == "$":
                self._pass_dollar(inner=inner, quoted=True)
            else:
                self._position += 1
        self._take('"')
        self._depth -= 1
        self._record("string", start, inner=inner)

    def _pass_backquotes(self, *, inner: bool) -> None:
        """Pass over commands in backquotes: bash looks for the second one before it reads the text between."""
        start = self._position
        end = self._text.find("`", start + 1, self._end)
        if end < 0:
            raise TokenError("a backquote without its end")
        if "\\" in self._text[start:end]:
            raise TokenError("a backslash within backquotes")
        line_end, self._end = self._end, end
        self._position = start + 1
        self._read_commands("`")
        self._position, self._end = end, line_end
        self._take("`")
        self._record("command_substitution", start, inner=inner)

    def _pass_dollar(self, *, inner: bool, quoted: bool) -> None:
        following = self._peek(1)
        if self._text.startswith(CONTINUED, self._position + 1):
            raise TokenError("a dollar at the end of a line that goes on")
        if self._looks_at("$((") or following == "[":
            start = self._position
            self._position += 2 if following == "[" else 3
            self._pass_arithmetic("]" if following == "[" else "))")
            self._record("arithmetic_expansion", start, inner=inner)
        elif following == "(":
            self._pass_commands("command_substitution", 2, ")", inner=inner)
        elif following == "{":
            self._pass_expansion(inner=inner, quoted=quoted)
        elif following == "'" and not quoted:
            self._pass_ansi_c(inner=inner)
        elif not quoted and (self._looks_at('$""') or self._looks_at('$"' + CONTINUED)):
            # Bash 5.2 now and then makes a word of freed memory of it.
            raise TokenError("an empty string to translate")
        elif following == "$":
            if self._peek(2) and self._peek(2) in ("({[`\\" if quoted else "({['\"`\\"):
                raise TokenError("two dollars before an expansion")
            self._position += 2
        else:
            self._position += 1

    def _pass_commands(self, kind: QuoteKind, length: int, close: str, *, inner: bool) -> None:
        start = self._position
        self._position += length
        self._read_commands(close)
        self._take(close)
        self._record(kind, start, inner=inner)

    def _pass_expansion(self, *, inner: bool, quoted: bool) -> None:
        """Pass over `${...}`: the first closing brace without quotes ends it."""
        start = self._position
        self._enter()
        self._position += 2
        if self._peek() in ("", " ", "\t", "\n", "|", "(", "}"):
            raise TokenError("an expansion without its name")
        while self._peek() != "}":
            if self._position >= self._end:
                raise TokenError("an expansion without its end")
            if self._looks_at("$'") or (quoted and self._peek() == "'"):
                # Whether this is a quote depends on the text around it and on the version of bash.
                raise TokenError("a quote within an expansion")
            if self._looks_at("<(") or self._looks_at(">("):
                raise TokenError("a process substitution within an expansion")
            if quoted and self._peek() == "$":
                self._pass_dollar(inner=True, quoted=True)
                continue
            self._pass_piece(inner=True)
        self._take("}")
        self._depth -= 1
        self._record("expansion", start, inner=inner)

    def _pass_arithmetic(self, close: str, separator: str = "") -> None:
        """Pass over an expression of simple signs and its end."""
        opened = 0
        while True:
            found = ARITHMETIC.match(self._text, self._position, self._end)
            self._position = found.end() if found else self._position
            if self._peek() == "(":
                opened += 1
            elif self._peek() == ")" and opened:
                opened -= 1
            elif not separator or self._peek() != separator:
                break
            self._position += 1
        if "$" in self._text[self._position - 1 : self._position]:
            raise TokenError("an expansion within arithmetic")
        self._take(close)

    def _pass_subscript(self) -> None:
        """Pass over `[...]` after a name: bash may read it up to its end, with anything in it."""
        found = PLAIN_SUBSCRIPT.match(self._text, self._position + 1, self._end)
        if found is None:
            raise TokenError("a bracket after a name without its plain end")
        self._position = found.end()
