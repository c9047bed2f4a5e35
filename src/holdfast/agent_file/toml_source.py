"""A TOML file as text: its content, and the line of each key.

This module must not know the meaning of a key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from holdfast.core.errors import ConfigurationError

KeyPath = tuple[str, ...]

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(
    r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_PART = re.compile(r"[\w-]+|\"[^\"]*\"|'[^']*'")
_LONG = ('"""', "'''")
_TOKEN = re.compile(r""""{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|#.*""")


@dataclass(frozen=True)
class AgentFile:
    """A parsed file; `lines` has the line of each key."""

    path: Path
    content: Mapping[str, object]
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def raise_error(
        self, at: KeyPath, problem: str, fix: str = "", *, argument: str = ""
    ) -> NoReturn:
        """Raise ConfigurationError for the key `at`, with its line or that of its table."""
        where = self.find_place(at)
        name = argument or ".".join(at)
        raise ConfigurationError(f"{where}: {name}" if name else where, problem, fix=fix)

    def find_place(self, at: KeyPath) -> str:
        """Return the name of the file, with the line of a key or of its table."""
        line = next(
            (self.lines[at[:end]] for end in range(len(at), 0, -1) if at[:end] in self.lines), None
        )
        return self.path.name if line is None else f"{self.path.name}:{line}"


def read_agent_file(path: Path) -> AgentFile:
    """Read and parse a file. Raises ConfigurationError."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        problem = f"cannot be read: {error.strerror or type(error).__name__}"
        raise ConfigurationError(str(path), problem) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(path.name, "is not UTF-8 text") from error
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(path.name, f"is not TOML: {error}") from error
    except ValueError as error:  # an integer with thousands of digits
        raise ConfigurationError(path.name, f"cannot be read: {error}") from error
    return AgentFile(path, content, find_key_lines(text))


def find_key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line of each key of a TOML text, counted from 1.

    Args:
        text: a valid TOML text.

    >>> find_key_lines('a = 1\n[b]\nc.d = 2')
    {('a',): 1, ('b',): 2, ('b', 'c', 'd'): 3}
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    open_quote = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not open_quote:
            if match := _KEY.match(line):
                lines.setdefault((*table, *_split_key(match[1])), number)
            elif match := _HEADER.match(line):
                table = _split_key(match[1])
                lines.setdefault(table, number)
        open_quote = _find_open_quote(line, open_quote)
    return lines


def _find_open_quote(line: str, quote: str) -> str:
    """Return the quote of the multi-line string that a line leaves open, or "".

    Args:
        line: the line.
        quote: the quote that is open before the line, or "".
    """
    at = 0
    while True:
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return quote
            at = end + len(quote)
        token = _TOKEN.search(line, at)
        if token is None:
            return ""
        at = token.end()
        quote = token[0] if token[0] in _LONG else ""


def _split_key(key: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _PART.findall(key))
