"""Converts the content of a file to the keywords of `Agent`.

The declared type of a keyword decides how a file writes it. This module must not parse TOML, and must never
repeat a value that may be a secret.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from msgspec import Struct

from holdfast.agent_file.toml_source import AgentFile, KeyPath, read_agent_file
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.continuation_permission import ContinuationPermission
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.models.prices import Prices
from holdfast.output.structured_output import OutputKind, StructuredOutput
from holdfast.runtime.compile import AgentKeywords

A = TypeVar("A")

_MCP = "mcp"
_CONVERTED = frozenset(
    {"instructions_file", "api_key_env", _MCP}
)  # they set another keyword of `Agent`
_MIDDLEWARES: dict[str, tuple[Callable[..., AnyMiddleware], dict[str, object]]] = {
    "permissions": (
        ToolPermission,
        {
            "allow": list[str],
            "ask": list[str],
            "deny": list[str],
            "default": str,
            "timeout": float | None,
        },
    ),
    "continuation": (
        ContinuationPermission,
        {"iterations": int | None, "extension": int, "timeout": float | None},
    ),
}
"""The middleware that each table makes, and the types of its keys."""

_SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?keys?|tokens?|secrets?|passwords?|passwd|credentials?|authorization)$",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NO_SECRETS = 'Put it into the environment, and write api_key_env = "NAME_OF_THE_VARIABLE"'


def load_agent(path: str | os.PathLike[str], make: Callable[..., A]) -> A:
    """Return the agent that a file describes.

    Args:
        path: the file; `instructions_file` in it is relative to its folder.
        make: makes the agent from the keywords of `Agent`.

    Raises:
        ConfigurationError: the file cannot be read, or a key is wrong. The message names the file,
            the line, the key and the fix.
    """
    file = read_agent_file(Path(path))
    keywords = _build_keywords(file)
    try:
        return make(**keywords)
    except ConfigurationError as error:
        file.raise_error(
            _find_key(error.argument, file), error.problem, error.fix, argument=error.argument
        )


def _build_keywords(file: AgentFile) -> dict[str, object]:
    """Return the keywords of `Agent`. Raises ConfigurationError."""
    # A server's own check of secrets knows "${NAME}".
    _refuse_secrets(file, (), {key: one for key, one in file.content.items() if key != _MCP})
    forms = find_keyword_forms()
    known = {*forms, *_CONVERTED, *_MIDDLEWARES}
    check_names(file, (), file.content, known)
    keywords: dict[str, object] = {
        name: _convert_setting(file, (name,), value, forms[name])
        for name, value in file.content.items()
        if name not in _CONVERTED and name not in _MIDDLEWARES
    }
    if not keywords.get("model"):
        file.raise_error(("model",), "is missing", 'Write model = "openai:gpt-5.2"')
    if "instructions_file" in file.content:
        keywords["instructions"] = _read_instructions(file)
    if "api_key_env" in file.content:
        keywords["api_key"] = _read_key(file)
    if _MCP in file.content:
        named = _import_all(file, ("toolsets",), file.content.get("toolsets", []))
        keywords["toolsets"] = [*named, *_make_servers(file)]
    middlewares = [_build_middleware(file, name) for name in file.content if name in _MIDDLEWARES]
    if middlewares:
        named = _import_all(file, ("middleware",), file.content.get("middleware", []))
        keywords["middleware"] = [*named, *middlewares]
    return keywords


def _make_servers(file: AgentFile) -> list[object]:
    """Make the MCP servers that the tables `[mcp.NAME]` describe."""
    # Imported here because few files have servers.
    from holdfast.mcp.mcp_file import ServerTableError, make_server

    tables = file.content[_MCP]
    if not isinstance(tables, dict):
        file.raise_error((_MCP,), "must hold a table for each server", f"Write [{_MCP}.NAME]")
    servers: list[object] = []
    for name, table in tables.items():
        try:
            server = make_server(name, table)
        except ServerTableError as error:
            file.raise_error((_MCP, name, *error.keys), error.problem, error.fix)
        if server is not None:
            servers.append(server)
    return servers


def _convert_setting(file: AgentFile, at: KeyPath, value: object, form: FileForm) -> object:
    """Return the value of a keyword of `Agent`, or of a field of a record."""
    if form.record is not None:
        is_switched_off = value is False and len(at) > 1
        return None if is_switched_off else _convert_struct(file, at, value, form.record)
    if form.written_as == "list of names":
        return _import_all(file, at, value)
    if at == ("prices",) and isinstance(value, str) and _names_prices(value):
        return _read_prices(file, at, value)
    if form.written_as == "name":
        return import_name(file, at, _convert_value(file, at, value, str))
    return convert_plain(file, at, value, form.plain)


def _names_prices(value: str) -> bool:
    """Whether a text stands for published prices or for a file of prices, and not for an object."""
    return value == "known" or value.endswith(".toml")


def _read_prices(file: AgentFile, at: KeyPath, value: str) -> Prices:
    """Read prices; a path is relative to the folder of the agent's file."""
    try:
        return Prices.read_file("known" if value == "known" else file.path.parent / value)
    except ConfigurationError as error:
        file.raise_error(at, error.problem, error.fix)


def _import_all(file: AgentFile, at: KeyPath, value: object) -> list[object]:
    """Import the names of a list. A name may stand for a list, whose items are added."""
    names = _convert_value(file, at, value, list[str])
    objects = [import_name(file, at, path) for path in names]
    return [item for found in objects for item in (found if isinstance(found, list) else (found,))]


def _refuse_secrets(file: AgentFile, at: KeyPath, value: object) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if _SECRET_KEY.search(name) and isinstance(inner, str):
                file.raise_error((*at, name), "must not hold a secret", _NO_SECRETS)
            _refuse_secrets(file, (*at, name), inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_secrets(file, at, inner)
    elif isinstance(value, str) and any(redact(word) != word for word in value.split()):
        # Word by word, since instructions may mention passwords.
        file.raise_error(at, "looks like a secret, which must not be in a file", _NO_SECRETS)


def check_names(file: AgentFile, at: KeyPath, table: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigurationError, with the nearest known name, if a table has a name that is not known."""
    names = sorted(known)
    for name in table:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.6)
            fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(names)}"
            file.raise_error((*at, name), "is not a setting", fix)


def _convert_struct(file: AgentFile, at: KeyPath, value: object, kind: type[Struct]) -> Struct:
    """Convert a table to a record of settings."""
    if not isinstance(value, dict):
        file.raise_error(
            at, f"must be a table, got {_describe_type(value)}", f"Write [{'.'.join(at)}]"
        )
    forms = find_forms(get_type_hints(kind))
    check_names(file, at, value, forms)
    values = {
        name: _convert_setting(file, (*at, name), inner, forms[name])
        for name, inner in value.items()
    }
    try:
        return kind(**values)
    except ConfigurationError as error:
        last = re.sub(r"\[.*\]", "", error.argument).rpartition(".")[2]
        file.raise_error((*at, last), error.problem, error.fix)


def _build_middleware(file: AgentFile, name: str) -> AnyMiddleware:
    """Make the middleware that a table describes."""
    make, kinds = _MIDDLEWARES[name]
    value = file.content[name]
    if not isinstance(value, dict):
        file.raise_error(
            (name,), f"must be a table, got {_describe_type(value)}", f"Write [{name}]"
        )
    check_names(file, (name,), value, kinds)
    arguments = {
        key: convert_plain(file, (name, key), inner, kinds[key]) for key, inner in value.items()
    }
    try:
        return make(**arguments)
    except ConfigurationError as error:
        file.raise_error((name, error.argument.partition("[")[0]), error.problem, error.fix)


def convert_plain(file: AgentFile, at: KeyPath, value: object, kind: object) -> object:
    """Convert a value to its type. TOML has no null, so `false` stands for None."""
    if value is False and may_be_none(kind):
        return None
    if isinstance(value, int | float) and Decimal in get_args(kind):
        value = repr(value)  # the number as it is written
    return _convert_value(file, at, value, cast("type[object]", kind))


def _convert_value(file: AgentFile, at: KeyPath, value: object, kind: type[A]) -> A:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem = str(error).partition(" - at ")[0].replace("`", "")
        file.raise_error(at, problem[:1].lower() + problem[1:])


def may_be_none(kind: object) -> bool:
    """Whether a value of a type may be None, which a file writes as `false`."""
    try:
        msgspec.convert(None, kind)
    except msgspec.ValidationError:
        return False
    return True


def _read_instructions(file: AgentFile) -> str:
    at = ("instructions_file",)
    if "instructions" in file.content:
        file.raise_error(at, "cannot be given together with instructions", "Leave one of them out")
    name = _convert_value(file, at, file.content["instructions_file"], str)
    try:
        return (file.path.parent / name).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        file.raise_error(
            at, f"{name!r} cannot be read: {reason}", "The path is relative to the agent's file"
        )


def _read_key(file: AgentFile) -> str:
    at = ("api_key_env",)
    variable = _convert_value(file, at, file.content["api_key_env"], str)
    if not _VARIABLE.fullmatch(variable):
        file.raise_error(
            at, "is not the name of an environment variable", "Write the name, not the API key"
        )
    key = os.environ.get(variable, "").strip()
    if not key:
        file.raise_error(
            at, f"the environment variable {variable} is not set", f"export {variable}=..."
        )
    return key


def import_name(file: AgentFile, at: KeyPath, name: str) -> object:
    """Import the object that `module:name` names."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        file.raise_error(at, f"{name!r} is not a module and a name", 'Write "package.module:name"')
    try:
        found = _import_beside(file, module)
    except (ImportError, ValueError, SyntaxError) as error:
        fix = "Put it beside the agent's file, install it, or add its folder to PYTHONPATH"
        file.raise_error(at, f"{module!r} cannot be imported: {error}", fix)
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            file.raise_error(
                at, f"{module!r} has no {part!r}", f"Did you mean {near[0]}?" if near else ""
            )
        found = getattr(found, part)
    return found


def _import_beside(file: AgentFile, module: str) -> object:
    """Import a module, which may lie in the folder of the agent's file."""
    folder = str(file.path.parent.resolve())
    if folder not in sys.path:
        # At the end, so that no file of the folder hides an installed module.
        sys.path.append(folder)
    return import_module(module)


def _find_key(argument: str, file: AgentFile) -> KeyPath:
    """Return the key that an error of `Agent` is about; `model` when the file has no such key."""
    name, *inner = re.split(r"[.\[ ]", argument)
    if name == "api_key":
        return ("api_key_env",)
    if name in file.content:
        table = file.content[name]
        is_key = isinstance(table, Mapping) and inner[:1] and inner[0] in table
        return (name, inner[0]) if is_key else (name,)
    return ("tools",) if name == "tool" else ("model",)


def _describe_type(value: object) -> str:
    names = {"str": "text", "list": "a list", "bool": "true or false", "int": "a number"}
    return names.get(type(value).__name__, type(value).__name__)


_NOT_IN_FILES = frozenset({"api_key", "transport", "clock", "rng", "metrics"})


@dataclass(frozen=True)
class FileForm:
    """How a file writes a setting; `plain` is the type of a value, and `record` that of a table."""

    written_as: Literal["value", "table", "name", "list of names"]
    plain: object = None
    record: type[Struct] | None = None


def find_keyword_forms() -> dict[str, FileForm]:
    """Return how a file writes each keyword of `Agent` that it may have."""
    names = {"OutputKind": OutputKind, "StructuredOutput": StructuredOutput}
    return find_forms(get_type_hints(AgentKeywords, localns=names))


def find_forms(declared: Mapping[str, object]) -> dict[str, FileForm]:
    """Return how a file writes settings, by their names and declared types."""
    return {
        name: find_file_form(kind) for name, kind in declared.items() if name not in _NOT_IN_FILES
    }


def find_file_form(declared: object) -> FileForm:
    """Return how a file writes a setting that has this declared type.

    A type that TOML can express is written as it is, a record of settings as a table, and any other
    object as "module:name".

    >>> find_file_form(Sequence[str]).plain
    list[str]
    """
    plain, record = _find_plain_type(declared), _find_record(declared)
    if plain not in (None, NoneType):
        return FileForm("value", plain=plain)
    if record is not None:
        return FileForm("table", record=record)
    return FileForm("name" if _find_item_type(declared) is None else "list of names")


def _find_plain_type(kind: object) -> object | None:
    """Return the part of a declared type that TOML can express, or None."""
    if get_origin(kind) in (Union, UnionType):
        parts = [_find_plain_type(part) for part in get_args(kind)]
        known = tuple(part for part in parts if part is not None)
        return Union[known] if known else None  # noqa: UP007  # REASON: the parts are in a tuple
    if get_origin(kind) is Literal:
        return str  # the record or `Agent` checks the text, and its error names the choices
    item = _find_item_type(kind)
    if item is not None:
        plain = _find_plain_type(item)
        return None if plain is None else list[plain]  # type: ignore[valid-type]  # made at run time
    if is_typeddict(kind):
        return Mapping[str, object]  # whoever reads the table checks its keys
    is_plain = kind in (str, int, float, bool, Decimal, NoneType) or get_origin(kind) in (
        Mapping,
        tuple,
    )
    return kind if is_plain else None


def _find_item_type(kind: object) -> object | None:
    """Return the type of the items of a list type, or None for another type."""
    is_list = get_origin(kind) in (Iterable, Sequence, Collection)
    return get_args(kind)[0] if is_list else None


def _find_record(kind: object) -> type[Struct] | None:
    """Return the record of settings in a declared type, or None."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, Struct):
            return part
    return None
