"""One request to a provider, the only place that reads its answer, and the two ways in which it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from registration.settings import Endpoint


class ProviderFailure(Exception):
    """A provider did not do its task, or nobody knows whether it did.

    Args:
        provider: "payments", "sms", "mail" or "addresses".
        reason: a short word, such as "unreachable"; it never holds personal data.
        retry_after: how many seconds the provider asks to wait, if it does.
    """

    def __init__(self, provider: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(provider, reason, retry_after)
        self.provider = provider
        self.reason = reason
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.provider}: {self.reason}"


class Refused(ProviderFailure):
    """It certainly did not happen: the provider said no, or the request never left.

    `temporary` is true if the same request may be accepted later: the provider is busy or cannot be
    reached. Otherwise a repetition is refused again.
    """

    TEMPORARY = frozenset({"busy", "unreachable"})

    @property
    def temporary(self) -> bool:
        """Whether the same request may be accepted later."""
        return self.reason in self.TEMPORARY


class Unanswered(ProviderFailure):
    """Nobody knows whether it happened: ask `find` with the same key, or repeat it with that key."""


# Deep nesting is a RecursionError, and text that is not UTF-8 a UnicodeDecodeError.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


Answered = TypeVar("Answered")

LONGEST_ANSWER = 1_000_000  # bytes
MANY_FAILURES = 5
LONGEST_WAIT = 3_600.0  # seconds that a provider may ask for
REASON = re.compile(r"[a-z_]{1,40}")


class ErrorDetail(Struct):
    """The error of a provider. Its text is not read: it may quote the request."""

    kind: str


class ErrorAnswer(Struct):
    """The body of an answer that is an error."""

    error: ErrorDetail


class Received(Struct):
    """An answer that was read completely."""

    status: int
    body: bytes
    retry_after: float | None


class ProviderHealth(Struct, frozen=True):
    """How the last requests to a provider ended, for a page that shows whether it is well.

    Args:
        failures: how many requests in a row got no answer, or "busy".
        reason: why the last of them failed; None if there was none.
    """

    failures: int = 0
    reason: str | None = None

    @property
    def is_failing(self) -> bool:
        """Whether a person should look: several requests in a row failed."""
        return self.failures >= MANY_FAILURES


class ProviderClient:
    """A connection to one provider; close it, or use it in `async with`.

    Args:
        endpoint: address, token and time limits.
    """

    PROVIDER = "provider"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None
        self.health = ProviderHealth()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint.address!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; requests in progress end as unanswered."""
        if self._session is not None:
            await self._session.close()

    async def _create(
        self, path: str, body: object, answer: type[Answered], key: str | None = None
    ) -> Answered:
        """Send a POST; an error of any kind is `Refused` or `Unanswered`."""
        with self._watch():
            return self._read(await self._send("POST", path, key, body), answer)

    async def _find(self, path: str, key: str, answer: type[Answered]) -> Answered | None:
        """Ask for the object that was made with a key; None if the provider knows no such thing."""
        with self._watch():
            received = await self._send("GET", path, key, None)
            if received.status == 404 and self._read_kind(received) == "not_found":
                return None
            return self._read(received, answer)

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """Count failures in a row; a refusal for good is an answer."""
        try:
            yield
        except ProviderFailure as failure:
            if isinstance(failure, Refused) and not failure.temporary:
                self.health = ProviderHealth()
            else:
                self.health = ProviderHealth(self.health.failures + 1, failure.reason)
            raise
        self.health = ProviderHealth()

    async def _send(self, method: str, path: str, key: str | None, body: object) -> Received:
        headers = {"Authorization": f"Bearer {self._endpoint.token.reveal()}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        url = self._endpoint.address + path
        # The cause would quote addresses and, in some versions, bodies: it is left out.
        try:
            session = self._open_session()
            async with session.request(
                method, url, data=data, headers=headers, allow_redirects=False
            ) as response:
                text = await self._read_body(response)
                return Received(response.status, text, _read_wait(response))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise Refused(self.PROVIDER, "unreachable") from None
        except TimeoutError:
            raise Unanswered(self.PROVIDER, "timeout") from None
        except (aiohttp.ClientError, OSError):
            raise Unanswered(self.PROVIDER, "connection_lost") from None

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > LONGEST_ANSWER:
                raise Unanswered(self.PROVIDER, "nonsense")
        return bytes(body)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = aiohttp.ClientTimeout(
                total=self._endpoint.total_seconds, connect=self._endpoint.connect_seconds
            )
            # Each request has a connection of its own. A connection that the provider closed while
            # it was idle would leave the outcome of a request unknown for no reason.
            connector = aiohttp.TCPConnector(force_close=True)
            session = aiohttp.ClientSession(timeout=limits, connector=connector)
            # aiohttp repeats a GET by itself when the connection is lost, and has no public switch.
            session._retry_connection = False  # noqa: SLF001
            self._session = session
        return self._session

    def _read(self, received: Received, answer: type[Answered]) -> Answered:
        if received.status in (200, 201):
            try:
                return msgspec.json.decode(received.body, type=answer)
            except UNREADABLE:
                raise Unanswered(self.PROVIDER, "nonsense") from None
        if received.status >= 500 or received.status == 408:
            raise Unanswered(self.PROVIDER, "server_error", received.retry_after)
        kind = self._read_kind(received)
        if received.status == 429:
            raise Refused(self.PROVIDER, "busy", received.retry_after)
        raise Refused(self.PROVIDER, kind, received.retry_after)

    def _read_kind(self, received: Received) -> str:
        """Return the kind of an error; an error of something in between is no refusal."""
        if not 400 <= received.status < 500:
            raise Unanswered(self.PROVIDER, "nonsense")
        try:
            kind = msgspec.json.decode(received.body, type=ErrorAnswer).error.kind
        except UNREADABLE:
            raise Unanswered(self.PROVIDER, "nonsense") from None
        return kind if REASON.fullmatch(kind) else "refused"


def _read_wait(response: aiohttp.ClientResponse) -> float | None:
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_WAIT) if re.fullmatch(r"[0-9]{1,9}", text) else None
