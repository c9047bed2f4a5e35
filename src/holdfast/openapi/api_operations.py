"""Reads the operations of an OpenAPI document: the arguments of each one, and how they become a request.

Each argument has the name of its parameter; the body is one argument. This module must never send anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote

from msgspec import Struct

from holdfast.core.schema_checks.schema_nodes import shorten
from holdfast.openapi.api_credentials import HEADER_NAME
from holdfast.openapi.argument_schemas import ArgumentSchemas
from holdfast.openapi.openapi_document import (
    DocumentError,
    Json,
    OpenAPIDocument,
    extend_place,
)
from holdfast.tools.tool import ToolEffect

Where: TypeAlias = Literal["path", "query", "header", "cookie"]
Style: TypeAlias = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"
]
BodyKind: TypeAlias = Literal["json", "form", "multipart", "text", "file"]

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_STYLES: Final[dict[Where, tuple[Style, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles of parameters by their places; the first one is the default."""

_OWN_HEADERS: Final = frozenset(
    [
        *("accept", "authorization", "connection", "content-length", "content-type", "cookie"),
        *("expect", "host", "keep-alive", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    ]
)
"""Headers that no model writes. OpenAPI says of three of them that a file cannot declare them."""

IDEMPOTENCY_HEADER: Final = "idempotency-key"
"""A parameter with this name gets the key of the call, and is not an argument."""

_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_BODY_KINDS: Final[tuple[tuple[str, BodyKind], ...]] = (
    (r"application/json|[^/]+/[^/]+\+json|\*/\*", "json"),
    (r"application/x-www-form-urlencoded", "form"),
    (r"multipart/form-data", "multipart"),
    (r"text/(?!xml).*", "text"),
    (r"application/octet-stream|application/zip|application/gzip|application/pdf|(?:audio|image|video)/.*", "file"),
)  # fmt: skip
"""The bodies that can be written, the best one first."""

FILE_SCHEMA: Final[Json] = {
    "type": "object",
    "description": "A file: its name, and its content as text or as base64.",
    "properties": {
        "name": {"type": "string"},
        "text": {"type": "string"},
        "base64": {"type": "string"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


class OpenAPIOperation(Struct, frozen=True):
    """An operation of an OpenAPI file, as `select` sees it.

    Args:
        id: its `operationId`; method and path if it has none.
        method: the HTTP method, in upper case.
        path: the template of its path.
        summary: its summary.
        tags: its tags.
        is_deprecated: whether it is deprecated.
    """

    id: str
    method: str
    path: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    is_deprecated: bool = False

    @property
    def effect(self) -> ToolEffect:
        """What its tool declares unless it is told: GET and HEAD read, and everything else writes."""
        return "read" if self.method in ("GET", "HEAD") else "write"


class ParameterPlan(Struct, frozen=True):
    """How an argument becomes a part of a request.

    Args:
        name: the name in the request.
        where: the part of the request.
        argument: the name of the argument; "" for the key of the call.
        style: how arrays and objects are written.
        explode: whether each of their values is written by itself.
        is_reserved: whether reserved characters are not encoded in a query.
        is_json: the value is written as JSON.
        has_slashes: a value in the path may have several segments.
    """

    name: str
    where: Where
    argument: str
    style: Style
    explode: bool
    is_reserved: bool = False
    is_json: bool = False
    has_slashes: bool = False


class BodyPlan(Struct, frozen=True):
    """How an argument becomes the body of a request.

    Args:
        argument: the name of the argument.
        kind: how it is written.
        media_type: its content type.
        encodings: the styles of properties in a form, by name.
        files: the properties that are files.
    """

    argument: str
    kind: BodyKind
    media_type: str
    encodings: dict[str, tuple[Style, bool]] = {}
    files: frozenset[str] = frozenset()


class RequestPlan(Struct, frozen=True):
    """How the arguments of an operation become a request.

    Args:
        method: the HTTP method.
        path: the template of the path.
        parameters: the parameters.
        body: the body; None for none.
        is_once: whether it must reach the service once at most.
    """

    method: str
    path: str
    parameters: tuple[ParameterPlan, ...]
    body: BodyPlan | None = None
    is_once: bool = True


class FoundOperation(Struct, frozen=True):
    """An operation and its place: the objects of it and of its path."""

    operation: OpenAPIOperation
    place: str
    own: Json
    shared: Json


def list_operations(document: OpenAPIDocument) -> Iterator[FoundOperation]:
    """Yield the operations of a document.

    Raises:
        DocumentError: a path is not an object, or two operations have the same id.
    """
    known: dict[str, str] = {}
    found: list[tuple[str, str, str, Json, Json]] = []
    for path, given in document.root["paths"].items():
        if not isinstance(path, str):
            raise DocumentError("/paths", f"{shorten(path)} is not a path")
        if path.startswith("x-"):
            continue
        shared, _ = document.follow(given, extend_place("/paths", path))
        for method in _METHODS:
            if method in shared:
                place = extend_place("/paths", path, method)
                own, _ = document.follow(shared[method], place)
                _note_id(own.get("operationId"), place, known)
                found.append((path, method, place, own, shared))
    for path, method, place, own, shared in found:
        label = own.get("operationId") or _name_operation(method, path, known)
        known[label] = place
        tags = own.get("tags")
        operation = OpenAPIOperation(
            label,
            method.upper(),
            path,
            summary=_read_text(own, "summary"),
            tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
            is_deprecated=own.get("deprecated") is True,
        )
        yield FoundOperation(operation, place, own, shared)


def _note_id(name: object, place: str, known: dict[str, str]) -> None:
    """Note the id of an operation, if it has one. Raises DocumentError if it is none, or that of another one."""
    if name is None or name == "":
        return
    if not isinstance(name, str):
        raise DocumentError(f"{place}/operationId", f"{shorten(name)} is not a text")
    if name in known:
        problem = f"{name!r} is also the id of {known[name]}"
        raise DocumentError(f"{place}/operationId", problem, "Rename one of them")
    known[name] = place


def _name_operation(method: str, path: str, known: dict[str, str]) -> str:
    """Return a name for an operation without an id: its method and its path, with a number if it is taken."""
    plain = re.sub(r"[/{}]+", "_", f"{method}{path}").strip("_")
    return _find_free_name(plain, plain, known)


def _read_text(holder: Json, name: str) -> str:
    text = holder.get(name)
    return text.strip() if isinstance(text, str) else ""


class OperationReader:
    """Makes the schema of the arguments and the plan of the request of each operation.

    Args:
        document: the document.
        hidden: the parameters that the credentials fill, by place and name in lower case.
    """

    def __init__(self, document: OpenAPIDocument, hidden: frozenset[tuple[str, str]]) -> None:
        self._document = document
        self._hidden = hidden
        self._schemas = ArgumentSchemas(document)

    def read(self, found: FoundOperation) -> tuple[Json, RequestPlan]:
        """Return the schema of the arguments of an operation, and the plan of its request.

        Raises:
            DocumentError: the operation cannot be called; the error names the place.
        """
        properties: Json = {}
        required: list[str] = []
        uses: set[str] = set()
        plans: list[ParameterPlan] = []
        template = set(_TEMPLATE.findall(found.operation.path))
        for given, place in self._list_parameters(found):
            if given.get("in") == "path" and given.get("name") not in template:
                continue  # there is no place for it
            plan = self._plan_parameter(given, place, properties)
            if plan is None:
                continue
            plans.append(plan)
            if plan.argument:
                properties[plan.argument] = self._describe_parameter(given, place, uses)
                if plan.where == "path" or given.get("required") is True:
                    required.append(plan.argument)
        _check_template(found, plans)
        body = None
        if "requestBody" in found.own:
            place = f"{found.place}/requestBody"
            given, place = self._document.follow(found.own["requestBody"], place)
            argument = _find_free_name("body", "request_body", properties)
            body, properties[argument] = self._plan_body(
                given, place, argument, uses, found.operation.id
            )
            if given.get("required") is True:
                required.append(argument)
        schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        if definitions := self._schemas.collect_definitions(uses):
            schema["$defs"] = definitions
        operation = found.operation
        return schema, RequestPlan(
            operation.method, _encode_template(operation.path), tuple(plans), body
        )

    def _list_parameters(self, found: FoundOperation) -> Iterator[tuple[Json, str]]:
        """Yield the parameters of an operation; its own ones replace those of its path."""
        chosen: dict[tuple[object, object], tuple[Json, str]] = {}
        path = found.place.rpartition("/")[0]
        for holder, place in ((found.shared, path), (found.own, found.place)):
            listed = holder.get("parameters", [])
            if not isinstance(listed, list):
                raise DocumentError(f"{place}/parameters", f"{shorten(listed)} is not a list")
            for at, given in enumerate(listed):
                parameter, where = self._document.follow(given, f"{place}/parameters/{at}")
                chosen[parameter.get("in"), parameter.get("name")] = (parameter, where)
        yield from chosen.values()

    def _plan_parameter(self, given: Json, place: str, properties: Json) -> ParameterPlan | None:
        """Return the plan of a parameter; None if the model does not write it."""
        name, where = given.get("name"), given.get("in")
        if not isinstance(name, str) or not name:
            raise DocumentError(f"{place}/name", f"{shorten(name)} is not a name")
        if where not in _STYLES:
            problem = f"{shorten(where)} is none of path, query, header and cookie"
            raise DocumentError(f"{place}/in", problem, "Correct it")
        lower = name.lower()
        if (where, lower if where == "header" else name) in self._hidden:
            return None
        if where == "header" and lower in _OWN_HEADERS:
            return None
        if where == "header" and not HEADER_NAME.fullmatch(name):
            raise DocumentError(f"{place}/name", f"{shorten(name)} is not the name of a header")
        styles = _STYLES[where]
        style = given.get("style", styles[0])
        if style not in styles:
            problem = f"{shorten(style)} is not a style for a {where}: they are {', '.join(styles)}"
            raise DocumentError(f"{place}/style", problem)
        argument = _find_free_name(name, f"{name}_{where}", properties)
        if where == "header" and lower == IDEMPOTENCY_HEADER:
            argument = ""
        return ParameterPlan(
            name,
            where,
            argument,
            style,
            given.get("explode", style == "form") is True,
            is_reserved=given.get("allowReserved") is True,
            is_json="content" in given,
            has_slashes=given.get("x-multi-segment") is True,
        )

    def _describe_parameter(self, given: Json, place: str, uses: set[str]) -> object:
        schema, where = given.get("schema", True), f"{place}/schema"
        if isinstance(given.get("content"), dict) and given["content"]:
            media_type, content = next(iter(given["content"].items()))
            where = extend_place(place, "content", media_type, "schema")
            schema = content.get("schema", True) if isinstance(content, dict) else True
        converted = self._schemas.convert(schema, where, uses)
        return _add_description(converted, _read_text(given, "description"))

    def _plan_body(
        self, given: Json, place: str, argument: str, uses: set[str], operation: str
    ) -> tuple[BodyPlan, object]:
        """Return the plan of a body of an operation with this id, and its schema."""
        content = given.get("content")
        if not isinstance(content, dict) or not content:
            raise DocumentError(f"{place}/content", "names no content type")
        media_type, kind = _choose_body(content, place, operation)
        described, where = self._document.follow(
            content[media_type], extend_place(place, "content", media_type)
        )
        schema = described.get("schema", True)
        plain = media_type.partition(";")[0].strip()
        written = "application/json" if plain == "*/*" else plain
        if kind == "file":
            return BodyPlan(argument, kind, written), FILE_SCHEMA
        encodings: dict[str, tuple[Style, bool]] = {}
        files: frozenset[str] = frozenset()
        if kind in ("form", "multipart"):
            encodings = _read_encodings(described, where)
        converted = self._schemas.convert(schema, f"{where}/schema", uses)
        if kind == "multipart":
            converted, files = self._offer_files(
                *self._document.follow(schema, f"{where}/schema"), uses
            )
        converted = _add_description(converted, _read_text(given, "description"))
        return BodyPlan(argument, kind, written, encodings, files), converted

    def _offer_files(
        self, schema: Json, place: str, uses: set[str]
    ) -> tuple[object, frozenset[str]]:
        """Return the schema of a multipart body, in which files have a name and a content."""
        converted = cast("Json", self._schemas.convert(schema, place, uses))
        properties: dict[str, Any] = dict(converted.get("properties", {}))
        files: set[str] = set()
        given = schema.get("properties")
        for name, part in given.items() if isinstance(given, dict) else ():
            target, _ = self._document.follow(part, place)
            inner = target.get("items")
            if _is_file(target):
                properties[name] = FILE_SCHEMA
            elif isinstance(inner, dict) and _is_file(self._document.follow(inner, place)[0]):
                properties[name] = {"type": "array", "items": FILE_SCHEMA}
            else:
                continue
            files.add(name)
        return ({**converted, "properties": properties} if files else converted), frozenset(files)


def _find_free_name(name: str, other: str, taken: Mapping[str, object]) -> str:
    """Return a name that is not taken: the first one, or else the other one, with a number if need be."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = other if number == 1 else f"{other}_{number}"
    return found


def _add_description(schema: object, description: str) -> object:
    if not description:
        return schema
    if schema is True:
        return {"description": description}
    if isinstance(schema, dict) and "description" not in schema:
        return {**schema, "description": description}
    return schema


def _is_file(schema: Json) -> bool:
    """Whether a schema is that of a file: of 3.0 by its format, of 3.1 by its content."""
    if schema.get("type", "string") != "string":
        return False
    media_type = schema.get("contentMediaType")
    is_content = isinstance(media_type, str) and not media_type.startswith(
        ("text/", "application/json")
    )
    return schema.get("format") in ("binary", "base64") or is_content


def _choose_body(content: Json, place: str, operation: str) -> tuple[str, BodyKind]:
    """Return the best content type of a body, and how it is written."""
    for pattern, kind in _BODY_KINDS:
        for media_type in content:
            if re.fullmatch(pattern, media_type.partition(";")[0].strip().lower()):
                return media_type, kind
    names = ", ".join(map(str, content))[:200]
    is_xml = all("xml" in str(one).lower() for one in content)
    what = "and XML is not written" if is_xml else "which cannot be written"
    fix = "Leave it out with select=, or make a tool with Tool.from_schema that writes the body"
    raise DocumentError(
        f"{place}/content", f"the operation {operation!r} takes only {names}, {what}", fix
    )


def _read_encodings(described: Json, place: str) -> dict[str, tuple[Style, bool]]:
    """Return the styles of the properties of a form."""
    given = described.get("encoding", {})
    if not isinstance(given, dict):
        raise DocumentError(f"{place}/encoding", f"{shorten(given)} is not an object")
    found: dict[str, tuple[Style, bool]] = {}
    for name, one in given.items():
        if not isinstance(one, dict) or ("style" not in one and "explode" not in one):
            continue
        style = one.get("style", "form")
        if style not in _STYLES["query"]:
            where = extend_place(place, "encoding", name, "style")
            raise DocumentError(where, f"{shorten(style)} is not a style for a form")
        found[name] = (style, one.get("explode", style == "form") is True)
    return found


def _check_template(found: FoundOperation, plans: list[ParameterPlan]) -> None:
    """Raise DocumentError unless each part of the path's template is a parameter."""
    path = found.operation.path
    if not path.startswith("/") or "?" in path or "#" in path:
        problem = "its path does not begin with a slash, or has a query or a fragment"
        raise DocumentError(found.place, problem, "Write it as parameters")
    if "{" in _TEMPLATE.sub("", path) or "}" in _TEMPLATE.sub("", path):
        raise DocumentError(found.place, "its path has a brace without its other one")
    named = {plan.name for plan in plans if plan.where == "path"}
    for name in _TEMPLATE.findall(path):
        if name not in named:
            problem = f"its path has {{{name}}}, and there is no path parameter with that name"
            raise DocumentError(found.place, problem, "Declare it in parameters")


def _encode_template(path: str) -> str:
    """Return a path with everything encoded that no address has, except for the names of its parameters.

    >>> _encode_template("/my shops/{the id}")
    '/my%20shops/{the id}'
    """
    encoded = (quote(text, safe="/:@!$&'()*+,;=~%") for text in _TEMPLATE.split(path)[::2])
    names = [f"{{{name}}}" for name in _TEMPLATE.findall(path)]
    return "".join(map("".join, zip_longest(encoded, names, fillvalue="")))


def fill_template(path: str, values: dict[str, str]) -> str:
    """Return a path with the values of its parameters.

    >>> fill_template("/users/{id}", {"id": "7"})
    '/users/7'
    """
    return _TEMPLATE.sub(lambda part: values[part[1]], path)
