"""HTML as values: every text is escaped, unless it is HTML already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

Child: TypeAlias = "Html | str | int | Iterable[Child] | None"
Attribute: TypeAlias = str | int | bool | None

_VOID = frozenset({"input", "link", "meta", "br", "img", "hr"})


class Html:
    """A piece of HTML.

    Args:
        text: the HTML itself; it is not escaped.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def el(tag: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element.

    Args:
        tag: its name.
        children: its content.
        attributes: its attributes; `_` stands for `-`, and one at the end is dropped. True is an
            attribute without a value, and False and None are none.

    >>> el("p", "1 < 2", class_="note").text
    '<p class="note">1 &lt; 2</p>'
    """
    written = "".join(_write_attribute(*pair) for pair in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{write_html(children)}</{tag}>")


def write_html(child: Child) -> str:
    """Return the HTML of content."""
    if child is None:
        return ""
    if isinstance(child, Html):
        return child.text
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(write_html(one) for one in child)


def _write_attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
