"""Makes the words of a command from their pieces, as the shell's expansions do: the lists of braces first.

It never looks at files: a pattern for file names stays unknown. It never guesses: where bash may read the braces
of a word otherwise, the whole word is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

from msgspec import Struct

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
    """Return the owner of the home folder that the word begins with, and the rest; no rest if it is known only at run time."""
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


MOST_WORDS = 64
MOST_OPENED = 16
LONGEST_BRACED = 4_096


class Mark(str):
    """A character of a word, and whether it was quoted or is a piece that is known only at run time."""

    __slots__ = ("piece",)
    piece: Piece | None

    def __new__(cls, text: str, piece: Piece | None) -> Self:
        """Return the character with the piece that it came from; None for a plain one."""
        mark = super().__new__(cls, text)
        mark.piece = piece
        return mark

    @property
    def is_plain(self) -> bool:
        """Whether the shell reads the character as one that may have a meaning."""
        return self.piece is None

    @property
    def is_unknown(self) -> bool:
        """Whether it stands for a value that is known only at run time."""
        return self.piece is not None and self.piece.kind in ("one", "many", "home")


Marks = tuple[Mark, ...]


class UncertainBracesError(Exception):
    """The words of the braces of a word are not certain."""


class BraceList(Struct, frozen=True):
    """A list of braces within a word.

    Args:
        start: where its opening brace stands.
        commas: where the commas stand that part its words.
        end: where its closing brace stands.
    """

    start: int
    commas: tuple[int, ...]
    end: int


def expand_braces(marks: Marks) -> list[Marks] | None:
    """Return the words that the lists of braces make of a word; None if that is not certain.

    Nested and repeated lists multiply. Sequences such as `{1..3}` are not certain, and neither is a
    word that becomes empty: it vanishes, and the order is not known any more.

    >>> expand_braces(tuple(Mark(character, None) for character in "a{b}"))
    [('a', '{', 'b', '}')]
    """
    opened = sum(is_sign(mark, "{") for mark in marks)
    if not opened or not has_separator(marks):
        return [marks]
    if opened > MOST_OPENED or len(marks) > LONGEST_BRACED:
        return None
    try:
        made = multiply_lists(marks)
    except UncertainBracesError:
        return None
    return made if all(made) else None


def multiply_lists(marks: Marks) -> list[Marks]:
    """Return the words of a text: the first list's words, each before each word of the rest."""
    found = find_list(marks)
    if found is None:
        return [marks]
    bounds = (found.start, *found.commas, found.end)
    inner = [made for a, b in pairwise(bounds) for made in multiply_lists(marks[a + 1 : b])]
    after = multiply_lists(marks[found.end + 1 :])
    if len(inner) * len(after) > MOST_WORDS:
        raise UncertainBracesError
    return [marks[: found.start] + middle + rest for middle in inner for rest in after]


def find_list(marks: Marks) -> BraceList | None:
    """Return the first list of braces of a text, or None.

    An opening brace without its list is text, and so are all braces before the first list.
    """
    for position, mark in enumerate(marks):
        if is_sign(mark, "{") and not is_empty_pair(marks, position):
            found = read_list(marks, position)
            if found is not None:
                return found
    return None


def is_empty_pair(marks: Marks, position: int) -> bool:
    """Whether an opening brace is text since it begins the text and nothing or `}` follows it."""
    following = marks[position + 1 : position + 2]
    if following and not is_sign(following[0], "}"):
        return False
    if position and marks[position - 1].isspace():
        # It is text after `\\ ` and none after `' '`, and both are the same mark.
        raise UncertainBracesError
    return position == 0


def read_list(marks: Marks, start: int) -> BraceList | None:
    """Return the list that an opening brace begins, or None.

    A closing brace before the first comma is text, as the first one in `{a},b}`.
    """
    commas: list[int] = []
    is_sequence = False
    level = 0
    for position in range(start + 1, len(marks)):
        mark = marks[position]
        if not mark.is_plain:
            continue
        if mark == "}" and level == 0 and (commas or is_sequence):
            if not commas:
                raise UncertainBracesError
            return BraceList(start, tuple(commas), position)
        if mark == "{":
            level += 1
        elif mark == "}" and level:
            level -= 1
        elif mark == "," and level == 0:
            commas.append(position)
        elif level == 0 and begins_sequence(marks, position):
            is_sequence = True
    return None


def begins_sequence(marks: Marks, position: int) -> bool:
    """Whether two dots stand there, and no closing brace right after them."""
    dots = marks[position : position + 2]
    if len(dots) != 2 or not all(is_sign(dot, ".") for dot in dots):
        return False
    after = marks[position + 2 : position + 3]
    return not after or not is_sign(after[0], "}")


def has_separator(marks: Marks) -> bool:
    """Whether a comma or two dots may part words: braces without them are text."""
    return any(is_sign(mark, ",") for mark in marks) or any(
        is_sign(a, ".") and is_sign(b, ".") for a, b in pairwise(marks)
    )


def is_sign(mark: Mark, character: str) -> bool:
    """Whether a mark is this character without quotes."""
    return mark == character and mark.is_plain
