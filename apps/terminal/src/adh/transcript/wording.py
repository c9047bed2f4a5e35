"""Short forms of texts for one line: parameters, thoughts and the beginning of an answer.

Each function costs the same for a text of any length, apart from the escape of the kept part. A function here
must never return a character that a terminal obeys.
"""

from __future__ import annotations

import re

import msgspec

from adh.transcript.blocks import PARAMETER_LENGTH, SHOWN_PARAMETERS, Parameter
from holdfast.middleware import escape_invisible

THOUGHT_LENGTH = 100
PREVIEW_LENGTH = 50

_MARKUP = re.compile(r"^(?:#{1,6}|[-*+>]|\d{1,3}[.)])\s+|[*_`~]{1,3}|\[([^\]]*)\]\([^)]*\)")


def to_line(text: str, longest: int) -> str:
    r"""Return the beginning of a text as one line of at most `longest` characters.

    >>> to_line("a\n b\x1b[2J", 20), to_line("a" * 30, 5)
    ('a b\\x1b[2J', 'aaaa…')
    """
    begin = text[: longest * 8]
    line = escape_invisible(" ".join(begin.split()))
    if len(line) <= longest and len(begin) == len(text):
        return line
    return line[: longest - 1].rstrip() + "…"


def first_line_of_thought(text: str) -> str:
    r"""Return the first line of a thought, without markup.

    >>> first_line_of_thought("**Reading** the `main.py`\nThen more.")
    'Reading the main.py'
    """
    first = next((line for line in text.lstrip().split("\n", 1)[:1]), "")
    plain = _MARKUP.sub(lambda match: match[1] or "", first[: THOUGHT_LENGTH * 8])
    return to_line(plain, THOUGHT_LENGTH)


def preview_text(beginning: str) -> str:
    """Return the status line for a text that comes.

    Args:
        beginning: at least the first 51 characters, or the whole text.

    >>> preview_text("Hello"), preview_text("a" * 51) == "💭 " + "a" * 50 + "..."
    ('💭 Hello', True)
    """
    dots = "..." if len(beginning) > PREVIEW_LENGTH else ""
    return f"💭 {escape_invisible(beginning[:PREVIEW_LENGTH].replace(chr(10), ' '))}{dots}"


class _CommandResult(msgspec.Struct):
    """The text of a result about the end of a command."""

    return_code: int | None


def describe_ending(result: str) -> str:
    """Return how a command ended that did not succeed; empty for any other result.

    Args:
        result: the text of the result of any tool.

    >>> describe_ending('{"return_code": 2}'), describe_ending('{"return_code": -9}')
    ('exit status 2', 'ended by signal 9')
    >>> describe_ending('{"return_code": null}'), describe_ending('{"return_code": 0}'), describe_ending("yes")
    ('ended at its time limit', '', '')
    """
    if '"return_code"' not in result:
        return ""
    try:
        code = msgspec.json.decode(result, type=_CommandResult).return_code
    except msgspec.MsgspecError:
        return ""
    if code is None:
        return "ended at its time limit"
    if code < 0:
        return f"ended by signal {-code}"
    return f"exit status {code}" if code else ""


def read_arguments(arguments: str) -> dict[str, object]:
    """Return the arguments of a call by name; text that is not a JSON object becomes one argument.

    >>> read_arguments('{"path": "a"}'), read_arguments('{"path')
    ({'path': 'a'}, {'arguments': '{"path'})
    """
    try:
        found: object = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}


def shorten_parameters(arguments: dict[str, object]) -> tuple[tuple[Parameter, ...], int]:
    """Return the first parameters for a header, and how many more there are."""
    shown = [_shorten(name, value) for name, value in [*arguments.items()][:SHOWN_PARAMETERS]]
    return tuple(shown), max(0, len(arguments) - SHOWN_PARAMETERS)


def write_arguments(arguments: dict[str, object]) -> str:
    r"""Return all parameters as text: one line each, and long texts below their name.

    >>> print(write_arguments({"path": "a.py", "content": "x\ny"}))
    path: a.py
    content:
        x
        y
    """
    lines: list[str] = []
    for name, value in arguments.items():
        text = escape_invisible(_to_text(value))
        label = escape_invisible(name)
        if "\n" in text:
            lines += [f"{label}:", *(f"    {line}" for line in text.split("\n"))]
        else:
            lines.append(f"{label}: {text}")
    return "\n".join(lines)


def _shorten(name: str, value: object) -> Parameter:
    text = _to_text(value)
    line = to_line(text, PARAMETER_LENGTH)
    return Parameter(to_line(name, PARAMETER_LENGTH), line, len(text) if line.endswith("…") else 0)


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
