"""The native API as an ASGI application: finds the operation of a request, and words every error.

It must never decide what an operation does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.server.access.callers import require, set_takes
from holdfast.server.api.idempotency import answer_once
from holdfast.server.api.operations import AnyOperation, Call
from holdfast.server.api.request_reading import match_path, read_body, read_query, split_path
from holdfast.server.problem_responses import (
    ProblemError,
    make_problem,
    respond_problem,
    to_problem,
)

_log = logging.getLogger("holdfast.server")


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
