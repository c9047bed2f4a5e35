"""A source that a text cites, in one form for all wires; the codecs read it from their own fields.

This module must never depend on a wire.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holdfast.codecs.json_text import string_or_empty


class Citation(Struct, frozen=True, kw_only=True):
    """A source that the text of a message cites.

    Args:
        url: the address of the source; "" for a file.
        title: the title of the page or the name of the file.
        cited_text: the words of the source, if the provider gives them.
        start: where the text that rests on the source begins in `message.text`.
        end: where it ends.
    """

    url: str = ""
    title: str = ""
    cited_text: str = ""
    start: int = 0
    end: int = 0


def objects_in(value: object) -> list[Mapping[str, object]]:
    """Return the objects of a list; nothing for any other value.

    >>> objects_in([{"a": 1}, 2]), objects_in("text")
    ([{'a': 1}], [])
    """
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def first_string(holder: Mapping[str, object], *names: str) -> str:
    """Return the first of these fields that is a text and not empty, or "".

    >>> first_string({"uri": "https://porto.pt"}, "url", "uri")
    'https://porto.pt'
    """
    return next((text for name in names if (text := string_or_empty(holder.get(name)))), "")


def position_in(value: object, length: int, default: int) -> int:
    """Return a position in a text of this length; `default` for a value that is none.

    >>> position_in(99, 10, 0), position_in("x", 10, 3)
    (10, 3)
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return default
    return min(value, length)
