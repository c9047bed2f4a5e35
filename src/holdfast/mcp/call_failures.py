"""What a failed exchange with an MCP server proves: whether the call was sent, and whether it may have taken effect.

A record of one exchange is passed down to the transport in a context variable. The transport notes there whether the
request went out and which status came back, which the SDK's errors do not say. This module must never call an exchange
that was sent and not answered harmless, and imports nothing of the SDK.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolFailedError
from holdfast.core.redaction import redact
from holdfast.tools.connection_failures import ConnectionFailure
from holdfast.tools.tool_failures import ToolError

CONNECTION_CLOSED: Final = -32000
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602
_HEADER_MISMATCH: Final = -32020
_WRONG_VERSION: Final = -32022
_REFUSALS: Final = frozenset({_METHOD_NOT_FOUND, _INVALID_PARAMS, _HEADER_MISMATCH, _WRONG_VERSION})
"""Codes by which a server says that it did not run the tool."""
_REFUSALS_OR_OURS: Final = frozenset({_PARSE_ERROR, _INVALID_REQUEST})
"""Codes that a server sends for a request that it cannot read, and the SDK for an answer that it cannot read."""
_LONGEST_TEXT: Final = 2_000


@dataclass
class McpExchange:
    """The state of one request as its transport saw it."""

    is_once: bool = False
    """Whether it needs a connection of its own."""
    is_sent: bool = False
    """Whether any part of it may have reached the server."""
    status: int | None = None
    """The HTTP status of the answer; None on stdio, or without an answer."""
    retry_after: float | None = None
    failure: ConnectionFailure | None = None
    """What the transport saw happen to the connection."""
    note: str = ""
    """Why the transport gave up the answer, for the log."""


current_exchange: ContextVar[McpExchange | None] = ContextVar("holdfast_mcp_exchange", default=None)
"""The exchange for which the running code sends."""


def make_not_sent(server: str, tool: str, reason: str) -> ToolFailedError:
    """Return the error of a call that never left this process: there is no connection."""
    return _make((server, tool), reason, ErrorCategory.TRANSIENT, Landed.NO)


def explain_failure(
    error: BaseException, exchange: McpExchange, server: str, tool: str
) -> ToolFailedError | ToolError:
    """Return the error of a failed call, with what is known about its effect.

    Args:
        error: the exception of the SDK or of the connection.
        exchange: what the transport saw.
        server: the name of the server.
        tool: the tool, as the server names it.
    """
    code, message = read_error_code(error)
    reason = exchange.note or redact(f"{type(error).__name__}: {message or error}")[:_LONGEST_TEXT]
    if not exchange.is_sent:
        return make_not_sent(server, tool, reason)
    status = exchange.status
    if exchange.failure is not None:
        is_timeout = exchange.failure is ConnectionFailure.TIMED_OUT
        category = ErrorCategory.TIMEOUT if is_timeout else ErrorCategory.TRANSIENT
        return _make((server, tool), reason, category, Landed.UNKNOWN)
    if status is not None and status >= 400:
        return _explain_status(exchange, code, message, server, tool)
    is_refused = code in _REFUSALS or (code in _REFUSALS_OR_OURS and status is None)
    if is_refused:
        return ToolError(_format_refusal(server, tool, message))
    if code is None or code == CONNECTION_CLOSED:
        return _make((server, tool), reason, ErrorCategory.TRANSIENT, Landed.UNKNOWN)
    return _make((server, tool), reason, ErrorCategory.SERVER_ERROR, Landed.UNKNOWN)


def _explain_status(
    exchange: McpExchange, code: int | None, message: str, server: str, tool: str
) -> ToolFailedError | ToolError:
    status = exchange.status or 0
    if code in _REFUSALS:
        return ToolError(_format_refusal(server, tool, message))
    category = {
        401: ErrorCategory.AUTH_ERROR,
        403: ErrorCategory.AUTH_ERROR,
        404: ErrorCategory.TRANSIENT,  # the session has expired: the next attempt has a new one
        408: ErrorCategory.TIMEOUT,
        429: ErrorCategory.RATE_LIMIT_RETRYABLE,
        503: ErrorCategory.TRANSIENT,
        504: ErrorCategory.TIMEOUT,
    }.get(status, ErrorCategory.CLIENT_ERROR if status < 500 else ErrorCategory.SERVER_ERROR)
    landed = Landed.NO if status < 500 and status != 408 else Landed.UNKNOWN
    reason = exchange.note or f"status {status}"
    return _make((server, tool), reason, category, landed, exchange)


def _format_refusal(server: str, tool: str, message: str) -> str:
    said = redact(message)[:_LONGEST_TEXT]
    return f"The server {server} refused the call of {tool}: {said or 'it gave no reason'}"


def _make(
    place: tuple[str, str],
    reason: str,
    category: ErrorCategory,
    landed: Landed,
    exchange: McpExchange | None = None,
) -> ToolFailedError:
    server, tool = place
    info = ErrorInfo(
        category=category,
        landed=landed,
        safe=f"The MCP server {server} did not answer the call of '{tool}'.",
        private=f"{server}: {reason}",
        code="mcp",
        status=None if exchange is None else exchange.status,
        retry_after=None if exchange is None else exchange.retry_after,
    )
    return ToolFailedError(tool, f"MCP server {server}: {reason}", info=info)


def read_error_code(error: BaseException) -> tuple[int | None, str]:
    """Return the code and the text of an error of JSON-RPC; None and "" for another exception.

    >>> read_error_code(KeyError("x"))
    (None, '')
    """
    details = getattr(error, "error", None)
    code, message = getattr(details, "code", None), getattr(details, "message", None)
    if type(code) is not int or not isinstance(message, str):
        return None, ""
    return code, message
