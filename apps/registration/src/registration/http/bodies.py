"""JSON bodies of requests, read within a limit and checked against a type.

This module must never show the content of a body: only which field is wrong, and how.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from registration.http.problems import Problem

T = TypeVar("T")

_MOST = 64_000  # bytes of a JSON body; pictures have a limit of their own
_FIELD = re.compile(r"`(\$[^`]*)`$")


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the body of a request.

    Args:
        request: the request.
        kind: the type of the body.

    Raises:
        Problem: it is too large, no JSON, or of another form.
    """
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != "application/json":
        raise Problem("unsupported", "Send JSON, with Content-Type: application/json.")
    body = await read_raw(request, _MOST)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        # The text of the error names types and the field, and never a value.
        raise Problem("invalid", _describe(str(error))) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Problem("bad_request", "The body is not JSON.") from None


async def read_raw(request: Request, most: int) -> bytes:
    """Return the bytes of the body of a request.

    Args:
        request: the request.
        most: how many bytes are accepted.

    Raises:
        Problem: it is too large, or not complete.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise Problem("too_large", f"The body is longer than {most} bytes.")
    except ClientDisconnect as error:
        raise Problem("bad_request", "The body is not complete.") from error
    return bytes(body)


def _describe(text: str) -> str:
    found = _FIELD.search(text)
    problem = text.partition(" - at ")[0]
    if found is None or found[1] == "$":
        return f"{problem}."
    return f"{found[1].removeprefix('$.')}: {problem}."
