"""Turns the exceptions of the HTTP client into typed errors.

The safe text names the host and the next step, and nothing else of the request: no path, query, user,
header or key. `landed` is NO only if the request certainly was not sent.
"""

from __future__ import annotations

import errno
import re

import aiohttp
from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, TransportError
from holdfast.core.redaction import redact
from holdfast.transport.port import Timeouts


class Destination(Struct, frozen=True):
    """The destination of a request, and whether it was sent.

    Args:
        host: host and port, as errors may show them.
        sent: whether the request had a connection to the server.
        proxy: host and port of the proxy, or "".
    """

    host: str
    sent: bool
    proxy: str = ""


PROXY_LOGIN = 407
_CHECK_URL = "Check the base URL"
_ADVICE: dict[str, tuple[str, str]] = {
    "dns": ("the name cannot be resolved", f"{_CHECK_URL} and the network"),
    "connection_refused": (
        "connection refused",
        f"{_CHECK_URL}, its port, and that the server runs",
    ),
    "unreachable": ("cannot be reached", f"{_CHECK_URL} and the network"),
    "tls": ("TLS failed", f"{_CHECK_URL} (http or https, port) and the clock"),
    "certificate": (
        "its certificate is not trusted",
        "For a private authority set SSL_CERT_FILE to its certificate",
    ),
    "not_http": ("the response is not HTTP", f"{_CHECK_URL} (http or https, port)"),
    "encoding": (
        "the response is compressed in a way that was not asked for",
        "Turn this compression off in the server or the proxy",
    ),
    "reset": ("connection reset", "The server or a proxy closed the connection"),
    "disconnected": ("the server closed the connection without a response", "Try again"),
    "payload": ("the body was truncated or damaged in transit", "Try again"),
    "closed": ("the transport was closed while the request ran", "Close it after the last run"),
    "failed": ("the request failed", "The log has the details"),
}
# The client's own words; it asks only for what it can read.
_ENCODING = re.compile(r"decode content-encoding: [\w ]{0,40}\((br|zstd)\)")
_ERRNO_CODES = {
    errno.ECONNREFUSED: "connection_refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.ECONNABORTED: "reset",
    errno.ETIMEDOUT: "connect_timeout",
}


def timeout_error(code: str, destination: Destination, timeouts: Timeouts) -> TransportError:
    """Return the error for an expired limit: `connect_timeout`, `first_byte_timeout`, ...

    `no_response` is `total_timeout` before the first byte.
    """
    problem, setting = {
        "connect_timeout": ("no connection", "connect"),
        "first_byte_timeout": ("no first byte", "first_byte"),
        "no_content": ("no content", "first_content"),
        "stalled": ("no new content", "between_chunks"),
        "no_response": ("no response", "total"),
        "total_timeout": ("not finished", "total"),
    }[code]
    seconds = getattr(timeouts, setting)
    if seconds is None:
        seconds, setting = timeouts.total, "total"
    within = f" within {seconds:g} s" if seconds is not None else ""
    advice = "Raise" if seconds is not None else "Set"
    return _make_error(
        ErrorInfo(
            category=ErrorCategory.TIMEOUT,
            safe=f"{_describe_destination(destination)}: {problem}{within}. {advice} timeouts.{setting} to wait longer",
            landed=Landed.UNKNOWN if destination.sent else Landed.NO,
            code="total_timeout" if code == "no_response" else code,
        )
    )


def bad_request_error(code: str, safe: str) -> TransportError:
    """Return the error for a request that cannot be sent."""
    return _make_error(
        ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe=safe, landed=Landed.NO, code=code)
    )


def transport_error(
    error: Exception, destination: Destination, timeouts: Timeouts
) -> TransportError:
    """Return the error for an exception of the client.

    Args:
        error: the client's exception.
        destination: the destination of the request, and whether it was sent.
        timeouts: the limits, for the text about a timeout.
    """
    if isinstance(error, aiohttp.ClientHttpProxyError | aiohttp.ClientProxyConnectionError):
        return _proxy_error(error, destination)
    code = _error_code(error, destination)
    if code == "connect_timeout":
        return timeout_error(code, destination, timeouts)
    if (
        destination.proxy
        and not destination.sent
        and code in ("dns", "disconnected", "reset", "not_http")
    ):
        return _proxy_error(error, destination)
    problem, advice = _ADVICE[code]
    if code == "encoding":
        problem = f"{problem}: {_encoding_name(error)}"
    permanent = code in ("certificate", "encoding")
    return _make_error(
        ErrorInfo(
            category=ErrorCategory.CLIENT_ERROR if permanent else ErrorCategory.TRANSIENT,
            safe=f"{_describe_destination(destination)}: {problem}. {advice}",
            landed=Landed.UNKNOWN if destination.sent else Landed.NO,
            private=_private_detail(error),
            code="tls" if code == "certificate" else code,
        )
    )


def _error_code(error: Exception, destination: Destination) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns"
        case aiohttp.ClientConnectorCertificateError():
            return "certificate"
        case aiohttp.ClientSSLError() | aiohttp.ServerFingerprintMismatch():
            return "tls"
        case aiohttp.ConnectionTimeoutError():
            return "connect_timeout"
        case aiohttp.ClientPayloadError():
            return "payload"
        case aiohttp.ServerDisconnectedError():
            return "disconnected"
        case aiohttp.ClientResponseError():
            return "encoding" if _encoding_name(error) else "not_http"
        case OSError():
            fallback = "reset" if destination.sent else "unreachable"
            return _ERRNO_CODES.get(error.errno or 0, fallback)
        case aiohttp.ClientConnectionError() | RuntimeError():
            return "closed"
        case _:
            return "failed"


def _encoding_name(error: Exception) -> str:
    """Return the name of the compression that the client cannot read; "" for any other error."""
    name = _ENCODING.search(str(error))
    return name[1] if name is not None else ""


def proxy_login_error(destination: Destination) -> TransportError:
    """Return the error for status 407: a proxy wants a password, and the request got no further."""
    proxy = f"the proxy {destination.proxy}" if destination.proxy else "a proxy on the way"
    return _make_error(
        ErrorInfo(
            category=ErrorCategory.CLIENT_ERROR,
            safe=f"{destination.host}: {proxy} responded with {PROXY_LOGIN}. It requires a user and a "
            "password. Set HTTPS_PROXY and HTTP_PROXY to http://user:password@host:port",
            landed=Landed.NO,
            status=PROXY_LOGIN,
            code="proxy",
        )
    )


def _proxy_error(error: Exception, destination: Destination) -> TransportError:
    status = error.status if isinstance(error, aiohttp.ClientHttpProxyError) else None
    if status == PROXY_LOGIN:
        return proxy_login_error(destination)
    problem = f"responded with {status}" if status else "cannot be reached or does not respond"
    return _make_error(
        ErrorInfo(
            category=ErrorCategory.TRANSIENT,
            safe=f"{destination.host}: the proxy {destination.proxy} {problem}. "
            "Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
            landed=Landed.NO,
            private=_private_detail(error),
            status=status,
            code="proxy",
        )
    )


def _describe_destination(destination: Destination) -> str:
    return (
        f"{destination.host} (through the proxy {destination.proxy})"
        if destination.proxy
        else destination.host
    )


def _private_detail(error: Exception) -> str:
    return redact(f"{type(error).__name__}: {error}")


def _make_error(info: ErrorInfo) -> TransportError:
    return TransportError(info.safe, info=info)
