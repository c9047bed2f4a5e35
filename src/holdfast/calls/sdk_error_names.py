"""A table of foreign exception classes by name, for exceptions without a response of a server.

Names are looked up from the class upward, so that the most specific one decides. They are unique
across the SDKs and HTTP clients, so the table needs no packages. This module holds only data.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.errors import ErrorCategory, Landed


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
