"""Reads the arguments that a person edited. It is pure, and must never accept what is not a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping


class ArgumentsError(ValueError):
    """The edited text is not a JSON object. Its text says where, and what to do."""


def write_arguments(arguments: Mapping[str, object]) -> str:
    """Return the arguments as JSON for an editor; control characters are escapes."""
    text = json.dumps(arguments, indent=2, ensure_ascii=False)
    return "".join(one if one.isprintable() or one == "\n" else _escape(one) for one in text)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def read_arguments(text: str) -> dict[str, object]:
    """Return the arguments that the text stands for.

    Raises:
        ArgumentsError: the text is not JSON, not an object, or names a parameter twice.

    >>> read_arguments('{"path": "a.txt"}')
    {'path': 'a.txt'}
    >>> read_arguments('{"path": }')
    Traceback (most recent call last):
    adh.screen.argument_editor.ArgumentsError: line 1, column 10: Expecting value. Write valid JSON.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_refuse_repeated, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ArgumentsError(f"{place}: {error.msg}. Write valid JSON.") from None
    except RecursionError:
        raise ArgumentsError("It is nested too deeply. Write fewer levels.") from None
    if not isinstance(value, dict):
        raise ArgumentsError('The whole must be an object, such as {"file_path": "a.txt"}.')
    return value


def _refuse_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ArgumentsError(f"The parameter {name!r} is there twice. Delete one.")
        found[name] = value
    return found


def _refuse_constant(name: str) -> object:
    raise ArgumentsError(f"{name} is not JSON. Write a number.")
