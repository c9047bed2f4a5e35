"""The pages of the emulated payment provider: plain HTML with forms."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from starlette.responses import Response

from registration.emulators.api import show_page
from registration.emulators.payment_records import (
    StoredFlow,
    StoredPayment,
    StoredRequest,
    StoredSubscription,
)

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
