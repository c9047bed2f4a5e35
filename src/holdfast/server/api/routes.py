"""All operations of the native API."""

from __future__ import annotations

from functools import cache

from starlette.responses import Response

from holdfast.server.access.budgets import READS
from holdfast.server.api import (
    act_routes,
    agent_routes,
    endpoint_routes,
    event_routes,
    media_routes,
    question_routes,
    queue_routes,
    schedule_routes,
    session_routes,
    transfer_routes,
    turn_routes,
    usage_routes,
)
from holdfast.server.api.openapi import Schema, make_document
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NoBody, NoQuery


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
    *endpoint_routes.OPERATIONS,
    *session_routes.OPERATIONS,
    *act_routes.OPERATIONS,
    *turn_routes.OPERATIONS,
    *event_routes.OPERATIONS,
    *question_routes.OPERATIONS,
    *queue_routes.OPERATIONS,
    *schedule_routes.OPERATIONS,
    *media_routes.OPERATIONS,
    *transfer_routes.OPERATIONS,
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
"""What the native API can do."""
