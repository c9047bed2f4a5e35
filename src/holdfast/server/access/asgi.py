"""The types of ASGI, and the few things that every middleware reads from a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from starlette.responses import Response

from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import respond_problem

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

AMBIGUOUS_LENGTH = "ambiguous_length"

_LENGTHS = (b"content-length", b"transfer-encoding")


def find_header(headers: Headers, name: bytes) -> str:
    """Return the value of a header; "" if it is missing. Several are joined as HTTP says."""
    values = [value for key, value in headers if key == name]
    return b", ".join(values).decode("latin-1") if values else ""


def count_header(headers: Headers, name: bytes) -> int:
    """Return how often a header was sent."""
    return [key for key, _ in headers].count(name)


def find_route_path(scope: Scope) -> str:
    """Return the path below the place where the service is mounted.

    >>> find_route_path({"path": "/agents/health", "root_path": "/agents"})
    '/health'
    """
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


def has_body(headers: Headers) -> bool:
    """Whether a body follows the head of a request."""
    return find_header(headers, b"content-length") not in ("", "0") or bool(
        find_header(headers, b"transfer-encoding")
    )


def is_length_ambiguous(headers: Headers) -> bool:
    """Whether two servers may disagree about where a request ends, so that one sees another request in it.

    >>> is_length_ambiguous([(b"content-length", b"5"), (b"transfer-encoding", b"chunked")])
    True
    >>> is_length_ambiguous([(b"content-length", b"5")])
    False
    """
    return [key.lower() in _LENGTHS for key, _ in headers].count(True) > 1


def refuse(problem: ProblemBody) -> Response:
    """Return the response for a request that is not let through."""
    response = respond_problem(problem)
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 408 or problem.kind == AMBIGUOUS_LENGTH:
        response.headers["Connection"] = "close"  # the rest of the body is not waited for
    return response
