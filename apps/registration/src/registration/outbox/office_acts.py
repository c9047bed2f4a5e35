"""The acts of a person in the office: a failed job again, or the payment link once more."""

from __future__ import annotations

from registration.outbox.kinds import SEND_PAYMENT_LINK
from registration.store import Transaction
from registration.store.outbox import NewJob, enqueue, requeue_job
from registration.store.tasks import withdraw_task


def retry_failed_job(tx: Transaction, key: str, now: float) -> bool:
    """Let a job that failed be tried again, and withdraw its task; whether it had failed.

    It keeps its key, so that nothing is done twice.
    """
    if not requeue_job(tx, key, now):
        return False
    withdraw_task(tx, f"{key}/failed")
    return True


def resend_link(tx: Transaction, registration: str, request: str, now: float) -> bool:
    """Send the payment link of a registration once more; whether this request is new.

    Args:
        tx: the transaction.
        registration: the id of the registration.
        request: an id of the click, made with the page: a form that is sent twice sends one message.
        now: the time, in seconds since 1970.
    """
    key = f"registration/{registration}/sms/{request}"
    return enqueue(tx, NewJob(key, SEND_PAYMENT_LINK, {}, registration), now)
