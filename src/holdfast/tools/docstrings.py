"""What a docstring says about a tool and its arguments: Google, numpy, reST or Epydoc style.

A docstring that follows no style is a description as a whole. This module must never raise on any
docstring.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from msgspec import Struct


class ToolDocs(Struct, frozen=True):
    """The words about a tool, and those about each of its arguments."""

    description: str
    arguments: dict[str, str]


def parse_docstring(function: Callable[..., object]) -> ToolDocs:
    """Read the docstring of `function`, or of the class when it is a callable object."""
    text = _find_docstring(function)
    if not text:
        return ToolDocs("", {})
    # Imported when the first docstring is read: it is not needed to import a tool's module.
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return ToolDocs(text, {})
    words = [part for part in (parsed.short_description, parsed.long_description) if part]
    between = "\n\n" if parsed.blank_after_short_description else "\n"
    arguments = {
        # numpy style describes several at once: `x, y : int`.
        name.strip().lstrip("*"): one.description.strip()
        for one in parsed.params
        if one.description
        for name in one.arg_name.split(",")
    }
    return ToolDocs(between.join(words), arguments)


def _find_docstring(function: Callable[..., object]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    kind = type(function)
    # Not getdoc: it would find the words of `type.__call__`.
    text = inspect.cleandoc(kind.__call__.__doc__ or kind.__doc__ or "")
    # What a dataclass writes when nobody wrote anything.
    return "" if text.startswith(f"{kind.__name__}(") else text
