"""What the emulator saw and did, request by request, for assertions. Secrets are masked at once.

An entry grows while its request is served. It must never hold a key, not even for a moment.
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
    """One request, as it came and as it ended. Times are seconds since the emulator started.

    Args:
        number: of the model call, from 1; 0 for anything else.
        method, path, headers: as sent, secrets masked.
        body: the parsed JSON, or None.
        wire: the wire it was taken for, or "".
        faults: what was done to it.
        status: of the answer; 0 when none was sent.
        connection: the number of the connection it came on, from 1.
        chunks: pieces of the body that were sent.
        received, first_byte, ended: times; first_byte and ended are None until then.
        client_gone: the client dropped the connection before the end of the answer.
        problem: what was wrong with the request or with the brain, or "".
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
        """One line for a terminal.

        >>> LoggedRequest(number=1, method="GET", path="/v1/models", headers={}, body=None,
        ...     connection=1, received=0.0, status=200).format_line()
        '#1 GET /v1/models 200'
        """
        named = ", ".join(type(fault).__name__ for fault in self.faults)
        said = [f"#{self.number} {self.method} {self.path} {self.status or 'no answer'}"]
        if named:
            said.append(f"faults: {named}")
        if self.client_gone:
            said.append("the client went away")
        if self.problem:
            said.append(self.problem)
        return "; ".join(said)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers without the values that are secret.

    >>> mask_headers({"authorization": "Bearer sk-1", "accept": "*/*"})
    {'authorization': '[masked]', 'accept': '*/*'}
    """
    return {k: MASK if k in _SECRET_HEADERS else v for k, v in headers.items()}


def mask_path(path: str) -> str:
    """The path without keys in its query.

    >>> mask_path("/v1beta/models?key=abc&alt=sse")
    '/v1beta/models?key=[masked]&alt=sse'
    """
    return _SECRET_QUERY.sub(rf"\1{MASK}", path)
