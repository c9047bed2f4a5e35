"""An agent from a TOML file: reads it, checks it, and says in which line what is wrong.

A file is shared and kept in version control, so it must never hold a secret: a key is named by its
environment variable. No value that may be one is repeated in an error.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TypeVar, cast

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import Limits
from holdfast.core.model_request import ModelSettings
from holdfast.core.redaction import redact
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.continuation_permission import ContinuationPermission
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.defaults import Resilience
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.retry.options import RetryOptions
from holdfast.transport.port import Timeouts

A = TypeVar("A")
KeyPath = tuple[str, ...]

_PLAIN: dict[str, object] = {
    "model": str,
    "name": str,
    "instructions": str,
    "base_url": str,
    "parallel_tools": int,
    "tool_timeout": float | None,
    "detailed_errors": bool,
    "fallback": list[str],
    "journal": str,
    "on_wait": str,
    "on_busy": str,
}
_NAMED = frozenset({"output", "on_question"})
_LISTS_OF_NAMED = frozenset({"tools", "middleware", "observers"})
_TURNED = frozenset({"instructions_file", "api_key_env"})  # into a keyword of another name
_TABLES: dict[str, type[Struct]] = {
    "settings": ModelSettings,
    "limits": Limits,
    "timeouts": Timeouts,
    "retry": RetryOptions,
    "resilience": Resilience,
}
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
"""A table -> the middleware that it makes, and what its keys must be."""

_STRATEGIES: dict[str, type[Struct]] = {
    "budget": BudgetOptions,
    "breaker": BreakerOptions,
    "limiter": LimiterOptions,
    "hedge": HedgeOptions,
    "cache": CacheOptions,
}
_IMPORTED = frozenset({"custom_retry", "provider_handler", "refresh_credentials"})
_NOT_IN_FILES = frozenset({"metrics"})
_SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?keys?|tokens?|secrets?|passwords?|passwd|credentials?|authorization)$",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NO_SECRETS = 'Put it into the environment, and write api_key_env = "NAME_OF_THE_VARIABLE"'


def load_agent(path: str | os.PathLike[str], make: Callable[..., A]) -> A:
    """The agent that a file describes.

    Args:
        path: the file; `instructions_file` in it is relative to its folder.
        make: called with the keywords of `Agent`.

    Raises:
        ConfigurationError: the file cannot be read, or something in it is wrong; the error names
            file, line and key, and the fix.
    """
    file = _read_file(Path(path))
    keywords = _build_keywords(file)
    try:
        return make(**keywords)
    except ConfigurationError as error:
        file.raise_error(
            _find_key(error.argument, file), error.problem, error.fix, argument=error.argument
        )


@dataclass(frozen=True)
class _AgentFile:
    """A file that could be parsed; `lines` are those of its keys."""

    path: Path
    content: Mapping[str, object]
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def raise_error(
        self, at: KeyPath, problem: str, fix: str = "", *, argument: str = ""
    ) -> NoReturn:
        """Raise for the key `at`, at the line of it or of the table around it."""
        line = next(
            (self.lines[at[:end]] for end in range(len(at), 0, -1) if at[:end] in self.lines), None
        )
        where = self.path.name if line is None else f"{self.path.name}:{line}"
        named = argument or ".".join(at)
        raise ConfigurationError(f"{where}: {named}" if named else where, problem, fix=fix)


def _read_file(path: Path) -> _AgentFile:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        problem = f"cannot be read: {error.strerror or type(error).__name__}"
        raise ConfigurationError(str(path), problem) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(path.name, "is no UTF-8 text") from error
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(path.name, f"is no TOML: {error}") from error
    return _AgentFile(path, content, find_key_lines(text))


_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(
    r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_PART = re.compile(r"[\w-]+|\"[^\"]*\"|'[^']*'")
_LONG = ('"""', "'''")
_TOKEN = re.compile(r""""{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|#.*""")


def find_key_lines(text: str) -> dict[KeyPath, int]:
    r"""The lines, counted from 1, in which the keys of a TOML text stand.

    Args:
        text: what a TOML parser accepts.

    >>> find_key_lines('a = 1\n[b]\nc.d = 2')
    {('a',): 1, ('b',): 2, ('b', 'c', 'd'): 3}
    """
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    open_quote = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not open_quote:
            if match := _KEY.match(line):
                found.setdefault((*table, *_split_key(match[1])), number)
            elif match := _HEADER.match(line):
                table = _split_key(match[1])
                found.setdefault(table, number)
        open_quote = _find_open_quote(line, open_quote)
    return found


def _find_open_quote(line: str, quote: str) -> str:
    """The quote of the long text that this line leaves open, or ""; `quote` is open before it."""
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


def _build_keywords(file: _AgentFile) -> dict[str, object]:
    """The keywords of `Agent`. Raises ConfigurationError."""
    _refuse_secrets(file, (), file.content)
    known = {*_PLAIN, *_NAMED, *_LISTS_OF_NAMED, *_TURNED, *_TABLES, *_MIDDLEWARES}
    _check_names(file, (), file.content, known)
    keywords: dict[str, object] = {
        name: _convert_keyword(file, (name,), value)
        for name, value in file.content.items()
        if name not in _TURNED and name not in _MIDDLEWARES
    }
    if not keywords.get("model"):
        file.raise_error(("model",), "is not given", 'Write model = "openai:gpt-5.2"')
    if "instructions_file" in file.content:
        keywords["instructions"] = _read_instructions(file)
    if "api_key_env" in file.content:
        keywords["api_key"] = _read_key(file)
    if made := [_build_middleware(file, name) for name in file.content if name in _MIDDLEWARES]:
        keywords["middleware"] = [*_import_all(file, "middleware"), *made]
    return keywords


def _convert_keyword(file: _AgentFile, at: KeyPath, value: object) -> object:
    """What stands for one key, as `Agent` takes it."""
    (name,) = at
    if name in _TABLES:
        return _convert_struct(file, at, value, _TABLES[name])
    if name in _NAMED:
        return _import_name(file, at, _convert_value(file, at, value, str))
    if name in _LISTS_OF_NAMED:
        return _import_all(file, name)
    return _convert_plain(file, at, value, _PLAIN[name])


def _import_all(file: _AgentFile, name: str) -> list[object]:
    """What the names of a list stand for; one of them may itself be a list."""
    at = (name,)
    names = _convert_value(file, at, file.content.get(name, []), list[str])
    found = [_import_name(file, at, one) for one in names]
    return [one for some in found for one in (some if isinstance(some, list) else (some,))]


def _refuse_secrets(file: _AgentFile, at: KeyPath, value: object) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if _SECRET_KEY.search(name) and isinstance(inner, str):
                file.raise_error((*at, name), "a secret has no place in a file", _NO_SECRETS)
            _refuse_secrets(file, (*at, name), inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_secrets(file, at, inner)
    elif isinstance(value, str) and any(redact(word) != word for word in value.split()):
        # Word by word: instructions may speak of passwords.
        file.raise_error(at, "looks like a secret, which has no place in a file", _NO_SECRETS)


def _check_names(file: _AgentFile, at: KeyPath, table: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(known)
    for name in table:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.6)
            fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(names)}"
            file.raise_error((*at, name), "is no setting", fix)


def _convert_struct(file: _AgentFile, at: KeyPath, value: object, kind: type[Struct]) -> Struct:
    """A table as one of our records."""
    if not isinstance(value, dict):
        file.raise_error(
            at, f"must be a table, got {_describe_type(value)}", f"Write [{'.'.join(at)}]"
        )
    fields = {one.name: one for one in msgspec.structs.fields(kind)}
    _check_names(file, at, value, fields.keys() - _NOT_IN_FILES)
    given: dict[str, object] = {}
    for name, inner in value.items():
        place = (*at, name)
        if kind is Resilience and name in _STRATEGIES:
            given[name] = (
                None if inner is False else _convert_struct(file, place, inner, _STRATEGIES[name])
            )
        elif name in _IMPORTED:
            given[name] = _import_name(file, place, _convert_value(file, place, inner, str))
        else:
            given[name] = _convert_plain(file, place, inner, fields[name].type)
    try:
        return kind(**given)
    except ConfigurationError as error:
        last = re.sub(r"\[.*\]", "", error.argument).rpartition(".")[2]
        file.raise_error((*at, last), error.problem, error.fix)


def _build_middleware(file: _AgentFile, name: str) -> AnyMiddleware:
    """The middleware that a table describes."""
    make, kinds = _MIDDLEWARES[name]
    value = file.content[name]
    if not isinstance(value, dict):
        file.raise_error(
            (name,), f"must be a table, got {_describe_type(value)}", f"Write [{name}]"
        )
    _check_names(file, (name,), value, kinds)
    given = {
        key: _convert_plain(file, (name, key), inner, kinds[key]) for key, inner in value.items()
    }
    try:
        return make(**given)
    except ConfigurationError as error:
        file.raise_error((name, error.argument.partition("[")[0]), error.problem, error.fix)


def _convert_plain(file: _AgentFile, at: KeyPath, value: object, kind: object) -> object:
    """The value in its type. TOML has no null: where None is meant, a file says false."""
    if value is False and _may_be_none(kind):
        return None
    return _convert_value(file, at, value, cast("type[object]", kind))


def _convert_value(file: _AgentFile, at: KeyPath, value: object, kind: type[A]) -> A:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        wanted = str(error).partition(" - at ")[0].replace("`", "")
        file.raise_error(at, wanted[:1].lower() + wanted[1:])


def _may_be_none(kind: object) -> bool:
    try:
        msgspec.convert(None, kind)
    except msgspec.ValidationError:
        return False
    return True


def _read_instructions(file: _AgentFile) -> str:
    at = ("instructions_file",)
    if "instructions" in file.content:
        file.raise_error(at, "cannot be given together with instructions", "Leave one of them out")
    name = _convert_value(file, at, file.content["instructions_file"], str)
    try:
        return (file.path.parent / name).read_text("utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        file.raise_error(
            at, f"{name!r} cannot be read: {said}", "The path is relative to the agent's file"
        )


def _read_key(file: _AgentFile) -> str:
    at = ("api_key_env",)
    variable = _convert_value(file, at, file.content["api_key_env"], str)
    if not _VARIABLE.fullmatch(variable):
        file.raise_error(
            at, "is no name of an environment variable", "Write the name and not the key"
        )
    key = os.environ.get(variable, "").strip()
    if not key:
        file.raise_error(
            at, f"the environment variable {variable} is not set", f"export {variable}=..."
        )
    return key


def _import_name(file: _AgentFile, at: KeyPath, name: str) -> object:
    """What `module:name` stands for."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        file.raise_error(at, f"{name!r} names no module and name", 'Write "package.module:name"')
    try:
        found: object = import_module(module)
    except (ImportError, ValueError, SyntaxError) as error:
        fix = "Install it, or set PYTHONPATH to the folder that it is in"
        file.raise_error(at, f"{module!r} cannot be imported: {error}", fix)
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            file.raise_error(
                at, f"{module!r} has no {part!r}", f"Did you mean {near[0]}?" if near else ""
            )
        found = getattr(found, part)
    return found


def _find_key(argument: str, file: _AgentFile) -> KeyPath:
    """The key that an error of `Agent` is about; the model's where the file names no such key."""
    name = re.split(r"[.\[ ]", argument, maxsplit=1)[0]
    if name == "api_key":
        return ("api_key_env",)
    if name in file.content:
        return (name,)
    return ("tools",) if name == "tool" else ("model",)


def _describe_type(value: object) -> str:
    names = {"str": "text", "list": "a list", "bool": "true or false", "int": "a number"}
    return names.get(type(value).__name__, type(value).__name__)
