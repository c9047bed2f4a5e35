"""The quotes of a command: removed as bash does, split for a command without a shell, and written for a bash line.

It knows characters alone, and never the tree. A text that bash would read otherwise raises QuotingError. The judged
words and the words that run must come from the same split: bash and `split_plain_words` read `#`, `$'...'` and a line
break differently.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

PieceKind = Literal["plain", "quoted", "home", "one", "many"]

METACHARACTERS = frozenset(" \t\n;&|<>()\"'`")
EXPANDED_AFTER_DOLLAR = frozenset("{([@*#?!$-_'\"")
ANSI_C = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
OCTAL = "01234567"
HEXADECIMAL = "0123456789abcdefABCDEF"
LONGEST_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}


class QuotingError(Exception):
    """The text of a word has a character there that bash would not read as text."""


class Piece(Struct, frozen=True):
    """A part of a word.

    Args:
        kind: "plain" and "quoted" are text; "home" is the person's home folder; "one" and "many" are
            known only when the command runs, and make one word or any number of words.
        text: the text, if it is text; else how its value begins.
    """

    kind: PieceKind
    text: str = ""


def read_plain(text: str) -> list[Piece]:
    r"""Return the pieces of an unquoted text.

    Raises:
        QuotingError: it has a character that would end the word or start an expansion.

    >>> read_plain(r"a\ b")
    [Piece(kind='plain', text='a'), Piece(kind='quoted', text=' '), Piece(kind='plain', text='b')]
    """
    pieces: list[Piece] = []
    start = position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            if position + 1 == len(text):
                raise QuotingError("a backslash at the end of a word")
            pieces.append(Piece("plain", text[start:position]))
            escaped = text[position + 1]
            if escaped != "\n":
                pieces.append(Piece("quoted", escaped))
            position += 2
            start = position
            continue
        check_character(text, position, METACHARACTERS)
        position += 1
    pieces.append(Piece("plain", text[start:]))
    return [piece for piece in pieces if piece.text or piece.kind == "quoted"]


def read_double_quoted(text: str) -> str:
    r"""Return the value of a text that stands in double quotes.

    Raises:
        QuotingError: it has a character that would end the quotes or start an expansion.

    >>> read_double_quoted(r"a\"b\c")
    'a"b\\c'
    """
    value: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\" and position + 1 < len(text):
            escaped = text[position + 1]
            if escaped != "\n":
                value.append(escaped if escaped in '$`"\\' else "\\" + escaped)
            elif text[:position].endswith("$"):
                raise QuotingError("a dollar at the end of a line that goes on")
            position += 2
            continue
        check_character(text, position, frozenset('"`'), quoted=True)
        value.append(character)
        position += 1
    return "".join(value)


def check_character(
    text: str, position: int, ends: frozenset[str], *, quoted: bool = False
) -> None:
    """Raise QuotingError if the character there is no text."""
    character = text[position]
    if character in ends:
        raise QuotingError(f"{character!r} within a word")
    if character == "$" and position + 1 < len(text):
        following = text[position + 1]
        expands = following.isalnum() or following in EXPANDED_AFTER_DOLLAR
        if expands and not (quoted and following in "'\""):
            raise QuotingError("an expansion that was not recognized")


def read_ansi_c(text: str) -> str:
    r"""Return the value of `$'...'`, given without the dollar and its quotes.

    Raises:
        QuotingError: the value has a NUL or is not text, or the quotes end before its end.

    >>> read_ansi_c(r"\x72\155")
    'rm'
    """
    value = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "'":
            raise QuotingError("a quote within $'...', which ends it")
        if text[position] != "\\":
            value += text[position].encode()
            position += 1
            continue
        position += 1
        decoded, position = read_ansi_c_escape(text, position)
        value += decoded
    if b"\0" in value:
        raise QuotingError("a NUL in $'...'")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise QuotingError("bytes in $'...' that are not text") from error


def read_ansi_c_escape(text: str, position: int) -> tuple[bytes, int]:
    """Return the meaning of the escape after a backslash, and its end."""
    letter = text[position : position + 1]
    if letter in ANSI_C:
        return ANSI_C[letter].encode(), position + 1
    if letter and letter in OCTAL:
        digits = take_digits(text, position, OCTAL, 3)
        return bytes([int(digits, 8) & 0xFF]), position + len(digits)
    if letter in LONGEST_HEXADECIMAL:
        digits = take_digits(text, position + 1, HEXADECIMAL, LONGEST_HEXADECIMAL[letter])
        code = int(digits or "0", 16)
        if not digits or (letter == "U" and code > 0x10FFFF) or 0xD800 <= code <= 0xDFFF:
            raise QuotingError(f"\\{letter} without a character in $'...'")
        encoded = bytes([code]) if letter == "x" else chr(code).encode()
        return encoded, position + 1 + len(digits)
    # \cx and the later additions of bash are rare enough for a person to read.
    raise QuotingError(f"\\{letter} in $'...'")


def take_digits(text: str, position: int, digits: str, longest: int) -> str:
    """Return the digits that stand there, at most `longest`."""
    end = position
    while end < min(len(text), position + longest) and text[end] in digits:
        end += 1
    return text[position:end]


def split_plain_words(command: str) -> tuple[str, ...]:
    """Return the words of a command that runs without a shell.

    Raises:
        ValueError: a quote is not closed.

    >>> split_plain_words("cat # .env")
    ('cat', '#', '.env')
    """
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise ValueError("has a quote that is not closed") from None


def quote_words(words: Sequence[str]) -> str:
    r"""Return the bash line that runs a program with exactly these words. Every word is quoted.

    >>> quote_words(["a=b", "it's"])
    "'a=b' 'it'\\''s'"
    """
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def make_bash_line(command: str, *, shell: bool) -> str:
    """Return the bash line that has the effect of a command.

    Args:
        command: the command.
        shell: whether bash reads it; otherwise its words are run as they are.

    Raises:
        ValueError: it runs without a shell, and a quote is not closed.
    """
    return command if shell else quote_words(split_plain_words(command))
