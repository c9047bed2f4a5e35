"""Calls the operations of an API: one host, no credential in any text, and answers that a model can read.

A redirect is followed for reads, on the same host alone. A status says what the model reads, and whether the call may
be repeated. This module must never retry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote_plus, urljoin, urlsplit

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.core.messages import Media
from holdfast.core.redaction import redact
from holdfast.core.secret_values import SecretValues
from holdfast.openapi.api_credentials import AuthError, CredentialPart, Credentials, find_values
from holdfast.openapi.api_operations import RequestPlan
from holdfast.openapi.request_writer import WrittenRequest, WrongArgumentsError, write_request
from holdfast.telemetry.observers import CURRENT_TRACE
from holdfast.tools.context import ToolContext
from holdfast.tools.results import image_type
from holdfast.tools.tool_failures import ServiceFailedError, ToolError, refuse_arguments
from holdfast.transport.port import HttpRequest, Timeouts, Transport

_MOST_BYTES: Final = 8 * 1024 * 1024
"""How much of a response is read."""

_MOST_REDIRECTS: Final = 5
_LONGEST_REASON: Final = 4_000
_LONGEST_KIND: Final = 200
_LONGEST_REDACTED: Final = 20_000
"""In a longer text, credentials are found as they were sent alone; in a shorter one, in other forms, too."""

_ACCEPT: Final = "application/json, text/*;q=0.9, */*;q=0.5"
_TEMPORARY: Final = frozenset({408, 425, 429})
_CHARSET = re.compile(r"charset=\"?([\w.:-]+)", re.IGNORECASE)
_TEXT_CHARSET = re.compile(
    r"(?:utf|us-ascii|ascii|iso|latin|windows|cp|koi8|mac|shift|sjis|euc|big5|gb|tis|ks)[\w.:-]*",
    re.IGNORECASE,
)
"""Python also knows codecs that are no charsets: some raise, and one takes hours for a few megabytes."""

_JSON: Final = msgspec.json.Decoder(float_hook=lambda number: Raw(number.encode()))
_SHOWN_HEADERS: Final = ("content-type", "content-length", "etag", "last-modified", "location")


class ApiAnswer(Struct, frozen=True):
    """A response that was read.

    Args:
        status: the HTTP status.
        headers: the headers, with names in lower case.
        body: the body, or its beginning.
        is_cut: whether more of it was not read.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool

    def __repr__(self) -> str:
        return f"ApiAnswer({self.status}, {len(self.body)} bytes)"


class ApiClient:
    """Calls the operations of one API.

    Args:
        base_url: the address before each path.
        credentials: the credentials.
        transport: sends the requests.
        timeouts: the limits of a request.
    """

    def __init__(
        self, base_url: str, credentials: Credentials, transport: Transport, timeouts: Timeouts
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._origin = find_origin(base_url)
        self._credentials = credentials
        self._transport = transport
        self._timeouts = timeouts

    def __repr__(self) -> str:
        return f"ApiClient({self._base_url!r})"

    async def call(
        self, plan: RequestPlan, arguments: Mapping[str, object], context: ToolContext
    ) -> object:
        """Return what the model reads of the answer of an operation.

        Args:
            plan: how the arguments become a request.
            arguments: the arguments, which fit their schema.
            context: the context of the call.

        Raises:
            ToolError: the request cannot be made, or the answer is an error.
            TransportError: there is no answer.
        """
        try:
            written = write_request(plan, arguments, context.idempotency_key)
            parts = await self._credentials.find_parts()
        except WrongArgumentsError as error:
            text = refuse_arguments([error.problem]).text
            raise ToolError(f"Error: Function '{context.tool}' was not run: {text}") from None
        except AuthError as error:
            text = f"Error: Function '{context.tool}' was not run: its credentials failed: {error}."
            raise ToolError(f"{text} Calling it again does not help.") from None
        secrets = find_values(parts)
        answer = await self._send(plan, written, parts, secrets)
        return _read_answer(answer, plan.method, context.tool, secrets)

    async def _send(
        self,
        plan: RequestPlan,
        written: WrittenRequest,
        parts: list[CredentialPart],
        secrets: SecretValues,
    ) -> ApiAnswer:
        address = self._base_url + written.path
        for _ in range(_MOST_REDIRECTS + 1):
            request = replace(
                _add_credentials(plan.method, address, written, parts), is_once=plan.is_once
            )
            answer = await self._exchange(request)
            location = answer.headers.get("location", "")
            is_redirect = answer.status in (301, 302, 303, 307, 308) and location != ""
            if not is_redirect or plan.method not in ("GET", "HEAD"):
                return answer
            address = _join_address(address, location)
            if find_origin(address) != self._origin:
                host = find_origin(address)[1][:100] or "whose address cannot be read"
                text = f"The service redirects to another server, {host}, which is not called."
                raise ToolError(secrets.remove_from(text))
        raise ToolError(f"The service redirects more than {_MOST_REDIRECTS} times.")

    async def _exchange(self, request: HttpRequest) -> ApiAnswer:
        async with self._transport.send(request, self._timeouts) as response:
            pieces: list[bytes] = []
            size = 0
            while size <= _MOST_BYTES and (piece := await response.read(gather=True)):
                pieces.append(piece)
                size += len(piece)
            body = b"".join(pieces)
            headers = {name: response.headers[name] for name in response.headers}
        return ApiAnswer(response.status, headers, body[:_MOST_BYTES], size > _MOST_BYTES)


def _join_address(address: str, location: str) -> str:
    """Return the address that a redirect leads to; "" if it cannot be read."""
    try:
        return urljoin(address, location).partition("#")[0]
    except ValueError:
        return ""


def find_origin(address: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of an address.

    >>> find_origin("https://API.example/v1")
    ('https', 'api.example', 443)
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return ("", "", 0)
    default = {"https": 443, "http": 80}.get(parts.scheme, 0)
    has_user = parts.username is not None or parts.password is not None
    return ("" if has_user else parts.scheme, parts.hostname or "", port or default)


def _add_credentials(
    method: str, address: str, written: WrittenRequest, parts: list[CredentialPart]
) -> HttpRequest:
    headers = {"accept": ("Accept", _ACCEPT)}
    if trace := CURRENT_TRACE.get():
        headers["traceparent"] = ("traceparent", trace)
    for name, value in written.headers:
        headers[name.lower()] = (name, value)
    for part in parts:
        if part.where == "header":
            headers[part.name.lower()] = (part.name, part.value)
        elif part.where == "cookie":
            cookies = _replace_pair(headers.get("cookie", ("", ""))[1], "; ", part)
            headers["cookie"] = ("Cookie", cookies)
        else:
            path, _, query = address.partition("?")
            address = f"{path}?{_replace_pair(query, '&', part)}"
    return HttpRequest(method, address, tuple(headers.values()), written.body)


def _replace_pair(pairs: str, between: str, part: CredentialPart) -> str:
    """Return pairs with a credential, which replaces those of its name: of an object, or of a redirect."""
    kept = [
        pair
        for pair in pairs.split(between)
        if pair and unquote_plus(pair.partition("=")[0]) != part.name
    ]
    own = f"{quote(part.name, safe='')}={quote(part.value, safe='')}"
    return between.join([*kept, own])


def _read_answer(answer: ApiAnswer, method: str, tool: str, secrets: SecretValues) -> object:
    status = answer.status
    if 200 <= status < 300 or status == 304:
        return _show_answer(answer, method, secrets)
    if 300 <= status < 400:
        text = f"HTTP {_name_status(status)}. The service answers with a redirect, which is not followed."
        raise ToolError(text if method in ("GET", "HEAD") else f"{text} It may have taken effect.")
    text = _word_failure(answer, tool, secrets)
    if status in _TEMPORARY or status >= 500:
        raise ServiceFailedError(text, status, answer.headers)
    raise ToolError(text)


def _name_status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


_ADVICE: Final = {
    400: "Correct the arguments.",
    401: "The service does not accept the credentials of this program. Calling it again does not help.",
    403: "The credentials of this program do not allow it. Calling it again does not help.",
    404: "There is no such thing, or the credentials of this program do not show it.",
    409: "It conflicts with the present state.",
    410: "It is gone.",
    422: "Correct the arguments.",
    429: "The service limits the number of calls. Wait before calling it again.",
}


def _word_failure(answer: ApiAnswer, tool: str, secrets: SecretValues) -> str:
    """Return what the model reads of an error of the service."""
    advice = _ADVICE.get(answer.status, "")
    if answer.status >= 500:
        advice = "The service has an error of its own."
    head = f"Error: Function '{tool}' failed with HTTP {_name_status(answer.status)}. {advice}".rstrip()
    reason = secrets.remove_from(redact(_decode_text(answer).strip())).strip()
    if len(reason) > _LONGEST_REASON:
        reason = reason[:_LONGEST_REASON] + "..."
    is_page = "html" in answer.headers.get("content-type", "")
    return head if not reason or is_page else f"{head} It says: {reason}"


def _show_answer(answer: ApiAnswer, method: str, secrets: SecretValues) -> object:
    """Return the content of a response by its content type."""
    if method == "HEAD" or not answer.body:
        known = {name: answer.headers[name] for name in _SHOWN_HEADERS if name in answer.headers}
        shown = "".join(f"\n{name}: {secrets.remove_from(value)}" for name, value in known.items())
        return f"HTTP {_name_status(answer.status)}, no content.{shown}"
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _show_text(_compact(answer), answer, secrets)
    is_text = kind.startswith("text/") or kind.endswith(("xml", "javascript", "yaml", "urlencoded"))
    if (image := image_type(answer.body)) is not None and not answer.is_cut:
        return Media(image, data=answer.body)
    if is_text or (not kind and b"\0" not in answer.body):
        return _show_text(_decode_text(answer), answer, secrets)
    more = " or more" if answer.is_cut else ""
    shown = secrets.remove_from(kind[:_LONGEST_KIND]) or "unknown"
    return f"(a file of the type {shown}, {len(answer.body):,} bytes{more}, which is not shown)"


def _show_text(text: str, answer: ApiAnswer, secrets: SecretValues) -> str:
    note = f"\n[cut: the response is longer than {_MOST_BYTES:,} bytes]" if answer.is_cut else ""
    return _remove_values(text, secrets) + note


def _remove_values(text: str, secrets: SecretValues) -> str:
    """Remove the credentials of a request from a text of any length."""
    if len(text) <= _LONGEST_REDACTED:
        return secrets.remove_from(text)
    if secrets.values and any(value in text for value in secrets.values):
        for value in sorted(secrets.values, key=len, reverse=True):
            text = text.replace(value, "[redacted]")
    return text


def _compact(answer: ApiAnswer) -> str:
    """Return JSON without spaces, with its numbers as they came; as it came if it cannot be read."""
    try:
        value: Any = _JSON.decode(answer.body)
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_text(answer)


def _decode_text(answer: ApiAnswer) -> str:
    named = _CHARSET.search(answer.headers.get("content-type", ""))
    charset = named[1] if named and _TEXT_CHARSET.fullmatch(named[1]) else "utf-8"
    try:
        return answer.body.decode(charset, "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")
