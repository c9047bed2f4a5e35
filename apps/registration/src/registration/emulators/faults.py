"""Faults of an emulated provider: by script, or by chance from a seed."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, deque
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registration.emulators.serving import drop_connection

Fault = Literal[
    "refuse",  # says no for good
    "busy",  # says no for now
    "error",  # fails before it acts
    "error_after",  # acts, then fails
    "drop_before",  # closes the connection before it acts
    "drop_after",  # acts, then closes the connection
    "late",  # acts, then answers late
    "late_act",  # acts late
    "nonsense",  # acts, then answers a page of HTML
]

# A refusal for good is no accident: it happens by script only.
CHAOS: tuple[Fault, ...] = (
    "busy",
    "error",
    "error_after",
    "drop_before",
    "drop_after",
    "late",
    "late_act",
    "nonsense",
)


class FaultHappened(Struct, frozen=True):
    """A fault that a client met."""

    request: str
    fault: Fault


class Faults:
    """Decides which request meets a fault.

    A fault by chance depends on the seed, the request, its idempotency key, and how often it was
    sent. It does not depend on other requests at the time.

    Args:
        script: one entry for each request, in order of arrival; None is a request without a fault.
        chance: how likely a request meets a fault after the script, from 0 to 1.
        seed: of the chance.
        kinds: the faults by chance.
        late: how many seconds "late" and "late_act" wait.
        only: a pattern of the requests that count, such as "POST /v1/subscriptions".

    >>> faults = Faults(["busy", None], only="POST /v1/messages")
    >>> [faults.take("POST", "/v1/messages", "key") for _ in range(3)]
    ['busy', None, None]
    """

    def __init__(
        self,
        script: Sequence[Fault | None] = (),
        *,
        chance: float = 0.0,
        seed: int = 0,
        kinds: Sequence[Fault] = CHAOS,
        late: float = 1.0,
        only: str = "",
    ) -> None:
        if not 0 <= chance <= 1:
            raise ValueError("chance is a number from 0 to 1")
        self._script = deque(script)
        self._chance = chance
        self._seed = seed
        self._kinds = tuple(kinds)
        self._only = re.compile(only)
        self._sent: Counter[str] = Counter()
        self.late = late
        self.happened: list[FaultHappened] = []
        self.received: Counter[str] = Counter()  # requests, by their method

    def add(self, *script: Fault | None) -> None:
        """Append to the script."""
        self._script.extend(script)

    def take(self, method: str, path: str, key: str) -> Fault | None:
        """Return the fault that this request meets, and count it."""
        request = f"{method} {path}"
        self.received[method] += 1
        if not self._only.match(request):
            return None
        fault = self._script.popleft() if self._script else self._draw(f"{request} {key}")
        if fault is not None:
            self.happened.append(FaultHappened(request, fault))
        return fault

    async def wait(self) -> None:
        """Wait until a late request goes on. Subclasses may wait for something else than time."""
        await asyncio.sleep(self.late)

    def _draw(self, request: str) -> Fault | None:
        if not self._chance:
            return None
        self._sent[request] += 1
        rng = random.Random(f"{self._seed} {request} {self._sent[request]}")
        return rng.choice(self._kinds) if rng.random() < self._chance else None


class FaultyApp:
    """An application whose API, the paths under `/v1/`, meets faults. Its pages do not.

    Args:
        app: the application that works.
        faults: which requests meet which fault.
    """

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self.faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        fault = None
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            key = dict(scope["headers"]).get(b"idempotency-key", b"").decode("latin-1")
            fault = self.faults.take(scope["method"], scope["path"], key)
        match fault:
            case None:
                await self._app(scope, receive, send)
            case "refuse":
                await _send_error(send, 422, "refused")
            case "busy":
                await _send_error(send, 429, "busy")
            case "error":
                await _send_error(send, 500, "internal")
            case "drop_before":
                await drop_connection(scope, receive, send)
            case "late_act":
                # Read first: the client may be gone when the application asks for the body.
                body = await _read_whole(receive)
                await self.faults.wait()
                await self._app(scope, _repeat(body), send)
            case _:
                await self._act_and_fail(fault, scope, receive, send)

    async def _act_and_fail(
        self,
        fault: Literal["error_after", "drop_after", "late", "nonsense"],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        await self._app(scope, receive, keep)
        match fault:
            case "error_after":
                await _send_error(send, 500, "internal")
            case "drop_after":
                await drop_connection(scope, receive, send)
            case "nonsense":
                page = b"<html><body>Our service is taking a short break.</body></html>"
                await _send_answer(send, 200, "text/html", page)
            case "late":
                await self.faults.wait()
                for message in answer:
                    await send(message)


async def _read_whole(receive: Receive) -> bytes:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _repeat(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _send_error(send: Send, status: int, kind: str) -> None:
    body = b'{"error":{"kind":"%s"}}' % kind.encode()
    await _send_answer(send, status, "application/json", body)


async def _send_answer(send: Send, status: int, kind: str, body: bytes) -> None:
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 429:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
