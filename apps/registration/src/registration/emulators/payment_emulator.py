"""The emulated payment provider: its API, its hosted pages of plain HTML, and its overview for the person who plays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from registration.emulators.api import (
    ApiError,
    answer,
    check_token,
    make_app,
    read_body,
    read_key,
    show_page,
)
from registration.emulators.courier import Courier, WebhookPlan
from registration.emulators.faults import Faults, FaultyApp
from registration.emulators.ledger import Ledger
from registration.emulators.payment_acts import (
    FlowBody,
    PaymentActs,
    PaymentState,
    RequestBody,
    StoredFlow,
    StoredPayment,
    StoredRequest,
    StoredSubscription,
    SubscriptionBody,
)


class PaymentEmulator:
    """A payment provider on loopback.

    Serve `app`, and say with `send_webhooks_to` where its webhooks go.

    Args:
        token: the token that a client must send.
        webhook_secret: of the signatures.
        file: where everything is saved; None for memory.
        faults: the faults of the API.
        plan: how webhooks arrive.
        now: when something happens there, in seconds since the epoch.
    """

    def __init__(
        self,
        token: str,
        webhook_secret: str,
        *,
        file: Path | None = None,
        faults: Faults | None = None,
        plan: WebhookPlan | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._token = token
        self._ledger = Ledger(file)
        self._courier = Courier(self._ledger, webhook_secret, plan or WebhookPlan())
        self.acts = PaymentActs(self._ledger, self._courier, now)
        self.faults = faults or Faults()
        self.app = FaultyApp(make_app(self._list_routes(), self._deliver), self.faults)

    @property
    def requests(self) -> list[StoredRequest]:
        """All billing requests, oldest first."""
        return self._ledger.list_things(StoredRequest)

    @property
    def payments(self) -> list[StoredPayment]:
        """All payments, oldest first."""
        return self._ledger.list_things(StoredPayment)

    @property
    def subscriptions(self) -> list[StoredSubscription]:
        """All subscriptions, oldest first."""
        return self._ledger.list_things(StoredSubscription)

    def send_webhooks_to(self, address: str | None) -> None:
        """Send webhooks to an address from now on; with None they wait."""
        self._courier.send_to(address)

    async def wait_delivered(self, seconds: float = 10.0) -> None:
        """Wait until every webhook was accepted.

        Raises:
            TimeoutError: some are still waiting.
        """
        await self._courier.wait_delivered(seconds)

    def close(self) -> None:
        """Close the file."""
        self._ledger.close()

    def _list_routes(self) -> list[Route]:
        return [
            Route("/", self._show_overview),
            Route("/payments/{payment}", self._change_payment, methods=["POST"]),
            Route("/subscriptions/{subscription}", self._collect, methods=["POST"]),
            Route("/pay/{flow}", self._show_flow, methods=["GET"]),
            Route("/pay/{flow}", self._end_flow, methods=["POST"]),
            Route("/v1/billing_requests", self._create_request, methods=["POST"]),
            Route("/v1/billing_requests", self._find_request, methods=["GET"]),
            Route("/v1/billing_request_flows", self._create_flow, methods=["POST"]),
            Route("/v1/subscriptions", self._create_subscription, methods=["POST"]),
            Route("/v1/subscriptions", self._find_subscription, methods=["GET"]),
        ]

    @asynccontextmanager
    async def _deliver(self, _app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._courier.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _create_request(self, request: Request) -> Response:
        check_token(request, self._token)
        body = await read_body(request, RequestBody)
        made = self.acts.request(read_key(request, body), body)
        await self._courier.send_before_answer()
        return answer(made, 201)

    async def _find_request(self, request: Request) -> Response:
        check_token(request, self._token)
        found = self._ledger.find(StoredRequest, read_key(request).key)
        if found is None:
            raise ApiError(404, "not_found")
        return answer(found)

    async def _create_flow(self, request: Request) -> Response:
        check_token(request, self._token)
        flow = self.acts.begin_flow(await read_body(request, FlowBody))
        return answer({"authorisation_url": f"{request.base_url}pay/{flow.id}"}, 201)

    async def _create_subscription(self, request: Request) -> Response:
        check_token(request, self._token)
        body = await read_body(request, SubscriptionBody)
        made = self.acts.subscribe(read_key(request, body), body)
        await self._courier.send_before_answer()
        return answer(made, 201)

    async def _find_subscription(self, request: Request) -> Response:
        check_token(request, self._token)
        found = self._ledger.find(StoredSubscription, read_key(request).key)
        if found is None:
            raise ApiError(404, "not_found")
        return answer(found)

    async def _show_flow(self, request: Request) -> Response:
        flow = self._ledger.get(StoredFlow, request.path_params["flow"])
        if flow is None:
            return show_unknown()
        billing = self.acts.get_request(flow.billing_request)
        return show_flow(flow, billing, paid=self.acts.is_paid(billing))

    async def _end_flow(self, request: Request) -> Response:
        flow = request.path_params["flow"]
        match await _read_choice(request):
            case "pay":
                self.acts.pay(flow)
            case "pay_and_fail":
                self.acts.pay(flow, "failed")
            case "cancel":
                self.acts.leave(flow)
            case _:
                raise ApiError(422, "invalid")
        # A page that is loaded again must not pay again.
        return RedirectResponse(f"/pay/{flow}", 303)

    async def _show_overview(self, _request: Request) -> Response:
        return show_overview(self.requests, self.payments, self.subscriptions)

    async def _change_payment(self, request: Request) -> Response:
        outcome = _read_outcome(await _read_choice(request))
        self.acts.change_payment(request.path_params["payment"], outcome)
        return RedirectResponse("/", 303)

    async def _collect(self, request: Request) -> Response:
        outcome = _read_outcome(await _read_choice(request))
        self.acts.collect(request.path_params["subscription"], outcome)
        return RedirectResponse("/", 303)


async def _read_choice(request: Request) -> str:
    """Return the button that was pressed on a page."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    return form.get("choice", [""])[0]


def _read_outcome(choice: str) -> PaymentState:
    try:
        outcome: PaymentState = msgspec.convert(choice, PaymentState)
    except msgspec.ValidationError:
        raise ApiError(422, "invalid") from None
    return outcome


PLAY_MONEY = "<p><small>This is play money: no bank is asked, and nothing is paid.</small></p>"


def show_flow(flow: StoredFlow, request: StoredRequest, *, paid: bool) -> Response:
    """Return the hosted page of a flow, as it is now."""
    if paid:
        return show_page(
            "Thank you, this is paid", "<p>You can close this page and go back to the chat.</p>"
        )
    if request.status == "cancelled":
        return show_page("This payment is no longer needed", "<p>Please ask your club.</p>")
    if flow.state == "paid":
        text = "<p>Your bank did not accept the payment. Please use the link in your message again.</p>"
        return show_page("Your payment did not go through", text)
    if flow.state == "cancelled":
        text = "<p>Nothing was paid. Please use the link in your message when you are ready.</p>"
        return show_page("Cancelled", text)
    body = (
        f"<p>{escape(request.description)}</p><p><strong>{format_pence(request.amount)}</strong></p>"
        f'<form method="post" action="/pay/{escape(flow.id)}">'
        '<button name="choice" value="pay">Pay</button>'
        '<button name="choice" value="cancel">Cancel</button>'
        '<button name="choice" value="pay_and_fail">Pay, and let the bank refuse</button></form>'
    )
    return show_page("Your payment", body + PLAY_MONEY)


def show_unknown() -> Response:
    """Return the page of a flow that does not exist."""
    text = "<p>Please use the link in your message again.</p>"
    return show_page("This page is not known", text, 404)


def show_overview(
    requests: Sequence[StoredRequest],
    payments: Sequence[StoredPayment],
    subscriptions: Sequence[StoredSubscription],
) -> Response:
    """Return the page on which a person plays the banks."""
    asked = "".join(
        f"<article>{escape(one.id)}: {format_pence(one.amount)}, {one.status}</article>"
        for one in reversed(requests)
    )
    paid = "".join(
        f"<article>{escape(one.id)}: {format_pence(one.amount)}, {one.status}"
        + _show_buttons(f"/payments/{one.id}", "failed", "charged_back", "paid_out")
        + "</article>"
        for one in reversed(payments)
    )
    monthly = "".join(
        f"<article>{escape(one.id)}: {format_pence(one.amount)} from {one.first} to {one.last}, "
        f"{one.status}"
        + _show_buttons(f"/subscriptions/{one.id}", "confirmed", "failed")
        + "</article>"
        for one in reversed(subscriptions)
    )
    body = (
        f"{PLAY_MONEY}<h2>Billing requests</h2>{asked or 'None yet.'}"
        f"<h2>Payments</h2>{paid or 'None yet.'}"
        f"<h2>Subscriptions: take a month's payment</h2>{monthly or 'None yet.'}"
    )
    return show_page("Payments", body)


def _show_buttons(address: str, *choices: str) -> str:
    buttons = "".join(
        f'<button name="choice" value="{choice}">{choice.replace("_", " ")}</button>'
        for choice in choices
    )
    return f'<form method="post" action="{escape(address)}">{buttons}</form>'


def format_pence(amount: int) -> str:
    """Return an amount as people write it.

    >>> format_pence(4500)
    '£45.00'
    """
    return f"£{amount // 100}.{amount % 100:02}"
