"""The native API as an ASGI application: all its operations, their errors, and their OpenAPI document.

The application finds the operation of a request, and words every error. It must never decide the effect
of an operation, and the document must never describe anything that an operation does not declare.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, TypeAlias

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.event_log.stream_items import StreamItem
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.server.access.budgets import READS
from holdfast.server.access.callers import require, set_takes
from holdfast.server.api import (
    act_routes,
    agent_routes,
    change_routes,
    event_routes,
    media_routes,
    question_routes,
    queue_routes,
    schedule_routes,
    session_routes,
    turn_routes,
    usage_routes,
)
from holdfast.server.api.idempotency import answer_once
from holdfast.server.api.operations import (
    IDEMPOTENCY_KEY,
    NDJSON,
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    respond,
)
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.api.request_reading import match_path, read_body, read_query, split_path
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import (
    ProblemError,
    make_problem,
    respond_problem,
    to_problem,
)

Schema: TypeAlias = dict[str, Any]
PROBLEM = "application/problem+json"
_REFERENCE = "#/components/schemas/{name}"

_ALWAYS = (400, 401, 403, 408, 422, 429, 500, 503)
"""The answers that every operation may give: a request that is not HTTP or not timely, access, a wrong query, a
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

_log = logging.getLogger("holdfast.server")


@cache
def describe_api() -> Schema:
    """Return the OpenAPI document of the native API."""
    return make_document(OPERATIONS)


async def read_openapi(call: Call[NoQuery, NoBody]) -> Response:
    """Return this description of the API, with the path under which it is mounted."""
    root = str(call.request.scope.get("root_path", ""))
    return respond({**describe_api(), "servers": [{"url": root}]})


OPERATIONS: tuple[AnyOperation, ...] = (
    *agent_routes.OPERATIONS,
    *session_routes.OPERATIONS,
    *act_routes.OPERATIONS,
    *turn_routes.OPERATIONS,
    *event_routes.OPERATIONS,
    *change_routes.OPERATIONS,
    *question_routes.OPERATIONS,
    *queue_routes.OPERATIONS,
    *schedule_routes.OPERATIONS,
    *media_routes.OPERATIONS,
    *usage_routes.OPERATIONS,
    Operation(
        name="read_openapi",
        method="GET",
        path="/openapi.json",
        text="Read the OpenAPI description of this API.",
        scope="read",
        takes=READS,
        handle=read_openapi,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(dict[str, object], "The description, as OpenAPI 3.1."),)},
    ),
)
"""The operations of the native API."""


class MethodError(ProblemError):
    """A request has a method that its path does not take."""

    def __init__(self, method: str, allowed: str) -> None:
        detail = f"{method} is not allowed here"
        super().__init__(make_problem(405, "method", detail, fix=f"Use {allowed}"))
        self.allowed = allowed


class NativeApi:
    """The operations of the native API.

    Args:
        service: the service.
        operations: the operations.
    """

    def __init__(self, service: ServiceTenants, operations: Sequence[AnyOperation]) -> None:
        self._service = service
        self.operations = tuple(operations)
        self._by_length: dict[int, list[tuple[tuple[str, ...], AnyOperation]]] = {}
        for operation in sorted(operations, key=lambda one: one.path.count("{")):
            pattern = tuple(operation.path.split("/")[1:])
            self._by_length.setdefault(len(pattern), []).append((pattern, operation))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": "not a websocket"})
            return
        try:
            response = await self._answer(Request(scope, receive))
        except ClientDisconnect:
            return
        except ProblemError as error:
            response = respond_problem(error.problem)
            if isinstance(error, MethodError):
                response.headers["Allow"] = error.allowed
        except HoldfastError as error:
            response = respond_problem(to_problem(error))
        except Exception as error:  # noqa: BLE001  # REASON: a request is always answered
            _log.exception("a request ended with an error of the service: %s", type(error).__name__)
            detail = "The service failed. Its log has the details."
            response = respond_problem(make_problem(500, "internal", detail))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        operation, names = self._find(request.method, split_path(request.scope))
        request.scope["path_params"], request.scope["endpoint"] = names, operation.handle
        set_takes(request, operation.takes)
        principal = require(request, operation.scope)
        given = request.query_params.multi_items() if request.scope["query_string"] else ()
        query = read_query(given, operation.query)
        body = await read_body(request, operation)
        tenant = self._service.for_tenant(principal.tenant)
        call = Call(tenant, principal, names, query, body, request=request, service=self._service)
        return await answer_once(call, operation)

    def _find(self, method: str, path: Sequence[str]) -> tuple[AnyOperation, dict[str, str]]:
        """Return the operation of a request, and the names in its path. Raises ProblemError."""
        others: set[str] = set()
        for pattern, operation in self._by_length.get(len(path), ()):
            names = match_path(pattern, path)
            if names is None:
                continue
            if operation.method == method:
                return operation, names
            others.add(operation.method)
        if not others:
            raise ProblemError(make_problem(404, "route", "there is nothing at this address"))
        raise MethodError(method, ", ".join(sorted(others)))


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
    """Return the schema of a struct, with the words of its docstring about it and its fields."""
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
        """Return the part of a document about an operation."""
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
