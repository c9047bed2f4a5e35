"""The routes of the service, as a client calls them.

This module must never repeat a request by itself: only its caller knows whether that is safe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct

_ANSWER_SECONDS: Final = 20.0
_UPLOAD_SECONDS: Final = 120.0
_SILENT_SECONDS: Final = 45.0
"""The service sends a comment every 15 seconds."""


class Unreachable(Exception):
    """Nobody answered, or not the service: the request may have arrived or not."""


class Refused(Exception):
    """The service refused a request.

    Args:
        status: the status of the response.
        problem: the problem, as the service describes it.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(status, problem.get("kind"))
        self.status = status
        self.kind = str(problem.get("kind"))
        self.message = str(problem.get("message", "That did not work."))
        self.is_retryable = bool(problem.get("retryable"))
        self.seconds = float(problem.get("retry_after", 0))


class TurnEvent(Struct, frozen=True):
    """The events of a turn.

    Args:
        position: where the reader is now.
        name: "status", "text", "forget", "answer" or "error".
        data: the details.
    """

    position: str
    name: str
    data: dict[str, Any]

    def __repr__(self) -> str:
        return f"TurnEvent(position={self.position!r}, name={self.name!r})"


class ServiceClient:
    """A client with the session of one parent.

    Args:
        http: sends the requests.
        address: of the service, such as `http://127.0.0.1:8000`.
    """

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self._address = address.rstrip("/")
        self._session = ""
        self._token = ""

    @property
    def has_session(self) -> bool:
        """Whether a conversation was begun."""
        return bool(self._session)

    async def post(self, text: str, message_id: str) -> str:
        """Send a message; return the name of its turn. The same id is never answered twice."""
        if not self._session:
            begun = await self._call("POST", "/sessions", json={})
            self._session, self._token = begun["session_id"], begun["token"]
        body = {"user_message": text, "session_id": self._session, "message_id": message_id}
        sent = await self._call("POST", "/chat", json=body, headers={"Prefer": "respond-async"})
        return str(sent["turn"])

    async def follow(self, turn: str, position: str) -> AsyncIterator[TurnEvent]:
        """Yield the events of a turn after a position, until the stream ends.

        Raises:
            Refused: there is no such turn.
            Unreachable: the connection was lost.
        """
        headers = {"Last-Event-ID": position} if position else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENT_SECONDS)
        async with self._send("GET", f"/events/{turn}", headers=headers, timeout=timeout) as sent:
            fields: dict[str, str] = {}
            async for raw in sent.content:
                name, _, value = raw.decode().rstrip("\r\n").partition(": ")
                if name:
                    fields[name] = value
                    continue
                if "data" in fields:
                    data = msgspec.json.decode(fields["data"])
                    yield TurnEvent(fields.get("id", ""), fields.get("event", ""), data)
                fields = {}

    async def show(self) -> dict[str, Any]:
        """Return how far the registration is, and its saved answers."""
        return await self._call("GET", f"/sessions/{self._session}")

    async def send_photo(self, path: Path, message_id: str) -> dict[str, Any]:
        """Send a photo. Raises OSError if it cannot be read."""
        with path.open("rb") as file:
            form = aiohttp.FormData()
            form.add_field("session_id", self._session)
            form.add_field("message_id", message_id)
            form.add_field("file", file, filename="photo")
            return await self._call("POST", "/upload_photo", data=form, seconds=_UPLOAD_SECONDS)

    async def read_photo_state(self) -> dict[str, Any]:
        """Return the state of the last photo."""
        return await self._call("GET", f"/upload-status/{self._session}")

    async def clear(self) -> None:
        """Forget the conversation."""
        await self._call("POST", "/clear", json={"session_id": self._session})
        self._session = self._token = ""

    async def _call(
        self, method: str, path: str, *, seconds: float = _ANSWER_SECONDS, **options: Any
    ) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=5)
        async with self._send(method, path, timeout=timeout, **options) as response:
            return {} if response.status == 204 else await _read_json(response)

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = dict(options.pop("headers", {}))
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            url = self._address + path
            async with self._http.request(method, url, headers=headers, **options) as response:
                if response.status >= 300:
                    raise await _read_problem(response)
                yield response
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            raise Unreachable from None


async def _read_json(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        return msgspec.json.decode(await response.read(), type=dict[str, Any])
    except msgspec.MsgspecError:
        raise Unreachable from None  # a proxy, while the service restarts


async def _read_problem(response: aiohttp.ClientResponse) -> Refused | Unreachable:
    problem = (await _read_json(response)).get("error")
    return Refused(response.status, problem) if isinstance(problem, dict) else Unreachable()
