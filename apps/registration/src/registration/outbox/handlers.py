"""The handlers of jobs that ask providers: payments, messages and subscriptions.

A provider makes one thing for a key, so that a job is tried again with the same request. If it is
refused, the provider is asked for the object of the key: the first request may have been sent by
another process, or in a turn, with words that were corrected since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.outbox import JobDone, JobFailed, JobOutcome, JobRetry
from registration.club.fees import plan_payments
from registration.outbox import kinds
from registration.outbox.kinds import make_link_key
from registration.outbox.outcomes import WAITS, Done, Handler, notify_office
from registration.outbox.payment_events import make_event_handler
from registration.outbox.texts import (
    MAIL,
    SMS,
    TO_CLUB,
    describe_payment,
    fill_text,
    make_link_message,
    make_link_token,
    to_international,
)
from registration.providers import (
    BillingRequest,
    ProviderFailure,
    Refused,
    SentMessage,
    Subscription,
    Unanswered,
)
from registration.settings import Settings
from registration.store import Database, Transaction
from registration.store.effects import EffectOf, save_effect
from registration.store.outbox import Job, NewJob, enqueue
from registration.store.registrations import (
    Registration,
    load_registration,
    save_subscription,
    set_payment_request,
    update_registration,
)

T = TypeVar("T")

LAST_COMMON_DAY = 28  # later days are the last day of shorter months


class SmsSender(Protocol):
    """The part of the SMS provider that the handlers need."""

    async def send(self, key: str, to: str, text: str) -> str:
        """Send a message, once for each key."""

    async def find(self, key: str) -> SentMessage | None:
        """Return the message of a key."""


class MailSender(Protocol):
    """The part of the mail provider that the handlers need."""

    async def send(self, key: str, to: str, subject: str, text: str) -> str:
        """Send an e-mail, once for each key."""

    async def find(self, key: str) -> SentMessage | None:
        """Return the e-mail of a key."""


class PaymentTaker(Protocol):
    """The part of the payment provider that the handlers need."""

    async def request(
        self, key: str, amount: int, description: str, metadata: Mapping[str, str]
    ) -> BillingRequest:
        """Create a billing request, once for each key."""

    async def find(self, key: str) -> BillingRequest | None:
        """Return the billing request of a key."""

    async def subscribe(
        self, key: str, mandate: str, amount: int, *, day: int, first: date, last: date
    ) -> Subscription:
        """Create a subscription, once for each key."""

    async def find_subscription(self, key: str) -> Subscription | None:
        """Return the subscription of a key."""


class Desk(Struct, frozen=True, kw_only=True):
    """The parts that the handlers work with.

    Args:
        settings: the club, its fees and its address.
        database: where registrations are.
        payments: the payment provider.
        sms: the SMS provider.
        mail: the mail provider.
        now: returns the time in seconds since 1970.
    """

    settings: Settings
    database: Database
    payments: PaymentTaker
    sms: SmsSender
    mail: MailSender
    now: Callable[[], float]


Act = Callable[[Job, Registration], Awaitable[JobOutcome]]


def make_handlers(desk: Desk, waits: tuple[float, ...] = WAITS) -> dict[str, Handler]:
    """Return the handlers of all jobs but those of photos, by their kind.

    Args:
        desk: the parts that they work with.
        waits: seconds before each further attempt at a message. A job about money is tried twice
            more, after longer waits.
    """
    longer = (*waits, waits[-1] * 4, waits[-1] * 12)
    return {
        kinds.APPLY_PAYMENT_EVENT: make_event_handler(desk.database, desk.now),
        kinds.REQUEST_PAYMENT: replace(_make_payment_handler(desk), waits=longer),
        kinds.SEND_PAYMENT_LINK: replace(_make_sms_handler(desk, _write_link), waits=waits),
        kinds.SEND_SMS: replace(_make_sms_handler(desk, _write_sms), waits=waits),
        kinds.SEND_MAIL: replace(_make_mail_handler(desk), waits=waits),
        kinds.CREATE_SUBSCRIPTION: replace(_make_subscription_handler(desk), waits=longer),
    }


def read_failure(failure: ProviderFailure) -> JobOutcome:
    """Return the outcome of a job whose provider refuses or does not answer."""
    wait = failure.retry_after or 0.0
    if isinstance(failure, Unanswered):
        return JobRetry(str(failure), wait, in_doubt=True)
    if isinstance(failure, Refused) and failure.temporary:
        return JobRetry(str(failure), wait)
    return JobFailed(str(failure))


def _make_payment_handler(desk: Desk) -> Handler:
    settings = desk.settings

    async def request(job: Job, registration: Registration) -> JobOutcome:
        metadata = {"registration": registration.id}
        amount, description = settings.signing_fee, describe_payment(settings)
        asked = desk.payments.request(job.key, amount, description, metadata)
        made = await _make_once(asked, lambda: desk.payments.find(job.key))
        return Done({"billing_request": made.id}, "delivered")

    def finish(tx: Transaction, job: Job, outcome: JobDone | JobFailed, now: float) -> None:
        notify_office(tx, job, outcome, now)
        if isinstance(outcome, JobDone) and job.registration_id is not None:
            owner = job.registration_id
            of = EffectOf(job.session_id, owner)
            held = save_effect(tx, job.key, outcome.result, of, now)
            token = make_link_token(settings, owner)
            set_payment_request(tx, owner, held["billing_request"], token, now)
            # Before there was a request there was nothing to pay, and so no message was sent.
            enqueue(tx, NewJob(make_link_key(owner), kinds.SEND_PAYMENT_LINK, {}, owner), now)

    return Handler(_for_registration(desk, request), finish)


def _write_link(desk: Desk, job: Job, registration: Registration) -> str:  # noqa: ARG001 -- as _write_sms
    return make_link_message(desk.settings, registration.id, registration.answers)


def _write_sms(desk: Desk, job: Job, registration: Registration) -> str:
    return fill_text(SMS[str(job.payload["template"])], desk.settings, registration)


def _make_sms_handler(desk: Desk, write: Callable[[Desk, Job, Registration], str]) -> Handler:
    async def send(job: Job, registration: Registration) -> JobOutcome:
        phone = to_international(str(registration.answers.get("parent_phone") or ""))
        sending = desk.sms.send(job.key, phone, write(desk, job, registration))
        return Done({"id": await _send_once(sending, lambda: desk.sms.find(job.key))})

    def finish(tx: Transaction, job: Job, outcome: JobDone | JobFailed, now: float) -> None:
        notify_office(tx, job, outcome, now)
        if job.registration_id is not None:
            status = "sent" if isinstance(outcome, JobDone) else "failed"
            update_registration(tx, job.registration_id, now, sms_status=status)

    return Handler(_for_registration(desk, send), finish)


def _make_mail_handler(desk: Desk) -> Handler:
    async def send(job: Job, registration: Registration) -> JobOutcome:
        template = str(job.payload["template"])
        subject, text = (fill_text(part, desk.settings, registration) for part in MAIL[template])
        parent = str(registration.answers.get("parent_email") or "")
        receiver = desk.settings.club_mail if template in TO_CLUB else parent
        sending = desk.mail.send(job.key, receiver, subject, text)
        return Done({"id": await _send_once(sending, lambda: desk.mail.find(job.key))})

    return Handler(_for_registration(desk, send))


def _make_subscription_handler(desk: Desk) -> Handler:
    async def subscribe(job: Job, registration: Registration) -> JobOutcome:
        authorised = date.fromisoformat(str(job.payload["authorised_on"]))
        day = registration.payment_day or 1
        plan = plan_payments(day, authorised, registration.season)
        if plan is None:
            return JobFailed("no payment day is left in the season")
        asked = desk.payments.subscribe(
            job.key,
            str(job.payload["mandate"]),
            registration.monthly_pence,
            day=day if day <= LAST_COMMON_DAY else -1,
            first=plan.first,
            last=plan.last,
        )
        made = await _make_once(asked, lambda: desk.payments.find_subscription(job.key))
        return Done({"id": made.id}, "delivered")

    def finish(tx: Transaction, job: Job, outcome: JobDone | JobFailed, now: float) -> None:
        notify_office(tx, job, outcome, now)
        if isinstance(outcome, JobDone) and job.registration_id is not None:
            save_subscription(tx, job.registration_id, str(outcome.result["id"]), now)

    return Handler(_for_registration(desk, subscribe), finish)


async def _make_once(asked: Awaitable[T], find: Callable[[], Awaitable[T | None]]) -> T:
    """Return the new object, or the one that the key made before if it is refused now."""
    try:
        return await asked
    except Refused as refusal:
        if refusal.temporary:
            raise
        made = await find()
        if made is None:
            raise
        return made


async def _send_once(
    sending: Awaitable[str], find: Callable[[], Awaitable[SentMessage | None]]
) -> str:
    async def find_id() -> str | None:
        sent = await find()
        return None if sent is None else sent.id

    return await _make_once(sending, find_id)


def _for_registration(desk: Desk, act: Act) -> Callable[[Job], Awaitable[JobOutcome]]:
    async def perform(job: Job) -> JobOutcome:
        owner = job.registration_id or ""
        registration = await desk.database.read(lambda tx: load_registration(tx, owner))
        if registration is None:
            # A turn saves it soon; one that is deleted takes its jobs with it.
            return JobRetry("the registration does not exist")
        try:
            return await act(job, registration)
        except ProviderFailure as failure:
            return read_failure(failure)

    return perform
