"""The outbox: jobs to do outside of a turn, written in the transaction of its cause, and done by a worker.

It has no driver and no connection of its own: a program passes its own. This room must never perform a job without its
lease, and must never write the text of an exception, which may quote data of a person.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.outbox.dbapi_store import DbapiConnection as DbapiConnection
    from holdfast.outbox.dbapi_store import DbapiOutboxStore as DbapiOutboxStore
    from holdfast.outbox.job_outcomes import JobDone as JobDone
    from holdfast.outbox.job_outcomes import JobFailed as JobFailed
    from holdfast.outbox.job_outcomes import JobHandler as JobHandler
    from holdfast.outbox.job_outcomes import JobOutcome as JobOutcome
    from holdfast.outbox.job_outcomes import JobRetry as JobRetry
    from holdfast.outbox.job_outcomes import OutboxJob as OutboxJob
    from holdfast.outbox.outbox_statements import Outbox as Outbox
    from holdfast.outbox.outbox_statements import OutboxStatement as OutboxStatement
    from holdfast.outbox.outbox_worker import OutboxStore as OutboxStore
    from holdfast.outbox.outbox_worker import OutboxUnavailableError as OutboxUnavailableError
    from holdfast.outbox.outbox_worker import OutboxWorker as OutboxWorker

_HOME: dict[str, str] = {
    "DbapiConnection": "holdfast.outbox.dbapi_store",
    "DbapiOutboxStore": "holdfast.outbox.dbapi_store",
    "JobDone": "holdfast.outbox.job_outcomes",
    "JobFailed": "holdfast.outbox.job_outcomes",
    "JobHandler": "holdfast.outbox.job_outcomes",
    "JobOutcome": "holdfast.outbox.job_outcomes",
    "JobRetry": "holdfast.outbox.job_outcomes",
    "Outbox": "holdfast.outbox.outbox_statements",
    "OutboxJob": "holdfast.outbox.job_outcomes",
    "OutboxStatement": "holdfast.outbox.outbox_statements",
    "OutboxStore": "holdfast.outbox.outbox_worker",
    "OutboxUnavailableError": "holdfast.outbox.outbox_worker",
    "OutboxWorker": "holdfast.outbox.outbox_worker",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
