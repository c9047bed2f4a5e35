"""Refused requests: one form for all, with the status that fits.

This module must never show a person's words, nor the cause of a fault inside.
"""

from __future__ import annotations

import math
from typing import Literal

from starlette.responses import JSONResponse

Kind = Literal[
    "bad_request",
    "unauthorized",
    "not_found",
    "conflict",
    "busy",
    "no_open_flow",
    "too_slow",
    "too_large",
    "unsupported",
    "invalid",
    "too_many_requests",
    "unavailable",
    "not_available",
    "failed",
]

STATUSES: dict[Kind, int] = {
    "bad_request": 400,
    "unauthorized": 401,
    "not_found": 404,
    "conflict": 409,
    "busy": 409,
    "no_open_flow": 409,
    "too_slow": 408,
    "too_large": 413,
    "unsupported": 415,
    "invalid": 422,
    "too_many_requests": 429,
    "unavailable": 503,
    "not_available": 501,
    "failed": 500,
}

_RETRYABLE = frozenset({"busy", "too_slow", "too_many_requests", "unavailable", "failed"})

TRY_AGAIN = (
    "I cannot answer right now. Nothing is lost: please send it again in a minute."  # section 9
)


class Problem(Exception):
    """A request is refused.

    Args:
        kind: why; decides the status.
        message: a sentence for a person.
        retry_after: seconds after which a repetition may succeed.
    """

    def __init__(self, kind: Kind, message: str, retry_after: float | None = None) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after

    @property
    def seconds(self) -> int | None:
        """Whole seconds after which a repetition may succeed."""
        return None if self.retry_after is None else max(1, math.ceil(self.retry_after))

    def describe(self) -> dict[str, object]:
        """Return the problem as the client reads it."""
        error: dict[str, object] = {
            "kind": self.kind,
            "message": self.message,
            "retryable": self.kind in _RETRYABLE,
        }
        if self.seconds is not None:
            error["retry_after"] = self.seconds
        return {"error": error}

    def respond(self) -> JSONResponse:
        """Return the response."""
        headers = {"Cache-Control": "no-store"}
        if self.seconds is not None:
            headers["Retry-After"] = str(self.seconds)
        return JSONResponse(self.describe(), STATUSES[self.kind], headers)


def unavailable(retry_after: float = 5.0) -> Problem:
    """Return the problem of a part that does not work now."""
    return Problem("unavailable", TRY_AGAIN, retry_after)
