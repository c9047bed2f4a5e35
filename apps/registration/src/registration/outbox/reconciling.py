"""After a restore: compares the database with the payment provider.

A database that was restored from yesterday's backup does not know the acts since then. Nothing is done
twice, because the keys follow from the player: the provider answers with its records. Webhooks that
the provider delivered before are not sent again, so the office gets a list of cases to look up.
"""

from __future__ import annotations

from msgspec import Struct

from registration.outbox.handlers import PaymentTaker
from registration.outbox.kinds import make_payment_key
from registration.outbox.payment_events import apply_event
from registration.outbox.texts import make_link_token
from registration.providers import BillingRequest, ProviderFailure
from registration.settings import Settings
from registration.store import Database, Transaction
from registration.store.effects import EffectOf, save_effect
from registration.store.payment_state import StoredEvent
from registration.store.registrations import (
    list_registration_ids,
    load_registration,
    set_payment_request,
)
from registration.store.tasks import NewTask, open_task
from registration.store.webhooks import save_event


class Reconciled(Struct, frozen=True):
    """The findings of a comparison.

    Args:
        compared: how many registrations the provider was asked about.
        corrected: the ids of those that the database knew less about than the provider.
        unanswered: the ids of those about which the provider did not answer; compare them again.
    """

    compared: int
    corrected: tuple[str, ...]
    unanswered: tuple[str, ...]


async def reconcile(
    database: Database, payments: PaymentTaker, settings: Settings, now: float
) -> Reconciled:
    """Ask the payment provider about every registration, and restore the missing records.

    Each correction opens a task for the office. It may run at any time, and again.

    Args:
        database: the database.
        payments: the payment provider.
        settings: the season and the secret of the payment links.
        now: the time, in seconds since 1970.
    """
    ids = await database.read(lambda tx: list_registration_ids(tx, settings.season))
    corrected, unanswered = [], []
    for owner in ids:
        try:
            made = await payments.find(make_payment_key(owner))
        except ProviderFailure:
            unanswered.append(owner)
            continue
        if made is not None and await _correct(database, settings, owner, made, now):
            corrected.append(owner)
    return Reconciled(len(ids), tuple(corrected), tuple(unanswered))


async def _correct(
    database: Database, settings: Settings, owner: str, made: BillingRequest, now: float
) -> bool:
    token = make_link_token(settings, owner)
    return await database.transact(lambda tx: correct_payment(tx, owner, made, token, now))


def correct_payment(
    tx: Transaction, owner: str, made: BillingRequest, link_token: str, now: float
) -> bool:
    """Write the provider's records of a registration; whether the database knew less.

    Args:
        tx: the transaction.
        owner: the id of the registration.
        made: the billing request of its key.
        link_token: the token of its payment link.
        now: the time, in seconds since 1970.
    """
    tx.lock_row("registrations", "id", owner)
    known = load_registration(tx, owner)
    if known is None:
        return False
    news = []
    if known.billing_request != made.id:
        key = make_payment_key(owner)
        save_effect(tx, key, {"billing_request": made.id}, EffectOf(registration_id=owner), now)
        set_payment_request(tx, owner, made.id, link_token, now)
        news.append(f"it has the payment request {made.id}")
    if made.status == "fulfilled" and not known.mandate_authorised:
        event = StoredEvent(
            event_id=f"reconciled/{made.id}/{made.mandate}",
            kind="billing_requests.fulfilled",
            happened_at=now,
            registration_id=owner,
            billing_request=made.id,
            mandate=made.mandate,
            payment=made.payment,
        )
        if save_event(tx, event, now):
            apply_event(tx, event.event_id, now)
            news.append(
                f"the parent agreed to pay; look up there whether payment {made.payment} arrived"
            )
    if news:
        reason = f"The payment provider knows more than the database: {'; '.join(news)}."
        key = f"registration/{owner}/reconciled/{made.id}/{made.status}"
        open_task(tx, NewTask(key, "restored", reason, owner), now)
    return bool(news)
