"""The transport over HTTP/1.1: TLS, proxies, a connection pool, five timeouts, faithful errors.

The first request imports `exchange`, which does the work, because the client library is slow to
import. The transport does not retry, follows no redirect, stores no cookie, and reads the body only
as bytes. One thing is sent twice: a request on a kept connection that ends without one byte of a
response goes out once more, on a new connection; one that `is_once` never does.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeInt, PositiveFloat
from holdfast.transport.port import HttpRequest, Response, Timeouts

if TYPE_CHECKING:
    from ssl import SSLContext

    from holdfast.transport.exchange import SharedClient


class HttpTransport:
    """Sends requests, and reuses connections.

    One object serves any number of tasks, event loops and threads.

    Args:
        connections: the maximum number of connections of one event loop at a time; 0 means no limit.
        idle: seconds until an unused connection is closed. If the server closes it earlier, a
            request that has just begun is sent again on a new connection.
        tls: the TLS context for https; by default the system's certificate authorities, or those of
            SSL_CERT_FILE.

    >>> HttpTransport(connections=-1)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: connections: must be at least 0, got -1
    """

    __slots__ = ("__weakref__", "_client", "_connections", "_idle", "_tls")

    def __init__(
        self, *, connections: int = 0, idle: float = 15.0, tls: SSLContext | None = None
    ) -> None:
        check_value("connections", connections, NonNegativeInt)
        check_value("idle", idle, PositiveFloat)
        self._connections = connections
        self._idle = idle
        self._tls = tls
        self._client: SharedClient | None = None

    def send(
        self, request: HttpRequest, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Response]:
        """Send one request when the context is entered.

        If a connection that carried an earlier request ends without one byte of a response, the
        server has probably closed it just then. The request is sent once more, on a new connection.
        A request that `is_once` gets a new connection at once.

        Args:
            request: the request; header values are sent unchanged.
            timeouts: the limits of this request.

        Raises:
            TransportError: on entering or reading; see `info.code` and `info.landed`.
            ConfigurationError: the environment names a proxy that cannot be used.
        """
        client = self._client or self._load_client()
        return client.new_exchange(request, timeouts)

    async def aclose(self) -> None:
        """Close every connection; running requests fail. A later request opens new ones."""
        if self._client is not None:
            await self._client.pool.aclose()

    def _load_client(self) -> SharedClient:
        from holdfast.transport.exchange import SharedClient

        self._client = SharedClient(self._connections, self._idle, self._tls)
        return self._client
