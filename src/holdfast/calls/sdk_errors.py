"""Classifies exceptions of foreign clients: the vendors' SDKs, HTTP clients, the operating system.

If the exception holds a response, the error table of its wire decides; otherwise the name of its
class, looked up from the class upward, so that the most specific one decides. Values are read from the
exception's `__dict__`: this module never imports an SDK, never runs a property or `__str__` of a foreign
exception, and never reads from a connection.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from holdfast.calls.foreign_fields import (
    find_request_secrets,
    first_field,
    normalise_headers,
    read_field,
    url_text,
    walk_causes,
)
from holdfast.codecs.anthropic.errors import classify as anthropic
from holdfast.codecs.classify import LONGEST_PRIVATE, describe_error, redact_and_shorten
from holdfast.codecs.gemini.errors import classify as gemini
from holdfast.codecs.openai_chat.errors import classify as openai_chat
from holdfast.codecs.openai_responses.errors import classify as openai_responses
from holdfast.codecs.wire import Failure
from holdfast.core.argument_checks import check_value
from holdfast.core.detached_errors import clean_info
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, Landed, read_error_info
from holdfast.models.presets import PRESETS

_WIRES: Mapping[str, Callable[[Failure], ErrorInfo]] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
_SDKS = {
    "openai": ("openai", "openai_responses"),
    "anthropic": ("anthropic", "anthropic"),
    "google": ("google", "gemini"),
    "groq": ("groq", "openai_chat"),
    "mistralai": ("mistral", "openai_chat"),
    "cohere": ("cohere", "openai_chat"),
    "ollama": ("ollama", "openai_chat"),
    "together": ("together", "openai_chat"),
    "cerebras": ("cerebras", "openai_chat"),
    "botocore": ("bedrock", "openai_chat"),
    "litellm": ("", "openai_chat"),
}
"""Provider and wire by the package of the exception's class, used if the URL does not show them."""

_HOST = re.compile(r"https?://(?:[^/@]{0,200}@)?([\w.-]{1,253})")
_STATUS_IN_TEXT = re.compile(
    r"(?:status(?:[ _]code)?|error code|http(?:/\d(?:\.\d)?)?)[:=\s]{1,3}([1-5]\d\d)\b|\(([45]\d\d)\)",
    re.IGNORECASE,
)
_NO_WAY_THERE = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})
_LONGEST_TEXT = 8_000


def classify(exception: BaseException, *, now: float | None = None) -> ErrorInfo:
    """Classify an exception of any client.

    Args:
        exception: an exception of the openai, anthropic or google-genai SDK, of httpx, aiohttp,
            requests or botocore, of the standard library, or of Holdfast.
        now: seconds since the epoch, for a wait that is a date; used if the response has no `date`.

    >>> classify(ConnectionRefusedError(111, "Connection refused")).landed.value
    'no'
    >>> info = classify(RuntimeError("Error code: 429 - Rate limit reached. Try again in 4s."))
    >>> info.category.value, info.retry_after
    ('rate_limit_retryable', 4.0)
    """
    check_value("exception", exception, BaseException)
    return clean_info(_classify_chain(exception, now), find_request_secrets(exception))


def _classify_chain(exception: BaseException, now: float | None) -> ErrorInfo:
    for error in walk_causes(exception):
        if (info := _classify_known(error, now)) is not None:
            return info
    message = _exception_message(exception)
    if match := _STATUS_IN_TEXT.search(message[:_LONGEST_TEXT]):
        return _classify_by_wire(exception, int(match[1] or match[2]), message.encode(), {}, now)
    return _classify_by_row(exception, ExceptionRow(ErrorCategory.UNKNOWN))


def _classify_known(error: BaseException, now: float | None) -> ErrorInfo | None:
    """Classify an exception by its own data; None if it holds none."""
    if isinstance(error, HoldfastError):
        return read_error_info(error)
    row = _find_row(error)
    if row is not None and row.name in DECISIVE:
        return _classify_by_row(error, row)
    response = _find_response(error)
    if response is not None:
        return _classify_by_wire(error, *response, now)
    return None if row is None else _classify_by_row(error, row)


def _find_row(error: BaseException) -> ExceptionRow | None:
    for kind in type(error).__mro__:
        if (row := BY_NAME.get(kind.__name__)) is not None:
            return row
    return None


def _classify_by_row(error: BaseException, row: ExceptionRow) -> ErrorInfo:
    provider, _ = _identify_provider(error)
    landed = Landed.NO if row.landed is Landed.NO or _was_never_sent(error) else Landed.UNKNOWN
    kind = type(error).__name__
    message = _exception_message(error)
    return ErrorInfo(
        category=row.category,
        landed=landed,
        safe=_safe_message(provider, row.category, kind, message),
        private=redact_and_shorten(f"{kind}: {message}", LONGEST_PRIVATE),
        code=kind,
        provider=provider or None,
    )


def _safe_message(provider: str, category: ErrorCategory, kind: str, message: str) -> str:
    if category in (ErrorCategory.UNKNOWN, ErrorCategory.PROGRAMMING, ErrorCategory.CANCELLED):
        # This is not a provider's message: the text may hold private data, the class name does not.
        return f"The call ended with {kind}"
    return describe_error(provider, category, None, message or kind)


def _was_never_sent(error: BaseException) -> bool:
    """Whether this exception or one of its causes happened before anything was sent."""
    for cause in walk_causes(error):
        # requests and urllib wrap the cause as an argument, and urllib3 as its `reason`.
        inner = cause.args[0] if cause.args else None
        for candidate in (cause, inner, read_field(inner, "reason")):
            if any(kind.__name__ in NOT_SENT for kind in type(candidate).__mro__):
                return True
            if isinstance(candidate, OSError) and candidate.errno in _NO_WAY_THERE:
                return True
    return False


def _classify_by_wire(
    error: BaseException,
    status: int | None,
    body: bytes,
    headers: Mapping[str, str],
    now: float | None,
) -> ErrorInfo:
    provider, wire = _identify_provider(error)
    failure = Failure(provider=provider, status=status, headers=headers, body=body, now=now)
    return _WIRES[wire](failure)


def _find_response(error: BaseException) -> tuple[int | None, bytes, dict[str, str]] | None:
    """Return status, body and headers of the exception's response, or None without a response."""
    response = first_field(error, "response", "raw_response", "http_response", "_response")
    if isinstance(response, Mapping):
        return _read_boto_response(response)
    status = _find_status(error, response)
    payload = first_field(error, "body", "details", "error")
    body = _read_body(response) or _encode_body(payload) or _exception_message(error).encode()
    # An error inside a stream: the exception holds its JSON, and the status was a success.
    streamed = (
        isinstance(payload, (dict, str)) and bool(payload) and type(error).__name__ == "APIError"
    )
    if status is None and not streamed:
        return None
    headers = normalise_headers(first_field(response, "headers", "_headers")) or normalise_headers(
        first_field(error, "headers", "hdrs")
    )
    return status, body, headers


def _find_status(error: BaseException, response: object) -> int | None:
    for value in (
        read_field(response, "status_code"),
        read_field(response, "status"),
        read_field(error, "status_code"),
        read_field(error, "status"),
        read_field(error, "http_status"),
        read_field(error, "code"),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return int(value)
    return None


def _read_boto_response(
    response: Mapping[object, object],
) -> tuple[int | None, bytes, dict[str, str]] | None:
    meta, error = response.get("ResponseMetadata"), response.get("Error")
    if not isinstance(error, dict):
        return None
    meta = meta if isinstance(meta, dict) else {}
    status = meta.get("HTTPStatusCode")
    body = {
        "code": error.get("Code"),
        "message": error.get("Message"),
        "request_id": meta.get("RequestId"),
    }
    return (
        status if isinstance(status, int) else None,
        _encode_body(body),
        normalise_headers(meta.get("HTTPHeaders")),
    )


def _read_body(response: object) -> bytes:
    """Return the body if it was read; a property of the client might read from the connection."""
    for name in ("_content", "_body", "content", "text"):
        value = read_field(response, name)
        if isinstance(value, (bytes, str)) and value:
            return value if isinstance(value, bytes) else value.encode()
    return b""


def _encode_body(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (dict, list)) or not value:
        return b""
    try:
        return msgspec.json.encode(value, enc_hook=_type_name)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return b""


def _type_name(value: object) -> str:
    return type(value).__name__


def _identify_provider(error: BaseException) -> tuple[str, str]:
    """Return provider and wire, by the URL of the request or else by the package of the class."""
    for url in _request_urls(error):
        if provider := find_provider_by_url(url):
            return provider
    named = read_field(error, "llm_provider")
    if isinstance(named, str) and (preset := PRESETS.get(named)):
        return preset.name, preset.wire
    package = type(error).__module__.partition(".")[0]
    return _SDKS.get(package, ("", "openai_chat"))


def find_provider_by_url(url: str) -> tuple[str, str] | None:
    """Return the provider and the wire that its preset has for this host, or None.

    >>> find_provider_by_url("https://api.groq.com/openai/v1/chat/completions")
    ('groq', 'openai_chat')
    """
    match = _HOST.match(url)
    return _providers_by_host().get(match[1].lower()) if match else None


def _request_urls(error: BaseException) -> Iterator[str]:
    for holder in (
        first_field(error, "response", "_response"),
        error,
        read_field(error, "request_info"),
    ):
        request = first_field(holder, "request", "_request")
        for url in (
            read_field(holder, "url"),
            read_field(request, "url"),
            read_field(holder, "real_url"),
        ):
            if url is not None:
                yield url_text(url)


def _providers_by_host() -> dict[str, tuple[str, str]]:
    if not _HOSTS:
        for preset in PRESETS.values():
            if (match := _HOST.match(preset.base_url)) and "{" not in preset.base_url:
                _HOSTS.setdefault(match[1].lower(), (preset.name, preset.wire))
    return _HOSTS


_HOSTS: dict[str, tuple[str, str]] = {}


def _exception_message(error: BaseException) -> str:
    """Return the exception's message, without running its code."""
    message = read_field(error, "message")
    texts = [
        message,
        *error.args,
        getattr(error, "strerror", None) if isinstance(error, OSError) else "",
    ]
    return next((text for text in texts if isinstance(text, str) and text), "")[:_LONGEST_TEXT]


class ExceptionRow(NamedTuple):
    """One row: the category, and whether the request may have taken effect."""

    category: ErrorCategory
    landed: Landed = Landed.UNKNOWN
    name: str = ""


# Nothing was sent: there was no connection, or the request was invalid.
_UNREACHED = (
    "NewConnectionError NameResolutionError ProxyError ConnectError ClientConnectorError "
    "ClientConnectorDNSError ClientProxyConnectionError gaierror herror "
    "ConnectionRefusedError EndpointConnectionError ProxyConnectionError"
)
_UNREACHED_IN_TIME = "ConnectTimeout PoolTimeout ConnectTimeoutError ConnectionTimeoutError"
_UNSENDABLE = (
    "InvalidURL UnsupportedProtocol LocalProtocolError MissingSchema InvalidSchema InvalidProxyURL "
    "InvalidHeader URLRequired InvalidUrlClientError NonHttpUrlClientError SSLCertVerificationError "
    "ClientConnectorCertificateError"
)
_CUT = (
    "APIConnectionError ConnectionError OSError ReadError WriteError CloseError NetworkError "
    "RemoteProtocolError TransportError RequestError RequestException ChunkedEncodingError "
    "ClientConnectionError ClientOSError ClientPayloadError ServerDisconnectedError "
    "ClientConnectionResetError ServerConnectionError ClientError IncompleteRead IncompleteReadError RemoteDisconnected "
    "ProtocolError HTTPClientError URLError SSLError RetryableError ConnectionClosedError "
    "WebSocketConnectionClosedError"
)
_TIMED_OUT = (
    "APITimeoutError TimeoutError Timeout TimeoutException ReadTimeout WriteTimeout "
    "ReadTimeoutError ServerTimeoutError SocketTimeoutError"
)
_WRONG_FILE = (
    "FileNotFoundError FileExistsError IsADirectoryError NotADirectoryError PermissionError"
)
_NO_KEY = (
    "AuthenticationError PermissionDeniedError CredentialsError NoCredentialsError "
    "DefaultCredentialsError RefreshError"
)
_FAULT_OF_THE_CODE = (
    "AssertionError AttributeError ImportError LookupError NameError NotImplementedError "
    "RecursionError SyntaxError TypeError ZeroDivisionError MemoryError"
)

_ROWS: tuple[tuple[ErrorCategory, Landed, str], ...] = (
    (ErrorCategory.TRANSIENT, Landed.NO, _UNREACHED),
    (ErrorCategory.TIMEOUT, Landed.NO, _UNREACHED_IN_TIME),
    (ErrorCategory.CLIENT_ERROR, Landed.NO, _UNSENDABLE),
    (ErrorCategory.TRANSIENT, Landed.UNKNOWN, _CUT),
    (ErrorCategory.TIMEOUT, Landed.UNKNOWN, _TIMED_OUT),
    # The base classes of an SDK's own errors: it was called with wrong arguments.
    (ErrorCategory.CLIENT_ERROR, Landed.NO, "OpenAIError AnthropicError"),
    (ErrorCategory.CLIENT_ERROR, Landed.UNKNOWN, _WRONG_FILE),
    (ErrorCategory.CLIENT_ERROR, Landed.NO, "BadRequestError InvalidRequestError"),
    (ErrorCategory.CLIENT_ERROR, Landed.UNKNOWN, "TooManyRedirects"),
    (ErrorCategory.AUTH_ERROR, Landed.NO, _NO_KEY),
    (ErrorCategory.RATE_LIMIT_RETRYABLE, Landed.NO, "RateLimitError ThrottlingException"),
    (ErrorCategory.TRANSIENT, Landed.NO, "OverloadedError ServiceUnavailableError"),
    (ErrorCategory.SERVER_ERROR, Landed.UNKNOWN, "InternalServerError"),
    (ErrorCategory.CONTEXT_WINDOW, Landed.NO, "ContextWindowExceededError"),
    (
        ErrorCategory.INVALID_RESPONSE,
        Landed.UNKNOWN,
        "JSONDecodeError APIResponseValidationError DecodingError ContentDecodingError",
    ),
    (ErrorCategory.TRUNCATED, Landed.UNKNOWN, "LengthFinishReasonError"),
    (ErrorCategory.CONTENT_FILTERED, Landed.UNKNOWN, "ContentFilterFinishReasonError"),
    (ErrorCategory.PROGRAMMING, Landed.UNKNOWN, _FAULT_OF_THE_CODE),
    (ErrorCategory.CANCELLED, Landed.UNKNOWN, "CancelledError KeyboardInterrupt SystemExit"),
)

BY_NAME: dict[str, ExceptionRow] = {
    name: ExceptionRow(category, landed, name)
    for category, landed, names in _ROWS
    for name in names.split()
}
"""The rows by class name."""

DECISIVE = frozenset(
    {
        "APIResponseValidationError",
        "CancelledError",
        "ContentFilterFinishReasonError",
        "JSONDecodeError",
        "LengthFinishReasonError",
    }
)
"""These may hold a response with status 200, so their name decides."""

NOT_SENT = frozenset(f"{_UNREACHED} {_UNREACHED_IN_TIME} {_UNSENDABLE}".split())
"""These prove that nothing was sent, even as the cause of another exception."""
