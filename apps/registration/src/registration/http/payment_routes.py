"""The payment link of a registration, and the webhooks of the payment provider.

A link leads to a fresh page of the provider each time. A webhook is stored before it is answered, and the
worker applies it. This module must never show a parent what went wrong inside.
"""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from registration.flow.parts import Parts
from registration.http import link_pages
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
            return link_pages.UNKNOWN.respond()
        return await _open_page(parts, registration)
    except DatabaseUnavailable:
        return link_pages.LATER.respond()


async def _open_page(parts: Parts, registration: Registration) -> Response:
    if registration.signing_fee_paid:
        return link_pages.PAID.respond()
    if registration.billing_request is None:  # the worker asks for it
        return link_pages.NOT_READY.respond()
    try:
        url = await parts.payments.begin_flow(registration.billing_request)
    except Refused as refused:
        if refused.reason == "already_paid":  # its webhook is still under way
            return link_pages.PAID.respond()
        if refused.temporary:
            return link_pages.LATER.respond()
        now, task = parts.now(), _make_task(registration.id, refused.reason)
        await parts.database.transact(lambda tx: open_task(tx, task, now))
        return link_pages.CLOSED.respond()
    except ProviderFailure:
        return link_pages.LATER.respond()
    return RedirectResponse(url, 302, link_pages.HEADERS)


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
        await database.transact(lambda tx: _tell_of_malformed(tx, body, now))
        raise Problem("bad_request", "The body is not a list of events.") from None
    new = await database.transact(lambda tx: receive_events(tx, events, now))
    running.worker.wake()
    return JSONResponse({"events": len(events), "new": new}, headers={"Cache-Control": "no-store"})


def _tell_of_malformed(tx: Transaction, body: bytes, now: float) -> None:
    digest = hashlib.sha256(body).hexdigest()
    reason = (
        "The payment provider sent a signed webhook that cannot be read. Look up there which events"
        " it sent at this time, and whether each registration shows them."
    )
    open_task(tx, NewTask(f"webhook/malformed/{digest}", "payment", reason), now)
