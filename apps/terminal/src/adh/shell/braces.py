"""Expands the lists of braces of a word, such as `{a,b}`, character by character as bash does.

What bash may read otherwise is not certain, and the whole word is then not known. It never guesses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from msgspec import Struct

from adh.shell.quoting import Piece

MOST_WORDS = 64
MOST_OPENED = 16
LONGEST_BRACED = 4_096


class Mark(str):
    """A character of a word, and whether it was quoted or is a piece that only a run can tell."""

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
        """Whether it stands for a value that only a run can tell."""
        return self.piece is not None and self.piece.kind in ("one", "many", "home")


Marks = tuple[Mark, ...]


class UncertainBracesError(Exception):
    """What the braces of a word make is not certain."""


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
    """Return what the lists of braces make of a word; None if it is not certain.

    Nested and repeated lists multiply. Sequences such as `{1..3}` are not certain, and neither is a
    word that becomes empty: it vanishes, and with it what is known of the order.

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
    """Return the words of a text: the first list's words, each before each word of what follows."""
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
