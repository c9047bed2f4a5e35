"""The payment link of a registration, and the webhooks of the payment provider.

A link leads to a fresh page of the provider each time. A webhook is stored before it is answered, and the
worker applies it. Anybody may open a link: a page of this module must never show a name, an amount or a fault of the
inside.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from registration.flow.parts import Parts
from registration.http.bodies import read_raw
from registration.http.problems import Problem
from registration.http.state import state_of
from registration.outbox import receive_events
from registration.providers import MalformedWebhook, ProviderFailure, Refused, read_events, verify
from registration.providers.webhooks import SIGNATURE_HEADER
from registration.store import DatabaseUnavailable, Transaction
from registration.store.registrations import Registration, find_by_link
from registration.store.tasks import NewTask, open_task

_LONGEST_WEBHOOK = 1_000_000
"""Bytes of one webhook; a provider sends at most some hundred events in one."""


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/pay/{token}", pay, methods=["GET"]),
        Route("/webhooks/payments", receive, methods=["POST"]),
    ]


async def pay(request: Request) -> Response:
    """Lead to a fresh page of the payment provider."""
    parts, token = state_of(request).running.parts, request.path_params["token"]
    try:
        registration = await parts.database.read(lambda tx: find_by_link(tx, token))
        if registration is None:
            return UNKNOWN.respond()
        return await _open_page(parts, registration)
    except DatabaseUnavailable:
        return LATER.respond()


async def _open_page(parts: Parts, registration: Registration) -> Response:
    if registration.signing_fee_paid:
        return PAID.respond()
    if registration.billing_request is None:  # the worker asks for it
        return NOT_READY.respond()
    try:
        url = await parts.payments.begin_flow(registration.billing_request)
    except Refused as refused:
        if refused.reason == "already_paid":  # its webhook is still under way
            return PAID.respond()
        if refused.temporary:
            return LATER.respond()
        now, task = parts.now(), _make_task(registration.id, refused.reason)
        await parts.database.transact(lambda tx: open_task(tx, task, now))
        return CLOSED.respond()
    except ProviderFailure:
        return LATER.respond()
    return RedirectResponse(url, 302, HEADERS)


def _make_task(registration: str, reason: str) -> NewTask:
    text = f"A parent opened the payment link, and the payment provider refuses a page: {reason}."
    return NewTask(f"registration/{registration}/link/{reason}", "refused", text, registration)


async def receive(request: Request) -> Response:
    """Store the events of a webhook."""
    running = state_of(request).running
    body = await read_raw(request, _LONGEST_WEBHOOK)
    secret = running.parts.settings.webhook_secret.reveal()
    if not verify(body, request.headers.get(SIGNATURE_HEADER), secret):
        raise Problem("unauthorized", "The signature is missing or wrong.")
    now, database = running.parts.now(), running.parts.database
    try:
        events = read_events(body)
    except MalformedWebhook:
        await database.transact(lambda tx: _report_malformed(tx, body, now))
        raise Problem("bad_request", "The body is not a list of events.") from None
    new = await database.transact(lambda tx: receive_events(tx, events, now))
    running.worker.wake()
    return JSONResponse({"events": len(events), "new": new}, headers={"Cache-Control": "no-store"})


def _report_malformed(tx: Transaction, body: bytes, now: float) -> None:
    digest = hashlib.sha256(body).hexdigest()
    reason = (
        "The payment provider sent a signed webhook that cannot be read. Look up there which events"
        " it sent at this time, and whether each registration shows them."
    )
    open_task(tx, NewTask(f"webhook/malformed/{digest}", "payment", reason), now)


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1.125rem/1.5 system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
}
"""Of every answer to a payment link, which is a secret that must not be passed on."""

_LATER_SECONDS = 60


class LinkPage(Struct, frozen=True):
    """A page.

    Args:
        title: its heading.
        text: the next step, in plain words.
        status: of the response.
    """

    title: str
    text: str
    status: int = 200

    def respond(self) -> HTMLResponse:
        """Return the response."""
        title, text = escape(self.title), escape(self.text)
        body = (
            '<!doctype html><html lang="en-GB"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{title}</title><style>{_STYLE}</style></head>"
            f"<body><main><h1>{title}</h1><p>{text}</p></main></body></html>"
        )
        headers = dict(HEADERS)
        if self.status == 503:
            headers["Retry-After"] = str(_LATER_SECONDS)
        return HTMLResponse(body, self.status, headers)


PAID: Final = LinkPage(
    "Thank you, this is paid already", "There is nothing left to do. You can close this page."
)
UNKNOWN: Final = LinkPage(
    "We do not know this link",
    "Please open the link in your message again, or copy all of it. If that does not help, ask your club.",
    404,
)
CLOSED: Final = LinkPage(
    "This payment cannot be made here any more",
    "We have told the club, and they will be in touch. Nothing was paid.",
    409,
)
NOT_READY: Final = LinkPage(
    "The payment page is not ready yet",
    "Please open the link in your message again in a few minutes. The link stays the same.",
    503,
)
LATER: Final = LinkPage(
    "The payment page cannot be opened right now",
    "Nothing was paid, and nothing is lost. Please open the link in your message again in a few minutes.",
    503,
)
