"""Makes the words of a command from their pieces, as the shell's expansions do.

It never looks at files: a pattern for file names stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from adh.shell.braces import Mark, Marks, expand_braces
from adh.shell.parsed_line import Word
from adh.shell.quoting import Piece

PATTERN_CHARACTERS = frozenset("*?[")


def make_words(text: str, pieces: Sequence[Piece]) -> tuple[Word, ...]:
    """Return the words that the pieces of one word make: several for `{a,b}`.

    Args:
        text: the word as the line has it.
        pieces: its pieces, without quotes.

    >>> [word.value for word in make_words("{a,b}c", [Piece("plain", "{a,b}c")])]
    ['ac', 'bc']
    """
    marks = tuple(split_into_marks(pieces))
    alternatives = expand_braces(marks)
    if alternatives is None:
        return (Word(text, None, prefix=take_text_before(marks, "{"), many=True, unknown=True),)
    return tuple(make_word(text, alternative) for alternative in alternatives)


def split_into_marks(pieces: Iterable[Piece]) -> Iterable[Mark]:
    """Yield the characters of the pieces; a piece without text that is quoted or unknown is one."""
    for piece in pieces:
        if piece.kind == "plain":
            yield from (Mark(character, None) for character in piece.text)
        elif piece.kind == "quoted":
            yield from (Mark(character, piece) for character in piece.text)
            if not piece.text:
                yield Mark("", piece)
        else:
            yield from (Mark(character, Piece("quoted")) for character in piece.text)
            yield Mark("", piece)


def take_text_before(marks: Marks, end: str) -> str:
    """Return the known text before the first plain character of `end`."""
    text = ""
    for mark in marks:
        if mark.is_unknown or (mark.is_plain and mark in end):
            break
        text += mark
    return text


def make_word(text: str, marks: Marks) -> Word:
    """Return the word of these characters after tilde expansion."""
    home, rest = take_home(marks)
    if rest is None:
        return Word(text, None, many=True, unknown=True)
    pattern = any(mark.is_plain and mark in PATTERN_CHARACTERS for mark in rest)
    unknown = [mark.piece for mark in rest if mark.is_unknown]
    is_known = not unknown and not has_tilde_in_assignment(rest)
    if not pattern and is_known:
        return Word(text, "".join(rest), home=home)
    many = pattern or any(piece is not None and piece.kind == "many" for piece in unknown)
    prefix = take_text_before(rest, "*?[~" if has_tilde_in_assignment(rest) else "*?[")
    return Word(
        text, None, prefix=prefix, home=home, pattern=pattern, many=many,
        unknown=not is_known, unmatched="".join(rest) if is_known else None,
    )  # fmt: skip


def take_home(marks: Marks) -> tuple[str | None, Marks | None]:
    """Return whose home folder the word begins with, and the rest; no rest if only a run can tell."""
    if not marks:
        return None, marks
    first = marks[0]
    if first.piece is not None and first.piece.kind == "home":
        rest = marks[1:]
        return ("", rest) if not rest or rest[0] == "/" else (None, marks)
    if not first.is_plain or first != "~":
        return None, marks
    end = next((i for i, mark in enumerate(marks) if mark.is_plain and mark == "/"), len(marks))
    name = marks[1:end]
    if not all(mark.is_plain for mark in name):
        return (None, None) if any(mark.is_unknown for mark in name) else (None, marks)
    user = "".join(name)
    if user and not user.replace("-", "a").replace("_", "a").isalnum():
        return None, None
    if user[:1] in ("+", "-") or user.isdigit():
        return None, None
    return user, marks[end:]


def has_tilde_in_assignment(marks: Marks) -> bool:
    """Whether a word such as `of=~/x` has a tilde that bash expands within it."""
    text = "".join(marks)
    name, equals, _ = text.partition("=")
    if not equals or not name.isidentifier():
        return False
    pairs = pairwise(marks)
    return any(after.is_plain and after == "~" and before in ("=", ":") for before, after in pairs)
