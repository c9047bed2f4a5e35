"""Reads the path, the query and the body of a request, and names their faults.

A session's name may contain `/`, which a path has as `%2F`. So a path is split before it is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, get_args
from urllib.parse import unquote, unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from holdfast.hosting.turns.turn_runner import INTERRUPT, ON_BUSY
from holdfast.hosting.turns.unread_turns import ON_DISCONNECT, OnDisconnect
from holdfast.server.api.operations import JSON, AnyOperation, OperationHeader
from holdfast.server.api.request_bodies import NoBody
from holdfast.server.problem_responses import ProblemError, make_problem

LONGEST_NEAR_NAME = 50

T = TypeVar("T")

_PLACE = re.compile(r" - at `\$\.?(?P<place>[^`]*)`$")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)


def split_path(scope: Scope) -> tuple[str, ...]:
    """Return the decoded segments of a path below the place where this application is mounted.

    >>> split_path({"path": "/in/sessions/a/b", "raw_path": b"/in/sessions/a%2Fb", "root_path": "/in"})
    ('sessions', 'a/b')
    """
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    raw = bytes(scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    shown = unquote(raw)
    if not raw or not shown.endswith(path):
        return _split(path, path, root)  # something before us has changed the path only
    return _split(raw, shown, shown[: len(shown) - len(path)] + root)


def _split(raw: str, decoded: str, root: str) -> tuple[str, ...]:
    """Split a path after its root, which has no encoded `/`."""
    segments = raw.split("/")[1:]
    prefix = root.rstrip("/")
    if prefix and (decoded == prefix or decoded.startswith(prefix + "/")):
        segments = segments[prefix.count("/") :]
    return tuple(map(_decode, segments))


def _decode(segment: str) -> str:
    try:
        return unquote_to_bytes(segment.encode("latin-1", "replace")).decode()
    except UnicodeDecodeError:
        raise ProblemError(
            make_problem(400, "path", "the path is not UTF-8", fix="Encode names as UTF-8")
        ) from None


def match_path(pattern: Sequence[str], path: Sequence[str]) -> dict[str, str] | None:
    """Return the names in a path; None if it does not fit a pattern.

    >>> match_path(("sessions", "{session}"), ("sessions", "a/b"))
    {'session': 'a/b'}
    """
    if len(pattern) != len(path):
        return None
    names: dict[str, str] = {}
    for wanted, given in zip(pattern, path, strict=True):
        if wanted.startswith("{") and given:
            names[wanted[1:-1]] = given
        elif wanted != given:
            return None
    return names


def read_query(pairs: Sequence[tuple[str, str]], kind: type[T]) -> T:
    """Return query parameters as their type. Raises ProblemError that names the parameter."""
    given = dict(pairs)
    if len(given) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProblemError(make_problem(422, "query", "is given twice", field=twice))
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong_field("query", kind, error) from error


async def read_body(request: Request, operation: AnyOperation) -> Any:
    """Return the body of a request as its type; None if the operation reads it itself.

    Raises:
        ProblemError: it is not JSON, or does not have the type; the problem names the field.
    """
    if operation.carries in ("lines", "bytes"):
        return None
    if operation.carries == "none":
        return NoBody()
    data = await request.body()
    if not data and operation.carries == "optional":
        return operation.body()
    check_content_type(request.headers, (JSON,))
    return decode_body(data, operation.body)


def decode_body(data: bytes, kind: type[T]) -> T:
    """Return JSON as a type. Raises ProblemError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _wrong_field("body", kind, error) from error
    except RecursionError as error:
        detail = "the body is nested too deeply"
        problem = make_problem(400, "body", detail, fix="Send fewer levels of objects and lists")
        raise ProblemError(problem) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        problem = make_problem(400, "body", f"the body is not JSON: {error}", fix="Send JSON")
        raise ProblemError(problem) from error


def check_content_type(headers: Mapping[str, str], wanted: Sequence[str]) -> str:
    """Return the media type of a body. Raises ProblemError with status 415 if it is another one."""
    found = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if found in wanted or (JSON in wanted and found.endswith("+json")):
        return found
    detail = f"the body is {found}" if found else "the body has no Content-Type"
    fix = f"Send Content-Type: {' or '.join(wanted)}"
    raise ProblemError(make_problem(415, "content_type", detail, field="Content-Type", fix=fix))


ON_DISCONNECT_HEADER = OperationHeader(
    "Holdfast-On-Disconnect",
    "What happens to the turn once nobody reads it: `continue` or `cancel`. By default what the service "
    "sets for its agent.",
    {"type": "string", "enum": ["continue", "cancel"]},
)


def read_on_disconnect(request: Request) -> dict[str, object]:
    """Return the metadata of a turn that says what happens once nobody reads it; {} if the request does not.

    Raises:
        ProblemError: the header has another value.
    """
    given = request.headers.getlist(ON_DISCONNECT_HEADER.name)
    if not given:
        return {}
    if len(given) > 1 or given[0] not in get_args(OnDisconnect):
        detail, fix = "must be continue or cancel", "Send one of them, once"
        problem = make_problem(400, "header", detail, field=ON_DISCONNECT_HEADER.name, fix=fix)
        raise ProblemError(problem)
    return {ON_DISCONNECT: given[0]}


ON_BUSY_HEADER = OperationHeader(
    "Holdfast-On-Busy",
    "`interrupt` ends the turn of the session that is in progress, once no writing tool is under way; what it has "
    "done stays in the history. Without it the message waits in the queue, or is refused if there is none.",
    {"type": "string", "enum": [INTERRUPT]},
)


def read_wishes(request: Request) -> dict[str, object]:
    """Return the metadata of a turn of a session: what happens if nobody reads it, and to one in progress.

    Raises:
        ProblemError: a header has another value.
    """
    wishes, given = read_on_disconnect(request), request.headers.getlist(ON_BUSY_HEADER.name)
    if given and given != [INTERRUPT]:
        fix = f"Send {INTERRUPT}, once, or leave it out"
        detail = f"must be {INTERRUPT}"
        problem = make_problem(400, "header", detail, field=ON_BUSY_HEADER.name, fix=fix)
        raise ProblemError(problem)
    return {**wishes, ON_BUSY: INTERRUPT} if given else wishes


def _wrong_field(where: str, kind: type[Any], error: msgspec.ValidationError) -> ProblemError:
    """Return the problem of a value that does not have its type, with the name of the field."""
    text = str(error)
    found = _PLACE.search(text)
    place = found["place"] if found else ""
    detail = text[: found.start()] if found else text
    fix = ""
    if unknown := _UNKNOWN_FIELD.fullmatch(detail):
        near = () if place else _find_near_fields(kind, unknown["name"])
        place, detail = _join(place, unknown["name"]), "is not a field"
        fix = f"Did you mean {near[0]}?" if near else "Leave it out"
    elif missing := _MISSING_FIELD.fullmatch(detail):
        place, detail = _join(place, missing["name"]), "is missing"
    return ProblemError(make_problem(422, where, detail, field=place or where, fix=fix))


def _find_near_fields(kind: type[Any], name: str) -> Sequence[str]:
    """Return the field of a type that a short name may mean; a long one would take long to compare."""
    if len(name) > LONGEST_NEAR_NAME:
        return ()
    return get_close_matches(name, getattr(kind, "__struct_encode_fields__", ()), 1)


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
