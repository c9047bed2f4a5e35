"""The address of an MCP server, and the limits of a connection to it, checked when they are given.

This module must never show a value of `env` or `headers`, which may be keys, and imports nothing of the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final, TypeAlias, TypedDict
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.tools.results import RESULT_LIMIT
from holdfast.tools.tool import ToolEffect
from holdfast.tools.write_checks import AnyCheck

Headers: TypeAlias = Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]
"""Headers of each request, or an async function that returns them; it is called again after a status 401."""

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SDK: Final = "mcp"
_NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_EFFECTS: Final[Mapping[str, ToolEffect]] = MappingProxyType({})
_NO_CHECKS: Final[Mapping[str, AnyCheck]] = MappingProxyType({})


class McpTimeouts(Struct, frozen=True, kw_only=True):
    """The waits for an MCP server, in seconds.

    Args:
        start: until a server is connected and has answered first; a model call waits no longer for its tools.
        call: for the answer to one call of a tool; None waits for a share of the turn.

    Raises:
        ConfigurationError: a field is not a number above 0.

    >>> McpTimeouts(start=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: timeouts.start: must be a finite number above 0, got 0
    """

    start: PositiveFloat = 10.0
    call: PositiveFloat | None = 60.0

    def __post_init__(self) -> None:
        check_fields(self, "timeouts.")


class McpLimits(Struct, frozen=True, kw_only=True):
    """How much an MCP server may send and do.

    Args:
        tools: how many tools of it are offered; the others are left out.
        message: the longest message of it, in bytes; a longer one ends the call, and on stdio the connection.
        result: how many characters of a result the model reads.
        concurrent: how many calls are under way at once; others wait.

    Raises:
        ConfigurationError: a field is not a whole number above 0.
    """

    tools: PositiveInt = 500
    message: PositiveInt = 16 * 1024 * 1024
    result: PositiveInt = RESULT_LIMIT
    concurrent: PositiveInt = 16

    def __post_init__(self) -> None:
        check_fields(self, "limits.")


class McpKeywords(TypedDict, total=False):
    """The keywords of `McpServer`, as they are passed."""

    command: Sequence[str] | None
    url: str | None
    env: Mapping[str, str]
    headers: Headers
    auth: object
    prefix: str | None
    trust: bool
    effects: Mapping[str, ToolEffect]
    checks: Mapping[str, AnyCheck]
    tools: Sequence[str] | None
    resources: bool
    required: bool
    timeouts: McpTimeouts
    limits: McpLimits


class McpOptions(Struct, frozen=True, kw_only=True):
    """The keywords of `McpServer`, checked."""

    command: Sequence[str] | None = None
    url: str | None = None
    env: Mapping[str, str] = _NO_TEXTS
    headers: Headers = _NO_TEXTS
    auth: object = None
    prefix: str | None = None
    trust: bool = False
    effects: Mapping[str, ToolEffect] = _NO_EFFECTS
    checks: Mapping[str, AnyCheck] = _NO_CHECKS
    tools: Sequence[str] | None = None
    resources: bool = False
    required: bool = False
    timeouts: McpTimeouts = McpTimeouts()
    limits: McpLimits = McpLimits()

    def __post_init__(self) -> None:
        check_fields(self, "mcp.")
        fix = 'Write command=["program", "argument"] or url="https://..."'
        if self.command is None and self.url is None:
            raise ConfigurationError("mcp.command", "is missing, and so is url", fix=fix)
        if self.command is not None and self.url is not None:
            raise ConfigurationError("mcp.url", "is given together with a command", fix=fix)
        if self.command is not None:
            self._check_command(self.command)
        if self.url is not None:
            self._check_url(self.url)
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise ConfigurationError("mcp.env", f"{name[:40]!r} cannot be a variable")
        if isinstance(self.headers, Mapping):
            check_headers(self.headers)
        self._check_checks()

    def _check_checks(self) -> None:
        for name in self.checks:
            if self.effects.get(name, "write") != "write":
                problem = f"has a check of {name[:40]!r}, whose effect is {self.effects[name]!r}"
                raise ConfigurationError("mcp.checks", problem, fix="Only a write is ever in doubt")
        if self.checks and self.timeouts.call is None:
            problem = "is None, and a tool with a check needs a time limit"
            raise ConfigurationError("mcp.timeouts.call", problem, fix="Write seconds")

    def _check_command(self, command: Sequence[str]) -> None:
        if not command or not command[0].strip():
            fix = 'Write command=["program", "argument"]'
            raise ConfigurationError("mcp.command", "must be a list of words", fix=fix)
        if any("\0" in word for word in command):
            raise ConfigurationError("mcp.command", "holds a character that no argument may have")
        if self.headers or self.auth is not None:
            fix = "Pass its keys as env=, or give url="
            raise ConfigurationError("mcp.headers", "a command is sent no headers", fix=fix)

    def _check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            fix = 'Write url="https://..."'
            raise ConfigurationError("mcp.url", "is not an address", fix=fix) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError("mcp.url", "is not an http or https address")
        if parts.username is not None or parts.password is not None:
            fix = "Pass them as headers="
            raise ConfigurationError("mcp.url", "holds a user or a password", fix=fix)
        if self.env:
            fix = "Pass them as headers=, or give command="
            raise ConfigurationError("mcp.env", "a url has no environment", fix=fix)

    def __repr__(self) -> str:
        # Only the names of variables and headers, because the values may be keys.
        place = list(self.command[:1]) if self.command else self.url
        return f"McpOptions({place!r}, env={sorted(self.env)}, trust={self.trust})"


def read_options(name: str, keywords: McpKeywords) -> McpOptions:
    """Return the checked keywords of a server.

    Raises:
        ConfigurationError: one is wrong or unknown, or the extra is not installed; the error names the place.

    >>> read_options("files", {"command": ["x"], "url": "https://x.example"})
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: mcp.url: is given together with a command. \
Write command=["program", "argument"] or url="https://..."
    """
    check_value("mcp.name", name, str)
    if not _NAME.fullmatch(name):
        problem = (
            "must be 1 to 64 letters, digits, '_', '.' and '-', and begin with a letter or digit"
        )
        raise ConfigurationError("mcp.name", problem)
    check_keys("mcp", keywords)
    if find_spec(_SDK) is None:
        fix = install_command("mcp")
        raise ConfigurationError("mcp", f"server {name!r} needs the package mcp", fix=fix)
    return McpOptions(**keywords)


def check_keys(place: str, keys: Mapping[str, object]) -> None:
    """Raise ConfigurationError for a key that is no keyword of `McpServer`."""
    known = McpOptions.__struct_fields__
    for key in keys:
        if key not in known:
            near = get_close_matches(key, known, 1)
            fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}"
            raise ConfigurationError(f"{place}.{key}"[:80], "is not a setting", fix=fix)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a header that cannot be sent, without its value."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError("mcp.headers", f"{name[:40]!r} is not the name of a header")
        if any((ord(one) < 32 and one != "\t") or ord(one) == 127 for one in value):
            problem = "holds a line break or another control character"
            raise ConfigurationError(f"mcp.headers.{name}", problem, fix="Remove it")
