"""What the name of a foreign exception's class means, when the exception holds no answer of a server.

Names are looked up from the class upward, so that the most exact one decides; they are unique enough
across the SDKs and HTTP clients to need no package. This module must hold data only.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.errors import ErrorCategory, Landed


class ExceptionRow(NamedTuple):
    """One row: the category, and whether the request can have been processed."""

    category: ErrorCategory
    landed: Landed = Landed.UNKNOWN
    name: str = ""


# Nothing was sent: no connection, or nothing that can be sent.
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
    # The root of an SDK's own errors: it was called wrongly.
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
"""Name of a class -> what it means."""

DECISIVE = frozenset(
    {
        "APIResponseValidationError",
        "CancelledError",
        "ContentFilterFinishReasonError",
        "JSONDecodeError",
        "LengthFinishReasonError",
    }
)
"""These hold an answer of status 200 at times: their name says more."""

NOT_SENT = frozenset(f"{_UNREACHED} {_UNREACHED_IN_TIME} {_UNSENDABLE}".split())
"""Those that prove, as a cause of another one too, that nothing was sent."""
