"""Reads the description of a tool and its arguments from a docstring.

The styles of Google, numpy, reST and Epydoc are supported; a docstring in another style is the
description as a whole. This module never raises on any docstring.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from msgspec import Struct


class ToolDocs(Struct, frozen=True):
    """The description of a tool, and those of its arguments."""

    description: str
    arguments: dict[str, str]


def parse_docstring(function: Callable[..., object]) -> ToolDocs:
    """Read the docstring of `function`, or of the class if it is a callable object."""
    text = _find_docstring(function)
    if not text:
        return ToolDocs("", {})
    # Imported at the first use, so that importing a module with tools stays cheap.
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return ToolDocs(text, {})
    paragraphs = [part for part in (parsed.short_description, parsed.long_description) if part]
    between = "\n\n" if parsed.blank_after_short_description else "\n"
    arguments = {
        # The numpy style may describe several arguments at once: `x, y : int`.
        name.strip().lstrip("*"): param.description.strip()
        for param in parsed.params
        if param.description
        for name in param.arg_name.split(",")
    }
    return ToolDocs(between.join(paragraphs), arguments)


def _find_docstring(function: Callable[..., object]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    kind = type(function)
    # inspect.getdoc would return the docstring of `type.__call__`.
    text = inspect.cleandoc(kind.__call__.__doc__ or kind.__doc__ or "")
    # The docstring that a dataclass generates.
    return "" if text.startswith(f"{kind.__name__}(") else text
