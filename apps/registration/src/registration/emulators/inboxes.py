"""The emulated SMS and mail providers, whose inboxes can be read as a page and as JSON."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registration.emulators.api import (
    ApiError,
    answer,
    check_token,
    make_app,
    make_id,
    read_body,
    read_key,
    show_page,
)
from registration.emulators.faults import Faults, FaultyApp
from registration.emulators.ledger import IdempotencyKey, Ledger
from registration.providers import SentMessage
from registration.providers.messages import MessageState

# Of the numbers that are set aside for plays and films: each SMS to it is refused.
REFUSED_NUMBER = "+447700900999"
# As above: each SMS to it is accepted, and then it fails.
FAILING_NUMBER = "+447700900998"
# Of the domains that are set aside for examples: each mail to it is refused.
REFUSED_DOMAIN = "refused.example"

LINK = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)]")


class InboxMessage(Struct, frozen=True):
    """A message that arrived."""

    id: str
    key: str
    to: str
    subject: str | None
    text: str
    at: datetime

    def __repr__(self) -> str:
        return f"InboxMessage({self.id!r})"


class SmsBody(Struct, frozen=True):
    """The body of `POST /v1/messages`."""

    to: Annotated[str, Meta(pattern=r"^\+[1-9][0-9]{7,14}$")]
    text: Annotated[str, Meta(min_length=1, max_length=1600)]


class MailBody(Struct, frozen=True):
    """The body of `POST /v1/mails`."""

    to: Annotated[str, Meta(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]
    subject: Annotated[str, Meta(pattern=r"^[^\r\n]{1,200}$")]
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]


class InboxEmulator:
    """A provider on loopback that puts each message into an inbox.

    Args:
        token: the token that a client must send.
        file: where everything is saved; None for memory.
        faults: the faults of the API.
        now: seconds since the epoch.
    """

    PATH: ClassVar[str]
    TITLE: ClassVar[str]
    BODY: ClassVar[type[SmsBody | MailBody]]

    def __init__(
        self,
        token: str,
        *,
        file: Path | None = None,
        faults: Faults | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._token = token
        self._ledger = Ledger(file)
        self._now = now
        self.faults = faults or Faults()
        routes = [
            Route("/inbox", self._show_inbox),
            Route(self.PATH, self._receive, methods=["POST"]),
            Route(self.PATH, self._find, methods=["GET"]),
        ]
        self.app = FaultyApp(make_app(routes), self.faults)

    @property
    def inbox(self) -> list[InboxMessage]:
        """All messages, oldest first."""
        return self._ledger.list_things(InboxMessage)

    def close(self) -> None:
        """Close the file."""
        self._ledger.close()

    def _is_refused(self, to: str) -> bool:
        raise NotImplementedError

    def _read_state(self, message: InboxMessage) -> MessageState:
        raise NotImplementedError

    async def _receive(self, request: Request) -> Response:
        check_token(request, self._token)
        body = await read_body(request, self.BODY)
        message = self._save(read_key(request, body), body)
        return answer(SentMessage(message.id, "sent"), 201)

    def _save(self, key: IdempotencyKey, body: SmsBody | MailBody) -> InboxMessage:
        with self._ledger.change():
            known = self._ledger.find_same(InboxMessage, key)
            if known is not None:
                return known
            if self._is_refused(body.to):
                raise ApiError(422, "receiver_refused")
            subject = body.subject if isinstance(body, MailBody) else None
            at = datetime.fromtimestamp(self._now(), UTC)
            message = InboxMessage(make_id("MSG"), key.key, body.to, subject, body.text, at)
            self._ledger.add(message, key)
        return message

    async def _find(self, request: Request) -> Response:
        check_token(request, self._token)
        found = self._ledger.find(InboxMessage, read_key(request).key)
        if found is None:
            raise ApiError(404, "not_found")
        return answer(SentMessage(found.id, self._read_state(found)))

    async def _show_inbox(self, request: Request) -> Response:
        messages = list(reversed(self.inbox))
        if "text/html" not in request.headers.get("Accept", ""):
            return answer(messages)
        shown = "".join(_show_message(message) for message in messages)
        return show_page(self.TITLE, shown or "<p>No message yet.</p>", refresh=3)


class SmsEmulator(InboxEmulator):
    """An SMS provider on loopback.

    It refuses each message to `+447700900999`, and does not deliver those to `+447700900998`.
    """

    PATH = "/v1/messages"
    TITLE = "Text messages"
    BODY = SmsBody

    def _is_refused(self, to: str) -> bool:
        return to == REFUSED_NUMBER

    def _read_state(self, message: InboxMessage) -> MessageState:
        return "failed" if message.to == FAILING_NUMBER else "delivered"


class MailEmulator(InboxEmulator):
    """A mail provider on loopback. It refuses each mail to `refused.example`."""

    PATH = "/v1/mails"
    TITLE = "E-mails"
    BODY = MailBody

    def _is_refused(self, to: str) -> bool:
        return to.lower().endswith("@" + REFUSED_DOMAIN)

    def _read_state(self, message: InboxMessage) -> MessageState:  # noqa: ARG002 - REASON: the port
        return "delivered"


def _show_message(message: InboxMessage) -> str:
    subject = f"<strong>{escape(message.subject)}</strong>" if message.subject else ""
    at = message.at.strftime("%H:%M:%S")
    return (
        f"<article><small>To {escape(message.to)} at {at} UTC</small><br>{subject}"
        f"<pre>{link_addresses(message.text)}</pre></article>"
    )


def link_addresses(text: str) -> str:
    """Return plain text as HTML in which addresses are links.

    >>> link_addresses("Pay <here>: https://pay.example/a?b=1&c=2.")
    'Pay &lt;here&gt;: <a href="https://pay.example/a?b=1&amp;c=2">https://pay.example/a?b=1&amp;c=2</a>.'
    """
    html = ""
    end = 0
    for found in LINK.finditer(text):
        address = escape(found.group())
        html += escape(text[end : found.start()]) + f'<a href="{address}">{address}</a>'
        end = found.end()
    return html + escape(text[end:])
