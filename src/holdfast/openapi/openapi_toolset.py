"""`OpenAPIToolset`: the operations of an OpenAPI file as tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Self, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.schema_checks.schema_limits import OUTPUT_LIMITS
from holdfast.core.schema_checks.schema_sense import read_schema
from holdfast.openapi.api_client import ApiClient
from holdfast.openapi.api_credentials import Auth, Credentials
from holdfast.openapi.api_operations import (
    FoundOperation,
    OpenAPIOperation,
    OperationReader,
    list_operations,
)
from holdfast.openapi.openapi_document import DocumentError, OpenAPIDocument, read_document
from holdfast.tools.schema_signature import SchemaSignature
from holdfast.tools.tool import (
    NAME_PATTERN,
    Tool,
    ToolEffect,
    ToolOptions,
    make_tool_with_signature,
)
from holdfast.tools.toolset import Toolset
from holdfast.tools.write_checks import AnyCheck
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import Timeouts, Transport

Select: TypeAlias = Iterable[str] | Callable[[OpenAPIOperation], bool]
"""Ids of operations, which may have * as in file names; or a function that says which ones are tools."""

_LONGEST_NAME: Final = 64
_LONGEST_DESCRIPTION: Final = 1_024
_MOST_NAMED: Final = 10
_NO_EFFECTS: Final[Mapping[str, ToolEffect]] = MappingProxyType({})


class OpenAPIOptions(Struct, frozen=True, kw_only=True):
    """How the tools of an HTTP API are made and called.

    Args:
        name: names the toolset in errors.
        on_refused: whether an operation that cannot be a tool is an error, or is skipped and named in
            `OpenAPIToolset.refused`.
        headers: headers of each request, which the model does not see.
        timeouts: the limits of one request.
        checks: look whether a write took effect, by the id of the operation, as `tool(check=...)` does.
        transport: sends the requests; None for the one of this library.

    Raises:
        ConfigurationError: a field has another type; the error names it.

    >>> OpenAPIOptions(on_refused="skip").name
    'api'
    """

    name: str = "api"
    on_refused: Literal["raise", "skip"] = "raise"
    headers: Mapping[str, str] = {}
    timeouts: Timeouts = Timeouts(total=120.0)
    checks: Mapping[str, AnyCheck] = {}
    transport: Transport | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.checks and self.timeouts.total is None:
            problem = "is None, and an operation with a check needs a time limit"
            raise ConfigurationError("timeouts.total", problem, fix="Write seconds")

    def __repr__(self) -> str:
        # Only the names of the headers, because the values may be keys.
        return f"OpenAPIOptions(name={self.name!r}, headers={sorted(self.headers)})"


_DEFAULT_OPTIONS: Final = OpenAPIOptions()


class OpenAPIToolset(Toolset):
    """The operations of an HTTP API as tools; made by `from_file`."""

    refused: Mapping[str, str] = MappingProxyType({})
    """The operations that were skipped, by their ids, with the reasons."""

    @classmethod
    def from_file(
        cls,
        path_or_dict: str | Path | Mapping[str, object],
        *,
        base_url: str | None = None,
        auth: Auth | None = None,
        select: Select | None = None,
        effects: Mapping[str, ToolEffect] = _NO_EFFECTS,
        options: OpenAPIOptions = _DEFAULT_OPTIONS,
    ) -> Self:
        """Return a toolset of the operations in an OpenAPI file, 3.0 or 3.1, of JSON or YAML.

        A tool has the name of its operation and an argument for each parameter; `body` is the body. Each call
        is validated by the schemas of the file. Only the host of `base_url` is called. The model sees no
        credential.

        Args:
            path_or_dict: the file, or the document. YAML needs the extra `openapi`.
            base_url: the address before each path; by default the first server of the file.
            auth: a bearer token; or the values of security schemes of the file, by name ("user:password" for
                basic); or a function that returns either before each request, sync or async.
            select: the ids of the operations, where * stands for any characters; or a function that takes an
                `OpenAPIOperation`. None for all.
            effects: the effect of operations by their ids. By default GET and HEAD are reads, and everything
                else is a write.
            options: how the tools are made and called.

        Raises:
            ConfigurationError: the file is not OpenAPI 3.0 or 3.1, two operations have the same id, there is no
                base URL, or operations cannot be tools; the error names the place.

        >>> shop = {
        ...     "openapi": "3.1.0",
        ...     "servers": [{"url": "https://shop.example/v1"}],
        ...     "paths": {"/orders/{id}": {"get": {"operationId": "orders/get", "parameters": [
        ...         {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}]}}},
        ... }
        >>> OpenAPIToolset.from_file(shop, options=OpenAPIOptions(name="shop"))
        OpenAPIToolset('shop', orders_get)
        """
        document = read_document(path_or_dict)
        check_value("effects", effects, Mapping[str, ToolEffect])
        check_value("options", options, OpenAPIOptions)
        address = _find_base_url(document, base_url)
        credentials = Credentials(document, auth, options.headers)
        try:
            found = list(list_operations(document))
        except DocumentError as error:
            raise document.make_error(error) from None
        _check_ids("effects", effects, found)
        _check_ids("checks", options.checks, found)
        maker = _ToolMaker(
            OperationReader(document, credentials.hidden),
            ApiClient(address, credentials, options.transport or HttpTransport(), options.timeouts),
            effects,
            options,
        )
        servers = _Servers(document, address)
        tools: list[Tool] = []
        names: dict[str, str] = {}
        refused: dict[str, ConfigurationError] = {}
        for one in _select(found, select):
            try:
                servers.check(one)
                tool = maker.make(one)
                _check_name(tool.name, one, names)
                tools.append(tool)
            except DocumentError as error:
                refused[one.operation.id] = document.make_error(error)
            except ConfigurationError as error:
                argument = f"{document.source}#{one.place}"
                problem = f"{error.argument.partition(', ')[2] or error.argument}: {error.problem}"
                refused[one.operation.id] = ConfigurationError(argument, problem, fix=error.fix)
        if refused and options.on_refused == "raise":
            raise _join_errors(document.source, refused)
        made = cls(options.name, tools)
        made.__dict__["refused"] = {key: str(error) for key, error in refused.items()}
        return made


class _ToolMaker:
    """Makes the tools of operations.

    Args:
        reader: reads their arguments.
        client: calls them.
        effects: their effects, by id.
        options: their checks, by id, and the limits of a request.
    """

    def __init__(
        self,
        reader: OperationReader,
        client: ApiClient,
        effects: Mapping[str, ToolEffect],
        options: OpenAPIOptions,
    ) -> None:
        self._reader = reader
        self._client = client
        self._effects = effects
        self._options = options

    def make(self, found: FoundOperation) -> Tool:
        """Return the tool of an operation. Raises DocumentError or ConfigurationError."""
        operation = found.operation
        name = make_tool_name(operation.id)
        if not name:
            problem = f"{operation.id!r} has no letter or digit that a tool's name may have"
            raise DocumentError(f"{found.place}/operationId", problem, "Rename it")
        schema, plan = self._reader.read(found)
        effect = self._effects.get(operation.id, operation.effect)
        plan = replace(plan, is_once=effect == "write")
        plain = read_schema(f"tool {name!r}, arguments", schema, OUTPUT_LIMITS)
        signature = SchemaSignature(
            plain, f"tool {name!r}, arguments", ("arguments", "context"), skip_patterns=True
        )
        check = self._options.checks.get(operation.id)
        options = ToolOptions(
            name=name,
            description=_describe(found),
            effect=effect,
            timeout=None if check is None else self._options.timeouts.total,
            check=check,
        )
        call = cast("Callable[..., object]", partial(self._client.call, plan))
        return make_tool_with_signature(call, options, signature)


def _check_name(name: str, found: FoundOperation, names: dict[str, str]) -> None:
    """Note the name of a tool. Raises DocumentError if another operation has it."""
    if name in names:
        problem = (
            f"{found.operation.id!r} makes the name {name!r}, which {names[name]!r} has already"
        )
        fix = "Rename one of them, or leave it out with select="
        raise DocumentError(f"{found.place}/operationId", problem, fix)
    names[name] = found.operation.id


def make_tool_name(operation_id: str) -> str:
    """Return the name of a tool that every provider accepts; "" if there is none.

    >>> make_tool_name("issues/list-for-repo")
    'issues_list-for-repo'
    >>> make_tool_name("a" * 70)[-12:]
    'aaa_0ca6bce1'
    """
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", operation_id).strip("_")
    if len(name) > _LONGEST_NAME:
        digest = blake2b(operation_id.encode(), digest_size=4).hexdigest()
        name = f"{name[: _LONGEST_NAME - 9]}_{digest}"
    return name if NAME_PATTERN.fullmatch(name) else ""


def _describe(found: FoundOperation) -> str:
    """Return the description of a tool: what the file says, or the method and the path."""
    own, operation = found.own, found.operation
    texts = [operation.summary, own.get("description") or ""]
    text = "\n\n".join(one.strip() for one in texts if isinstance(one, str) and one.strip())
    text = text or f"{operation.method} {operation.path}"
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return text[: _LONGEST_DESCRIPTION - 3] + "..."


def _select(found: Sequence[FoundOperation], select: Select | None) -> list[FoundOperation]:
    """Return the chosen operations. Raises ConfigurationError for an id that none has."""
    if select is None:
        return list(found)
    if callable(select):
        return [one for one in found if select(one.operation)]
    if isinstance(select, str):
        raise ConfigurationError("select", "must be a list of ids, got str", fix="Write [...]")
    check_value("select", select, Iterable[str])
    patterns = list(select)
    for pattern in patterns:
        if not any(fnmatchcase(one.operation.id, pattern) for one in found):
            raise _unknown_id("select", pattern, found)
    return [one for one in found if any(fnmatchcase(one.operation.id, p) for p in patterns)]


def _check_ids(argument: str, ids: Iterable[str], found: Sequence[FoundOperation]) -> None:
    known = {one.operation.id for one in found}
    for name in ids:
        if name not in known:
            raise _unknown_id(argument, name, found)


def _unknown_id(argument: str, name: str, found: Sequence[FoundOperation]) -> ConfigurationError:
    near = get_close_matches(name, [one.operation.id for one in found], 1)
    fix = f"Did you mean {near[0]!r}?" if near else "Write operationIds of the file"
    return ConfigurationError(argument, f"the file has no operation {name!r}", fix=fix)


def _join_errors(source: str, refused: Mapping[str, ConfigurationError]) -> ConfigurationError:
    errors = list(refused.values())
    fix = 'Leave them out with select=, or with OpenAPIOptions(on_refused="skip")'
    if len(errors) == 1:
        (only,) = errors
        return ConfigurationError(only.argument, only.problem, fix=only.fix or fix)
    shown = "\n".join(
        f"- {error.argument.partition('#')[2]}: {error.problem}" for error in errors[:_MOST_NAMED]
    )
    more = f"\n- and {len(errors) - _MOST_NAMED} more" if len(errors) > _MOST_NAMED else ""
    problem = f"{len(errors)} operations cannot be tools:\n{shown}{more}\n"
    return ConfigurationError(source, problem, fix=fix)


def _find_base_url(document: OpenAPIDocument, given: str | None) -> str:
    """Return the base URL: the given one, or the first server of the document."""
    address = given
    if address is None:
        address = _first_server(document.root)
        if not urlsplit(address).scheme:
            problem = (
                f"the file names no address of a server, but {_hide_user(address)!r}"
                if address
                else "the file names no server"
            )
            raise ConfigurationError("base_url", problem, fix='Pass base_url="https://..."')
    check_value("base_url", address, str)
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise ConfigurationError(
            "base_url", "is not an address", fix='Write "https://..."'
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("base_url", "is not an http or https address")
    if parts.username is not None or parts.password is not None:
        problem = "holds a user or a password"
        raise ConfigurationError("base_url", problem, fix="Pass them as auth=")
    if parts.query or parts.fragment:
        problem = "holds a query or a fragment"
        raise ConfigurationError(
            "base_url", problem, fix="Pass keys as auth=, or in OpenAPIOptions(headers=...)"
        )
    return address


def _first_server(holder: Mapping[str, object]) -> str:
    """Return the address of the first server of an object, with its defaults; "" for none."""
    servers = holder.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, dict) else None
    variables = first.get("variables") if isinstance(first, dict) else None
    if not isinstance(url, str):
        return ""
    for name, one in variables.items() if isinstance(variables, dict) else ():
        default = one.get("default") if isinstance(one, dict) else None
        url = url.replace(f"{{{name}}}", str(default))
    return url.strip()


class _Servers:
    """Refuses operations that are on another server.

    Args:
        document: the document.
        base_url: the address of the API.
    """

    def __init__(self, document: OpenAPIDocument, base_url: str) -> None:
        self._usual = {_without_scheme(_first_server(document.root)), _without_scheme(base_url)}

    def check(self, found: FoundOperation) -> None:
        """Raise DocumentError if an operation names another server than the document does."""
        for holder in (found.own, found.shared):
            server = _first_server(holder)
            if server:
                if _without_scheme(server) not in self._usual:
                    problem = f"is on another server, {_hide_user(server)[:100]}"
                    fix = "Make another toolset with its base_url and a document with that server"
                    raise DocumentError(f"{found.place}/servers", problem, fix)
                return


def _hide_user(address: str) -> str:
    """Return an address without the user and the password that a file may have in it."""
    return re.sub(r"//[^/?#]*@", "//", address)


def _without_scheme(address: str) -> str:
    """Return an address without its scheme, which some files leave out."""
    return re.sub(r"^https?:", "", address).rstrip("/")
