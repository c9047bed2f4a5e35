"""Reads a refusal of any shape into one record: its words, its codes, its numbers.

Bodies come as the wire documents them, and also as arrays, bare strings, `detail` of a web framework,
another vendor's error wrapped in a gateway's, HTML of an edge, cut off, or empty. The reader looks
only below keys that hold errors, so that what a model generated is never taken for the provider's
words. It must never raise on any bytes, and never read more than `LARGEST_BODY` of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from holdfast.codecs.wire import Failure

LARGEST_BODY = 256 * 1024
LONGEST_MESSAGE = 8_000
_MOST_NODES = 400
_DEEPEST = 8

_NESTS = frozenset(
    (
        *("error", "errors", "detail", "details", "innererror", "inner_error", "violations"),
        *("metadata", "response", "raw", "body", "data", "cause", "base_resp"),
    )
)
_WORDS = (
    "message",
    "msg",
    "error_msg",
    "status_msg",
    "detail",
    "error",
    "error_description",
    "description",
    "title",
    "raw",
)
_DELAYS = (
    "retryDelay",
    "retry_after",
    "retry_after_seconds",
    "resets_in_seconds",
    "estimated_time",
)
_CODES = {
    "code": 0,
    "reason": 0,
    "error_code": 0,
    "__type": 0,
    "error_type": 1,
    "type": 2,
    "status": 3,
    "quotaId": 4,
}
"""Key of a code -> how little it tells; the lowest is shown."""
_HOLLOW_CODES = frozenset({"error", "failed", "response.failed", "response.error", "null", "none"})
_HOLLOW_WORDS = frozenset({"provider returned error", "$grpcmessage", "error"})
_STATUSES = ("status", "status_code", "code", "error_code", "statusCode", "raw_status_code")
_IDS = (
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-ms-request-id",
    "x-goog-request-id",
    "x-goog-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "cf-ray",
)
_ID_IN_BODY = re.compile(
    r"\b(?:Request[-_\s]?Id|request[-_\s]id|requestId|correlation[-_\s]id)[\"']?"
    r"\s{0,3}[:=]?\s{0,3}[\"']?([a-zA-Z0-9\-_]{6,128})",
    re.IGNORECASE,
)
_ID = re.compile(r"[\w.:/=;+-]{1,200}", re.ASCII)
_CUT_WORDS = re.compile(r'"(?:message|msg|detail|error)"\s{0,9}:\s{0,9}"((?:[^"\\]|\\.){1,2000})')
_CUT_CODES = re.compile(r'"(code|type|status|reason|__type)"\s{0,9}:\s{0,9}"?([\w.-]{1,100})')
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,300})", re.IGNORECASE)
_TAG = re.compile(r"<[^>]{0,1000}>")
_UNPRINTABLE = re.compile(r"(?:\x1b\[[0-9;]{0,20}[A-Za-z])|[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_CODE_NAME = re.compile(r"[\w .:/-]{1,100}", re.ASCII)


class ErrorBody(Struct, frozen=True, kw_only=True):
    """What a refusal says, whatever its shape.

    Args:
        status: the HTTP status, or the one that the body names when there is none, or a 2xx.
        message: the provider's own sentence, cleaned for one line of text.
        text: all its words in lower case, for the patterns of the tables.
        codes: every code, type and reason, in lower case.
        code: the most telling of them as the provider spells it.
        delays: `RetryInfo.retryDelay` and what others call it, as they came.
        headers: of the response, and those that a gateway hands on in the body.
        request_id: what the provider's support asks for.
    """

    status: int | None = None
    message: str = ""
    text: str = ""
    codes: frozenset[str] = frozenset()
    code: str | None = None
    delays: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    request_id: str | None = None


class _BodyFindings:
    """What the walk over a body has collected so far."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes: list[tuple[int, str]] = []
        self.statuses: list[int] = []
        self.delays: list[str] = []
        self.headers: dict[str, str] = {}
        self.request_id = ""
        self.nodes = 0


def read_error_body(failure: Failure) -> ErrorBody:
    """What the provider said, from headers and body.

    >>> refusal = read_error_body(Failure(status=404, body=b'[{"error": {"code": 404, "message": "no"}}]'))
    >>> refusal.status, refusal.message
    (404, 'no')
    """
    found = _BodyFindings()
    body = failure.body[:LARGEST_BODY].decode("utf-8", "replace").strip()
    _read_body(body, found)
    if kind := failure.headers.get("x-amzn-errortype"):
        found.codes.append((0, kind))
    names = [name for _, code in sorted(found.codes, key=_code_rank) if (name := _code_name(code))]
    text = "\n".join([*found.words, *names])[:LONGEST_MESSAGE].lower()
    return ErrorBody(
        status=_choose_status(failure.status, found.statuses),
        message=_choose_message(found.words),
        text=text,
        codes=frozenset(name.lower() for name in names),
        code=next((name for name in names if _is_specific_code(name)), None),
        delays=tuple(found.delays),
        headers={**found.headers, **failure.headers},
        request_id=_find_request_id(failure.headers, found.request_id, body),
    )


def to_single_line(text: str) -> str:
    r"""`text` without control characters, escape sequences and line breaks.

    >>> to_single_line("a\x1b[31mb\n\n c")
    'a b c'
    """
    return " ".join(_UNPRINTABLE.sub(" ", text[:LONGEST_MESSAGE]).split())


def _read_body(body: str, found: _BodyFindings) -> None:
    if body.startswith(("event:", "data:", ":")):
        lines = [line[5:] for line in body.splitlines()[:200] if line.startswith("data:")]
        body = next((line.strip() for line in lines if "error" in line), body)
    if body.startswith("<"):
        title = _TITLE.search(body)
        found.words.append(title[1] if title else _TAG.sub(" ", body[:LONGEST_MESSAGE]))
        return
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        if body.startswith(("{", "[")):
            _read_truncated(body, found)
        elif body:
            found.words.append(body)
        return
    _walk_value(value, found, 0)


def _read_truncated(body: str, found: _BodyFindings) -> None:
    """A JSON body that breaks off, or that was too large: what its beginning says."""
    head = body[: 2 * LONGEST_MESSAGE]
    found.words.extend(match[1] for match in _CUT_WORDS.finditer(head))
    for match in _CUT_CODES.finditer(head):
        found.codes.append((_CODES[match[1]], match[2]))
        _note_status(match[2], found)
    if not found.words:
        found.words.append(head)


def _walk_value(value: object, found: _BodyFindings, depth: int) -> None:
    found.nodes += 1
    if depth > _DEEPEST or found.nodes > _MOST_NODES:
        return
    if isinstance(value, str):
        _read_text(value, found, depth)
    elif isinstance(value, list):
        for item in value[:50]:
            _walk_value(item, found, depth + 1)
    elif isinstance(value, dict):
        _read_object(value, found, depth)


def _read_text(text: str, found: _BodyFindings, depth: int) -> None:
    """Words, or another error body written as a string inside this one."""
    inner = text.strip()
    if inner.startswith(("{", "[")) and len(inner) < LARGEST_BODY:
        try:
            _walk_value(msgspec.json.decode(inner), found, depth + 1)
        except (msgspec.DecodeError, RecursionError):
            found.words.append(text)
        return
    if inner:
        found.words.append(text)


def _read_object(value: dict[str, object], found: _BodyFindings, depth: int) -> None:
    for key in _WORDS:
        if isinstance(said := value.get(key), str):
            _read_text(said, found, depth)
    for key, rank in _CODES.items():
        if isinstance(code := value.get(key), str) and code:
            found.codes.append((rank, code))
    for key in _STATUSES:
        _note_status(value.get(key), found)
    _read_details(value, found)
    for inner in _nested_errors(value):
        _walk_value(inner, found, depth + 1)


def _read_details(value: dict[str, object], found: _BodyFindings) -> None:
    for key in _DELAYS:
        delay = value.get(key)
        if isinstance(delay, (str, int, float)) and not isinstance(delay, bool):
            found.delays.append(str(delay))
    for key in ("request_id", "requestId"):
        if isinstance(name := value.get(key), str) and not found.request_id:
            found.request_id = name
    if isinstance(headers := value.get("headers"), dict):
        found.headers.update(_header_items(headers))


def _nested_errors(value: dict[str, object]) -> Iterator[object]:
    for key, inner in value.items():
        if key.lower() in _NESTS and isinstance(inner, (dict, list)):
            yield inner


def _header_items(headers: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in list(headers.items())[:50]:
        if isinstance(name, str) and isinstance(value, (str, int, float)):
            yield name.lower(), str(value)


def _note_status(value: object, found: _BodyFindings) -> None:
    if isinstance(value, str) and len(value) == 3 and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        found.statuses.append(value)


def _choose_status(outer: int | None, inner: list[int]) -> int | None:
    if outer is not None and outer >= 300:
        return outer
    return inner[0] if inner else outer


def _choose_message(words: list[str]) -> str:
    """The first sentence that says something; a gateway's "Provider returned error" does not."""
    cleaned = [line for said in words[:20] if (line := to_single_line(said))]
    telling = (line for line in cleaned if line.lower() not in _HOLLOW_WORDS)
    return next(telling, cleaned[0] if cleaned else "")


def _code_rank(code: tuple[int, str]) -> int:
    return code[0]


def _is_specific_code(code: str) -> bool:
    return not code.isdigit() and code.lower() not in _HOLLOW_CODES


def _code_name(code: str) -> str:
    """`ValidationException` of "com.amazon#ValidationException:http://..."; "" for a sentence."""
    if "http" in code:
        code = code.split(":http", 1)[0]
    code = code.rsplit("#", 1)[-1].strip()
    return code if _CODE_NAME.fullmatch(code) else ""


def _find_request_id(headers: Mapping[str, str], said: str, body: str) -> str | None:
    named = (headers.get(name, "") for name in _IDS)
    for candidate in (*named, said):
        if candidate and _ID.fullmatch(candidate):
            return candidate
    match = _ID_IN_BODY.search(body[: 2 * LONGEST_MESSAGE])
    return match[1] if match else None
