"""The emulator's log of requests, for assertions.

An entry is updated while its request is served. Secrets are masked before an entry is created.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from holdfast.testing.emulator.faults import Fault

MASK = "[masked]"
_SECRET_HEADERS = frozenset(
    {
        "api-key",
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "x-goog-api-key",
    }
)
_SECRET_QUERY = re.compile(r"(?i)([?&](?:key|api[-_]?key|access_token|token)=)[^&]*")


class LoggedRequest(Struct, kw_only=True):
    """A request and its response. Times are seconds since the emulator started.

    Args:
        number: the number of the model call, from 1; 0 for other requests.
        method: the method, such as POST.
        path: the path and the query as sent, with secrets masked.
        headers: the headers as sent, with secrets masked.
        body: the parsed JSON, or None.
        wire: the name of the wire, or "".
        faults: the faults of the response.
        status: the status of the response; 0 if none was sent.
        connection: the number of the connection, from 1.
        chunks: the number of parts of the body that were sent.
        received: when the request had arrived.
        first_byte: when the first byte of the response was sent; None before.
        ended: when the response ended; None before.
        client_gone: whether the client closed the connection before the end of the response.
        problem: an error of the request or of the script, or "".
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: object
    connection: int
    received: float
    wire: str = ""
    faults: tuple[Fault, ...] = ()
    status: int = 0
    chunks: int = 0
    first_byte: float | None = None
    ended: float | None = None
    client_gone: bool = False
    problem: str = ""

    def format_line(self) -> str:
        """Format the request as one line for a terminal.

        >>> LoggedRequest(number=1, method="GET", path="/v1/models", headers={}, body=None,
        ...     connection=1, received=0.0, status=200).format_line()
        '#1 GET /v1/models 200'
        """
        faults = ", ".join(type(fault).__name__ for fault in self.faults)
        parts = [f"#{self.number} {self.method} {self.path} {self.status or 'no response'}"]
        if faults:
            parts.append(f"faults: {faults}")
        if self.client_gone:
            parts.append("the client closed the connection")
        if self.problem:
            parts.append(self.problem)
        return "; ".join(parts)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Replace the values of secret headers.

    >>> mask_headers({"authorization": "Bearer sk-1", "accept": "*/*"})
    {'authorization': '[masked]', 'accept': '*/*'}
    """
    return {k: MASK if k in _SECRET_HEADERS else v for k, v in headers.items()}


def mask_path(path: str) -> str:
    """Replace the keys in the query of a path.

    >>> mask_path("/v1beta/models?key=abc&alt=sse")
    '/v1beta/models?key=[masked]&alt=sse'
    """
    return _SECRET_QUERY.sub(rf"\1{MASK}", path)
