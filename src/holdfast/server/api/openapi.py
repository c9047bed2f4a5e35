"""Makes the OpenAPI 3.1 document of the native API from its operations and their types.

It must never describe what an operation does not declare.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeAlias

import msgspec

from holdfast.event_log.stream_items import StreamItem
from holdfast.server.api.operations import IDEMPOTENCY_KEY, NDJSON, AnyOperation
from holdfast.server.problem_body import ProblemBody

Schema: TypeAlias = dict[str, Any]

PROBLEM = "application/problem+json"
_REFERENCE = "#/components/schemas/{name}"
_ALWAYS = (400, 401, 403, 408, 422, 429, 500, 503)
"""What every operation may answer: a request that is not HTTP or not timely, access, a wrong query, a
journal that does not work."""
_WITH_BODY = (413, 415)
_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n     .*)*)", re.MULTILINE)

_REFUSALS = {
    400: "The request is malformed.",
    401: "A key is needed, or the key is not valid.",
    403: "The caller may not do this.",
    404: "There is no such thing, or it belongs to another tenant.",
    408: "The body came too slowly.",
    409: "This cannot be done in the present state; `retryable` says whether later.",
    413: "The body is too large.",
    415: "The body has another type.",
    422: "A field does not fit; `field` names it. Or the idempotency key had another body.",
    429: "There were too many requests; `retry_after` says how long to wait.",
    500: "The service failed.",
    502: "The model did not answer.",
    503: "The journal or the service does not work at present.",
}


def make_document(operations: Sequence[AnyOperation]) -> Schema:
    """Return the document of some operations."""
    kinds = _collect_types(operations)
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=_describe_anything, ref_template=_REFERENCE
    )
    found = dict(zip(map(repr, kinds), schemas, strict=True))
    types, queries = _find_structs(kinds), {operation.query.__name__ for operation in operations}
    described = {
        name: _add_descriptions(schema, types.get(name))
        for name, schema in components.items()
        if name not in queries
    }
    paths: dict[str, Schema] = {}
    for operation in operations:
        entry = _Describer(found, components).describe(operation)
        paths.setdefault(operation.path, {})[operation.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": "1",
            "description": "Agents, their sessions, turns, questions and events.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"key": []}, {}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(described.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _collect_types(operations: Iterable[AnyOperation]) -> list[Any]:
    found: dict[str, Any] = {repr(ProblemBody): ProblemBody, repr(StreamItem): StreamItem}
    for operation in operations:
        answers = [one.kind for some in operation.answers.values() for one in some]
        for kind in (operation.query, operation.body, *answers):
            if kind is not None:
                found[repr(kind)] = kind
    return list(found.values())


def _find_structs(kinds: Sequence[Any]) -> dict[str, type]:
    """Return the structs that types are made of, by name."""
    found: dict[str, type] = {}
    waiting: list[object] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls.__name__ in found:
                continue
            found[one.cls.__name__] = one.cls
        if isinstance(one, msgspec.Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple):
            waiting += one
    return found


def _describe_anything(kind: type) -> Schema:
    """Return the schema of a value that may be any JSON value."""
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(kind)


def _add_descriptions(schema: Schema, kind: type | None) -> Schema:
    """Return the schema of a struct with what its docstring says about it and its fields."""
    schema.pop("description", None)
    text = inspect.getdoc(kind) if kind is not None else None
    if not text:
        return schema
    head, _, arguments = text.partition("\nArgs:\n")
    described = {"description": " ".join(head.split()), **schema}
    for name, words in _ARGUMENT.findall(arguments):
        if name in schema.get("properties", {}):
            field = schema["properties"][name]
            described["properties"][name] = {**field, "description": " ".join(words.split())}
    return described


class _Describer:
    """Describes operations.

    Args:
        schemas: the schema of each type, by the name of the type.
        components: the schemas that others refer to, by name.
    """

    def __init__(self, schemas: Mapping[str, Schema], components: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._components = components

    def describe(self, operation: AnyOperation) -> Schema:
        """Return what a document says about an operation."""
        entry: Schema = {"operationId": operation.name, "summary": operation.text}
        entry["x-scope"] = operation.scope
        entry["x-takes"] = list(operation.takes)
        if parameters := [*_path_parameters(operation), *self._parameters(operation)]:
            entry["parameters"] = parameters
        if operation.carries != "none":
            entry["requestBody"] = self._request_body(operation)
        entry["responses"] = self._responses(operation)
        return entry

    def _parameters(self, operation: AnyOperation) -> Iterable[Schema]:
        reference = self._schemas[repr(operation.query)]["$ref"]
        schema = self._components[reference.rpartition("/")[2]]
        arguments = (inspect.getdoc(operation.query) or "").partition("\nArgs:\n")[2]
        words = {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(arguments)}
        for name, field in schema.get("properties", {}).items():
            given = {"name": name, "in": "query", "required": False, "schema": _without_null(field)}
            yield given | ({"description": words[name]} if name in words else {})
        headers = (IDEMPOTENCY_KEY, *operation.headers) if operation.once else operation.headers
        for header in headers:
            yield {
                "name": header.name,
                "in": "header",
                "required": False,
                "description": header.text,
                "schema": dict(header.schema),
            }

    def _request_body(self, operation: AnyOperation) -> Schema:
        if operation.carries == "lines":
            content = {NDJSON: {"schema": {"type": "string"}}}
        elif operation.carries == "bytes":
            content = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
        else:
            content = {"application/json": {"schema": self._schemas[repr(operation.body)]}}
        return {"required": operation.carries != "optional", "content": content}

    def _responses(self, operation: AnyOperation) -> Schema:
        responses: Schema = {}
        for status, answers in operation.answers.items():
            response: Schema = {"description": " Or: ".join(answer.text for answer in answers)}
            content = {}
            for answer in answers:
                if answer.kind is not None:
                    is_json = answer.media_type == "application/json"
                    schema = self._schemas[repr(answer.kind)] if is_json else {"type": "string"}
                    content[answer.media_type] = {"schema": schema}
            if content:
                response["content"] = content
            responses[str(status)] = response
        with_body = _WITH_BODY if operation.carries != "none" else ()
        for status in sorted({*_ALWAYS, *with_body, *operation.refusals}):
            responses[str(status)] = {
                "description": _REFUSALS.get(status, HTTPStatus(status).phrase),
                "content": {PROBLEM: {"schema": self._schemas[repr(ProblemBody)]}},
            }
        return dict(sorted(responses.items()))


def _path_parameters(operation: AnyOperation) -> Iterable[Schema]:
    for part in operation.path.split("/"):
        if part.startswith("{"):
            name = part[1:-1]
            schema: Schema = {"type": "string", "minLength": 1}
            if name == "turn":
                schema = {"type": "integer", "minimum": 1}
            yield {"name": name, "in": "path", "required": True, "schema": schema}


def _without_null(schema: Schema) -> Schema:
    """Return the schema of a query parameter, which is left out and never null."""
    kept = {name: value for name, value in schema.items() if name != "default" or value is not None}
    if "anyOf" in kept:
        options = [one for one in kept["anyOf"] if one != {"type": "null"}]
        if len(options) == 1:
            return {**{name: one for name, one in kept.items() if name != "anyOf"}, **options[0]}
    if "enum" in kept:
        kept["enum"] = [one for one in kept["enum"] if one is not None]
    return kept
