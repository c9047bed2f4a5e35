"""The checks of calls that several wires of the emulator share.

They are written apart from the encoders that they check, so that both do not share a mistake.
"""

from __future__ import annotations

import json
import re

from holdfast.testing.emulator.emulated_request import MalformedRequest

_PATTERN = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_NAME = 64
_MOST_LEVELS = 100


def check_openai_name(name: object, where: str) -> None:
    """Check the name of a function, with the texts of OpenAI's server.

    Args:
        name: the name, of a call or of a declared tool.
        where: the path of the name in the request.

    Raises:
        MalformedRequest: the server refuses the name.

    >>> check_openai_name("browser.open", "tools[0].function.name")
    Traceback (most recent call last):
    ...
    holdfast.testing.emulator.emulated_request.MalformedRequest: Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.
    """
    if not isinstance(name, str):
        raise MalformedRequest(f"Missing required parameter: '{where}'.")
    if len(name) > _LONGEST_NAME:
        raise MalformedRequest(
            f"Invalid '{where}': string too long. Expected a string with maximum length "
            f"{_LONGEST_NAME}, but got a string with length {len(name)} instead."
        )
    if not _PATTERN.fullmatch(name):
        raise MalformedRequest(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'."
        )


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object that every server reads: strict, and not nested too deep.

    >>> is_json_object('{"a": 1}'), is_json_object('{"a": 1'), is_json_object("[1]"), is_json_object("")
    (True, False, False, False)
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not is_too_deep(value)


def is_too_deep(value: object) -> bool:
    """Whether a JSON value has more levels than servers read.

    >>> is_too_deep({"a": [1]})
    False
    """
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON value")
