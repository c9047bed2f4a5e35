"""The work outside of a turn: jobs that a worker performs with the key under which they were written.

A job is written in the transaction of its cause. This room must never act on a provider without a
key, and must never log personal data.
"""

from registration.outbox.chasing import chase
from registration.outbox.handlers import Desk, make_handlers, read_failure
from registration.outbox.office_acts import resend_link, retry_failed_job
from registration.outbox.outcomes import Done, Handler, notify_office
from registration.outbox.payment_events import receive_events
from registration.outbox.reconciling import reconcile
from registration.outbox.upkeep import Upkeep
from registration.outbox.worker import Worker

__all__ = [
    "Desk",
    "Done",
    "Handler",
    "Upkeep",
    "Worker",
    "chase",
    "make_handlers",
    "notify_office",
    "read_failure",
    "receive_events",
    "reconcile",
    "resend_link",
    "retry_failed_job",
]
