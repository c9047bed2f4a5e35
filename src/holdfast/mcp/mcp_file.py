"""Reads the MCP servers of a file: `mcpServers` in JSON, as other clients write it, or a table of an agent's file.

A value may name environment variables, as in "Bearer ${TOKEN}". This module must never accept a secret that stands in the
file itself, and must never repeat a value of `env` or `headers`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast

import msgspec

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.mcp.mcp_options import McpKeywords, McpLimits, McpOptions, McpTimeouts
from holdfast.mcp.mcp_server import McpServer

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME: Final = re.compile(
    r"key$|keys$|token|secret|passw|credential|authorization|cookie", re.IGNORECASE
)
_SCHEME: Final = re.compile(r"(?i:bearer|basic|token)\s*$")
_ONLY_IN_FILES: Final = ("args", "type", "disabled")
_NOT_IN_FILES: Final = frozenset({"auth", "checks"})  # they are objects
_TYPES: Final = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamableHttp": "url",
}
_NO_SECRETS: Final = 'Put it into the environment, and write "${NAME_OF_THE_VARIABLE}"'


def read_mcp_file(path: str | os.PathLike[str]) -> list[McpServer]:
    """Return the servers of a file with `mcpServers`, as other clients write it.

    A server has `command` with `args` and `env`, or `url` with `headers`; `type` and `disabled` are understood, and the
    keywords of `McpServer` may be there too. "${NAME}" in a value is the environment variable.

    Args:
        path: the file, such as "mcp.json".

    Raises:
        ConfigurationError: the file cannot be read, a key is unknown, a variable is not set, or a secret is in the
            file. The message names the file, the line and the key.
    """
    check_value("path", path, str | os.PathLike)
    file = Path(path)
    try:
        text = file.read_text("utf-8")
        content = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        place, reason = file.name, str(error)
        if isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        raise ConfigurationError(place, f"cannot be read: {reason}") from error
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        fix = 'Write {"mcpServers": {"name": {"command": "..."}}}'
        raise ConfigurationError(file.name, "has no object mcpServers", fix=fix)
    made = []
    for name, table in servers.items():
        try:
            server = make_server(name, table)
        except ServerTableError as error:
            line = _find_line(text, [name, *error.keys])
            argument = ".".join(["mcpServers", name, *error.keys])
            place = f"{file.name}, line {line}, {argument}"
            raise ConfigurationError(place, error.problem, fix=error.fix) from error
        if server is not None:
            made.append(server)
    return made


class ServerTableError(Exception):
    """A table that describes a server is wrong; `keys` leads to the place in it.

    Args:
        keys: the keys to the place.
        problem: the problem.
        fix: the fix.
    """

    def __init__(self, keys: Iterable[str], problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.keys = tuple(keys)
        self.problem = problem
        self.fix = fix


def make_server(name: str, table: object) -> McpServer | None:
    """Return the server that a table of a file describes; None if it is disabled.

    Args:
        name: the name of the server.
        table: the table, of values of JSON.

    Raises:
        ServerTableError: the table is wrong.
    """
    if not isinstance(table, Mapping):
        raise ServerTableError([], "must be an object with the keys of a server")
    fields = [one for one in McpOptions.__struct_fields__ if one not in _NOT_IN_FILES]
    known = [*fields, *_ONLY_IN_FILES]
    for key in table:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}"
            raise ServerTableError([str(key)], "is not a setting", fix)
    if table.get("disabled") is True:
        return None
    _check_type(table)
    keywords: dict[str, object] = {
        key: _expand([key], value) for key, value in table.items() if key not in _ONLY_IN_FILES
    }
    if "command" in table:
        keywords["command"] = _join_command(table)
    elif "args" in table:
        raise ServerTableError(["args"], "are of a command, and there is none")
    for key, kind in (("timeouts", McpTimeouts), ("limits", McpLimits)):
        if key in keywords:
            keywords[key] = _convert(key, keywords[key], kind)
    try:
        return McpServer(name, **cast("McpKeywords", keywords))
    except ConfigurationError as error:
        parts = error.argument.partition(", ")[0].split(".")
        keys = [one for one in parts[1:] if one in known or len(parts) > 2]
        raise ServerTableError(keys, error.problem, error.fix) from error


def _check_type(table: Mapping[str, object]) -> None:
    kind = table.get("type")
    if kind is None:
        return
    needs = _TYPES.get(str(kind))
    if needs is None:
        fix = 'Only "stdio" and "http" are spoken; the older "sse" is not'
        raise ServerTableError(["type"], f"{str(kind)[:40]!r} is not supported", fix)
    if needs not in table:
        raise ServerTableError(["type"], f"{str(kind)!r} needs {needs}")


def _join_command(table: Mapping[str, object]) -> list[str]:
    command, words = table["command"], table.get("args", [])
    first = command if isinstance(command, list) else [command]
    if not isinstance(words, list):
        raise ServerTableError(["args"], "must be a list of texts")
    for key, part in (("command", first), ("args", words)):
        if not all(isinstance(one, str) for one in part):
            raise ServerTableError([key], "must be a text or a list of texts")
    return [
        str(_expand([key], one))
        for key, part in (("command", first), ("args", words))
        for one in part
    ]


def _convert(key: str, value: object, kind: type[McpTimeouts | McpLimits]) -> object:
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ServerTableError([key], str(error)) from error


def _expand(keys: list[str], value: object) -> object:
    """Return a value with the environment variables that it names; refuse a secret in it."""
    if isinstance(value, Mapping):
        return {key: _expand([*keys, str(key)], one) for key, one in value.items()}
    if isinstance(value, list):
        return [_expand(keys, one) for one in value]
    if not isinstance(value, str):
        return value
    rest = _VARIABLE.sub("", value)
    is_secret = bool(_SECRET_NAME.search(keys[-1])) and len(keys) > 1
    if (is_secret and _SCHEME.sub("", rest).strip()) or redact(rest) != rest:
        raise ServerTableError(keys, "must not hold a secret", _NO_SECRETS)

    def read(found: re.Match[str]) -> str:
        variable = os.environ.get(found[1])
        if variable is None:
            problem = f"names the environment variable {found[1]}, which is not set"
            raise ServerTableError(keys, problem, f"export {found[1]}=...")
        return variable

    return _VARIABLE.sub(read, value)


def _find_line(text: str, keys: Iterable[str]) -> int:
    """Return the number of the line with the last of some keys, each behind the one before."""
    place = text.find('"mcpServers"')
    for key in keys:
        found = re.compile(re.escape(json.dumps(key)) + r"\s*:").search(text, max(place, 0))
        if found is None:
            break
        place = found.start()
    return text.count("\n", 0, max(place, 0)) + 1
