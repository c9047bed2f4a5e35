"""Reads the body of an error response, whatever its form: its messages, codes and numbers.

Servers send the documented form, but also arrays, plain strings, the `detail` of a web framework,
another vendor's error wrapped by a gateway, the HTML page of a proxy, truncated text or nothing. The
reader descends only into keys that hold errors, so that generated text is never taken for an error
message. It never raises on any bytes, and reads at most `LARGEST_BODY` of them.
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
ZERO_QUOTA = "quota_limit_0"
"""The code of a body in which Google names a quota with the limit 0."""

_QUOTAS = ("quotaValue", "quota_limit_value")
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
"""The keys of codes, with a rank: the code with the lowest rank is shown."""
_TYPE_RANKS = (_CODES["error_type"], _CODES["type"])
_LAST_RANK = 5
_VAGUE_CODES = frozenset({"error", "failed", "response.failed", "response.error", "null", "none"})
_VAGUE_MESSAGES = frozenset({"provider returned error", "$grpcmessage", "error"})
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
    """The content of an error response.

    Args:
        status: the HTTP status; without one, or after a 2xx, the status that the body names.
        message: the provider's message, on one line.
        text: all messages and codes in lower case, for the patterns of the tables.
        codes: every code, type and reason, in lower case.
        code: the most specific of them, as the provider spells it.
        type: the first type, as the provider spells it.
        delays: `RetryInfo.retryDelay` and similar fields, unparsed.
        headers: of the response, and those that a gateway repeats in the body.
        request_id: the id that the provider's support asks for.
    """

    status: int | None = None
    message: str = ""
    text: str = ""
    codes: frozenset[str] = frozenset()
    code: str | None = None
    type: str | None = None
    delays: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    request_id: str | None = None


class _BodyFindings:
    """The findings in a body so far."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes: list[tuple[int, str]] = []
        self.statuses: list[int] = []
        self.delays: list[str] = []
        self.headers: dict[str, str] = {}
        self.request_id = ""
        self.nodes = 0


def read_error_body(failure: Failure) -> ErrorBody:
    """Read the headers and the body of an error response.

    >>> body = read_error_body(Failure(status=404, body=b'[{"error": {"code": 404, "message": "no"}}]'))
    >>> body.status, body.message
    (404, 'no')
    """
    findings = _BodyFindings()
    body = failure.body[:LARGEST_BODY].decode("utf-8", "replace").strip()
    _read_body(body, findings)
    if kind := failure.headers.get("x-amzn-errortype"):
        findings.codes.append((0, kind))
    ranked = sorted(findings.codes, key=_code_rank)
    names = [name for _, code in ranked if (name := _code_name(code))]
    types = [_code_name(code) for rank, code in ranked if rank in _TYPE_RANKS]
    text = "\n".join([*findings.words, *names])[:LONGEST_MESSAGE].lower()
    return ErrorBody(
        status=_choose_status(failure.status, findings.statuses),
        message=_choose_message(findings.words),
        text=text,
        codes=frozenset(name.lower() for name in names),
        code=_find_specific(names),
        type=_find_specific(types),
        delays=tuple(findings.delays),
        headers={**findings.headers, **failure.headers},
        request_id=_find_request_id(failure.headers, findings.request_id, body),
    )


_ERROR_FIELDS = (
    *("message", "detail", "msg", "error_msg", "errors", "status_msg", "error_description"),
)


def holds_message(value: Mapping[str, object]) -> bool:
    """Whether an object that is not content has one of the fields in which servers describe an error.

    >>> holds_message({"code": 503, "message": "overloaded"}), holds_message({"type": "ping"})
    (True, False)
    """
    message = next((value[name] for name in _ERROR_FIELDS if value.get(name)), None)
    return isinstance(message, str | list)


def unwrap_error_array(value: object) -> object:
    """Return the object of an array with one error, as Google sends it; any other value unchanged.

    >>> unwrap_error_array([{"error": {"code": 503}}])
    {'error': {'code': 503}}
    """
    if isinstance(value, list) and len(value) == 1:
        only = value[0]
        if isinstance(only, dict) and "error" in only:
            return only
    return value


def to_single_line(text: str) -> str:
    r"""Return `text` without control characters, escape sequences and line breaks.

    >>> to_single_line("a\x1b[31mb\n\n c")
    'a b c'
    """
    return " ".join(_UNPRINTABLE.sub(" ", text[:LONGEST_MESSAGE]).split())


def _read_body(body: str, findings: _BodyFindings) -> None:
    if body.startswith(("event:", "data:", ":")):
        lines = [line[5:] for line in body.splitlines()[:200] if line.startswith("data:")]
        body = next((line.strip() for line in lines if "error" in line), body)
    if body.startswith("<"):
        title = _TITLE.search(body)
        findings.words.append(title[1] if title else _TAG.sub(" ", body[:LONGEST_MESSAGE]))
        return
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        if body.startswith(("{", "[")):
            _read_truncated(body, findings)
        elif body:
            findings.words.append(body)
        return
    _walk_value(value, findings, 0)


def _read_truncated(body: str, findings: _BodyFindings) -> None:
    """Read the beginning of a JSON body that is truncated or too large."""
    head = body[: 2 * LONGEST_MESSAGE]
    findings.words.extend(match[1] for match in _CUT_WORDS.finditer(head))
    for match in _CUT_CODES.finditer(head):
        findings.codes.append((_CODES[match[1]], match[2]))
        _note_status(match[2], findings)
    if not findings.words:
        findings.words.append(head)


def _walk_value(value: object, findings: _BodyFindings, depth: int) -> None:
    findings.nodes += 1
    if depth > _DEEPEST or findings.nodes > _MOST_NODES:
        return
    if isinstance(value, str):
        _read_text(value, findings, depth)
    elif isinstance(value, list):
        for item in value[:50]:
            _walk_value(item, findings, depth + 1)
    elif isinstance(value, dict):
        _read_object(value, findings, depth)


def _read_text(text: str, findings: _BodyFindings, depth: int) -> None:
    """Read a message, or an error body that is a string inside this one."""
    inner = text.strip()
    if inner.startswith(("{", "[")) and len(inner) < LARGEST_BODY:
        try:
            _walk_value(msgspec.json.decode(inner), findings, depth + 1)
        except (msgspec.DecodeError, RecursionError):
            findings.words.append(text)
        return
    if inner:
        findings.words.append(text)


def _read_object(value: dict[str, object], findings: _BodyFindings, depth: int) -> None:
    for key in _WORDS:
        if isinstance(text := value.get(key), str):
            _read_text(text, findings, depth)
    for key, rank in _CODES.items():
        if isinstance(code := value.get(key), str) and code:
            findings.codes.append((rank, code))
    for key in _STATUSES:
        _note_status(value.get(key), findings)
    _read_details(value, findings)
    for inner in _nested_errors(value):
        _walk_value(inner, findings, depth + 1)


def _read_details(value: dict[str, object], findings: _BodyFindings) -> None:
    for key in _DELAYS:
        delay = value.get(key)
        if isinstance(delay, (str, int, float)) and not isinstance(delay, bool):
            findings.delays.append(str(delay))
    if any(value.get(key) in ("0", 0) for key in _QUOTAS):
        findings.codes.append((_LAST_RANK, ZERO_QUOTA))
    for key in ("request_id", "requestId"):
        if isinstance(name := value.get(key), str) and not findings.request_id:
            findings.request_id = name
    if isinstance(headers := value.get("headers"), dict):
        findings.headers.update(_header_items(headers))


def _nested_errors(value: dict[str, object]) -> Iterator[object]:
    for key, inner in value.items():
        if key.lower() in _NESTS and isinstance(inner, (dict, list)):
            yield inner


def _header_items(headers: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in list(headers.items())[:50]:
        if isinstance(name, str) and isinstance(value, (str, int, float)):
            yield name.lower(), str(value)


def _note_status(value: object, findings: _BodyFindings) -> None:
    if isinstance(value, str) and len(value) == 3 and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        findings.statuses.append(value)


def _choose_status(outer: int | None, inner: list[int]) -> int | None:
    if outer is not None and outer >= 300:
        return outer
    return inner[0] if inner else outer


def _choose_message(words: list[str]) -> str:
    """Choose the first specific message; a gateway's "Provider returned error" is not specific."""
    lines = [line for message in words[:20] if (line := to_single_line(message))]
    specific = (line for line in lines if line.lower() not in _VAGUE_MESSAGES)
    return next(specific, lines[0] if lines else "")


def _code_rank(code: tuple[int, str]) -> int:
    return code[0]


def _find_specific(names: list[str]) -> str | None:
    specific = (name for name in names if name and not name.isdigit())
    return next((name for name in specific if name.lower() not in _VAGUE_CODES), None)


def _code_name(code: str) -> str:
    """Return `ValidationException` for "com.amazon#ValidationException:http://...", and "" for a sentence."""
    if "http" in code:
        code = code.split(":http", 1)[0]
    code = code.rsplit("#", 1)[-1].strip()
    return code if _CODE_NAME.fullmatch(code) else ""


def _find_request_id(headers: Mapping[str, str], id_in_body: str, body: str) -> str | None:
    header_ids = (headers.get(name, "") for name in _IDS)
    for candidate in (*header_ids, id_in_body):
        if candidate and _ID.fullmatch(candidate):
            return candidate
    match = _ID_IN_BODY.search(body[: 2 * LONGEST_MESSAGE])
    return match[1] if match else None
