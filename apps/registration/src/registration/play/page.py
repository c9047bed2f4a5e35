"""A parent's page: it sends a request until it is answered, and counts why it had to.

A message keeps its id, so that it is answered once however often it is sent. This module must never
print a parent's words.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from msgspec import Struct

_LONGEST_WAIT = 5.0
_MOST_TRIES = 120
_CLIENT_SECONDS = 28.0


class Shown(Struct, frozen=True):
    """The content of the page.

    Args:
        step: the step of the registration; None before a code is accepted.
        reply: the last reply.
        has_saved: whether something is listed as saved.
    """

    step: int | None
    reply: str
    has_saved: bool

    def __repr__(self) -> str:
        return f"Shown(step={self.step})"


class StuckError(Exception):
    """A request was not answered however often it was sent. The text names the request alone."""


class Page:
    """The page of one parent.

    Args:
        http: sends the requests.
        address: of the service.
        counts: counts events, by a few words.
    """

    def __init__(self, http: aiohttp.ClientSession, address: str, counts: Counter[str]) -> None:
        self._http = http
        self._address = address
        self._counts = counts
        self._token = ""
        self.session = ""

    async def begin(self) -> None:
        """Begin a conversation."""
        begun = await self._insist("POST", "/sessions", lambda: {"json": {}})
        self.session, self._token = begun["session_id"], begun["token"]

    async def say(self, text: str) -> Shown:
        """Send a message, and look at the page then. Raises StuckError."""
        body = {
            "user_message": text,
            "session_id": self.session,
            "message_id": secrets.token_hex(8),
        }
        answer = await self._insist("POST", "/chat", lambda: {"json": body})
        self._counts["messages answered"] += 1
        if answer.get("status") == "degraded":
            self._counts["answers given without the model"] += 1
        return await self.look(answer["response"])

    async def look(self, reply: str = "") -> Shown:
        """Return the content of the page. Raises StuckError."""
        state = await self._insist("GET", f"/sessions/{self.session}", dict)
        return Shown(state.get("step"), reply, bool(state.get("saved")))

    async def send_photo(self, picture: bytes) -> str:
        """Send a photo, and wait for its check; return its last state. Raises StuckError."""
        name = secrets.token_hex(8)

        def make_form() -> Mapping[str, object]:
            form = aiohttp.FormData({"session_id": self.session, "message_id": name})
            form.add_field("file", picture, filename="photo.jpg", content_type="image/jpeg")
            return {"data": form}

        sent = await self._insist("POST", "/upload_photo", make_form)
        for _ in range(_MOST_TRIES):
            answer = await self._insist("GET", f"/jobs/{sent['job_id']}", dict)
            if answer["complete"]:
                return str(answer["state"])
            await asyncio.sleep(0.5)
        raise StuckError("the photo is not checked")

    async def pay(self, link: str, choice: str) -> None:
        """Open the payment link, and press a button on the provider's page. Raises StuckError."""
        for _ in range(_MOST_TRIES):
            try:
                async with self._http.get(link) as page:
                    if page.status == 200 and not str(page.url).startswith(self._address):
                        async with self._http.post(page.url, data={"choice": choice}) as pressed:
                            if pressed.status == 200:
                                return
                    self._counts["times a payment link was opened again"] += 1
            except (aiohttp.ClientError, TimeoutError):
                self._counts["times a payment link was opened again"] += 1
            await asyncio.sleep(1.0)
        raise StuckError("the payment link does not lead to a page")

    async def _insist(
        self, method: str, path: str, make: Callable[[], Mapping[str, object]]
    ) -> dict[str, Any]:
        """Send a request until it is answered; each repetition is the same."""
        for _ in range(_MOST_TRIES):
            wait, reason = 0.5, "the connection was lost"
            try:
                async with self._http.request(
                    method,
                    self._address + path,
                    headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
                    timeout=aiohttp.ClientTimeout(total=_CLIENT_SECONDS),
                    **make(),  # type: ignore[arg-type]  # REASON: `json` or `data`, and nothing else
                ) as response:
                    answer: dict[str, Any] = await response.json()
                    if response.status < 300:
                        return answer
                    if not answer["error"]["retryable"]:
                        raise StuckError(
                            f"{method} {path.split('/')[1]}: {answer['error']['kind']}"
                        )
                    reason = _REASONS.get(response.status, f"status {response.status}")
                    wait = min(float(response.headers.get("Retry-After", "1")), _LONGEST_WAIT)
            except TimeoutError:
                reason = "no answer in time"
            except (aiohttp.ClientError, ValueError):
                pass
            self._counts[f"sent again: {reason}"] += 1
            await asyncio.sleep(wait)
        raise StuckError(f"{method} {path.split('/')[1]} is not answered")


_REASONS = {
    409: "the last message was still being answered",
    429: "that was too fast",
    503: "it cannot be answered right now",
}
