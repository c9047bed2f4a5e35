"""The payment link and the webhooks over HTTP: from the message in the inbox to the confirmed payment."""

from __future__ import annotations

from pathlib import Path

import pytest
from apps.registration.tests.http.payer import (
    ask_for_payment,
    count_left,
    find_link,
    load,
    open_link,
    press,
    wait_status,
    wait_until,
)
from apps.registration.tests.http.prepared import BEFORE_SEASON, prepare_session
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.http.webhooks import make_webhook, send_webhook
from msgspec.structs import replace

from registration.emulators import WebhookPlan
from registration.emulators.faults import Faults
from registration.outbox.chasing import chase
from registration.providers import sign
from registration.store import Transaction
from registration.store.tasks import list_tasks

DAY = 86_400.0
PLANS = {
    "twice": WebhookPlan(copies=2),
    "late": WebhookPlan(delay=0.3, spread=0.2, seed=3),
    "in the wrong order": WebhookPlan(reverse=True),
    "before the answer": WebhookPlan(before_answer=True, reverse=True),
}


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
async def test_a_parent_pays_by_the_link_once(tmp_path: Path, plan: WebhookPlan) -> None:
    async with serve_club(tmp_path, plan=plan, clock=BEFORE_SEASON) as club:
        asked = await ask_for_payment(club)
        assert (asked.status, asked.sms_status) == ("pending_payment", "sent")
        link = find_link(club)
        await press(club, link, "pay")
        paid = await wait_status(club, "active")
        await club.providers.payments.wait_delivered()
        await wait_until(lambda: _is_idle(club))
        assert (paid.signing_fee_paid, paid.mandate_authorised) == (True, True)
        assert len(club.providers.payments.requests) == 1
        assert len(club.providers.payments.subscriptions) == 1
        link_message, confirmation = club.providers.sms.inbox
        assert link in link_message.text
        assert confirmation.text.startswith("✅ Payment confirmed! Jack Jones's registration")
        again = await open_link(club, link)
        assert (again.status, "paid already" in again.json) == (200, True)


async def _is_idle(club: Served) -> bool:
    return not await count_left(club)


async def test_each_click_opens_a_fresh_page_until_it_is_paid(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        await ask_for_payment(club)
        link = find_link(club)
        await press(club, link, "cancel")
        await press(club, link, "pay_and_fail")
        await wait_until(lambda: _has_task(club, "payment"))
        failed = await load(club)
        assert (failed.status, failed.fee_status) == ("pending_payment", "failed")
        await press(club, link, "pay")
        await wait_status(club, "active")
        assert len(club.providers.payments.requests) == 1
        assert [one.status for one in club.providers.payments.payments] == ["failed", "confirmed"]
        assert len(club.providers.sms.inbox) == 2
        assert len(club.providers.payments.subscriptions) == 1


async def _has_task(club: Served, kind: str) -> bool:
    return kind in {task.kind for task in await club.database.read(list_tasks)}


async def test_a_payment_that_is_charged_back_is_a_task_and_can_be_paid_again(
    tmp_path: Path,
) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        await ask_for_payment(club)
        link = find_link(club)
        await press(club, link, "pay")
        await wait_status(club, "active")
        (payment,) = club.providers.payments.payments
        club.providers.payments.acts.change_payment(payment.id, "charged_back")
        await wait_until(lambda: _has_task(club, "payment"))
        lost = await load(club)
        assert (lost.fee_status, lost.signing_fee_paid) == ("charged_back", False)
        assert (await open_link(club, link)).status == 302


@pytest.mark.slow  # starts a program or a server
async def test_a_late_payment_restores_a_suspended_registration(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        asked = await ask_for_payment(club)
        assert asked.payment_asked_at is not None
        late = asked.payment_asked_at + 8 * DAY
        await club.database.transact(lambda tx: chase(tx, late))
        assert (await load(club)).status == "suspended"
        await press(club, find_link(club), "pay")
        await wait_status(club, "active")


@pytest.mark.slow  # starts a program or a server
async def test_links_that_lead_nowhere_say_what_to_do(tmp_path: Path) -> None:
    faults = Faults(only="POST /v1/billing_request_flows")
    async with serve_club(tmp_path, provider_faults={"payments": faults}) as club:
        registration = await ask_for_payment(club)
        link, pages = find_link(club), []
        pages.append(await open_link(club, link[:-1] + ("a" if link[-1] != "a" else "b")))
        for fault in ("busy", "error", "drop_before", "nonsense", "refuse"):
            faults.add(fault)
            pages.append(await open_link(club, link))
        assert [page.status for page in pages] == [404, 503, 503, 503, 503, 409]
        assert all("Retry-After" in page.headers for page in pages if page.status == 503)
        for page in pages:
            assert page.headers["Content-Type"].startswith("text/html")
            text = page.json
            assert "club" in text or "again in a few minutes" in text
            assert not any(
                word in text
                for word in ("Jack", "BRQ", registration.id, "provider", "Error", link[5:])
            )
        assert await _has_task(club, "refused")


@pytest.mark.slow  # starts a program or a server
async def test_a_payment_provider_that_is_away_delays_the_message_with_the_link(
    tmp_path: Path,
) -> None:
    faults = Faults(["busy"] * 3, only="POST /v1/billing_requests$")
    time = replace(BEFORE_SEASON, job_waits=(0.05,))
    async with serve_club(tmp_path, provider_faults={"payments": faults}, clock=time) as club:
        club.session, club.token = await prepare_session(club.database, "Jack", 29)
        assert (await club.say("15")).json["routine_number"] == 31
        # The worker was woken, asks again, and sends the link.
        await wait_until(lambda: _is_idle(club))
        assert (await load(club)).status == "pending_payment"
        assert (await open_link(club, find_link(club))).status == 302
        assert len(club.providers.payments.requests) == len(club.providers.sms.inbox) == 1


async def test_only_signed_webhooks_count(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        body, signature = make_webhook(club, payment="PM1")
        for wrong in (None, "", "0" * 64, sign(body, "another secret")):
            refused = await send_webhook(club, body, wrong)
            assert (refused.status, refused.json["error"]["kind"]) == (401, "unauthorized")
        assert (await send_webhook(club, body + b" ", signature)).status == 401
        stored = await club.database.read(_list_events)
        assert stored == []
        first = await send_webhook(club, body, signature)
        second = await send_webhook(club, body, signature)
        assert (first.status, first.json["new"]) == (200, 1)
        assert (second.status, second.json["new"]) == (200, 0)


def _list_events(tx: Transaction) -> list[object]:
    return [row["event_id"] for row in tx.execute("SELECT event_id FROM webhook_events")]


@pytest.mark.slow  # starts a program or a server
async def test_a_signed_body_that_cannot_be_read_is_a_task(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        secret = club.providers.environment["REGISTRATION_WEBHOOK_SECRET"]
        nul = make_webhook(club, event="EV\0")[0]
        for body in (b"", b"<html>", b'{"events": {}}', b"[" * 50_000, nul):
            for _ in range(2):
                refused = await send_webhook(club, body, sign(body, secret))
                assert refused.status == 400
        tasks = await club.database.read(list_tasks)
        assert len(tasks) == 5
        long = b" " * 1_000_001
        assert (await send_webhook(club, long, sign(long, secret))).status == 413
