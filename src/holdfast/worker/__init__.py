"""Workers: processes that drive the turns of an inbox, on any number of machines.

The inbox has the work to do, the journal the work that was done. This room must never keep a truth of
its own, and must never say that a turn has ended which the journal does not show as ended.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.journal.inbox.admitting import Admission as Admission
    from holdfast.journal.inbox.admitting import Offer as Offer
    from holdfast.journal.inbox.dispatch_engine import DispatchEngine as DispatchEngine
    from holdfast.journal.inbox.dispatch_engine import HandleJob as HandleJob
    from holdfast.journal.inbox.dispatch_engine import Job as Job
    from holdfast.journal.inbox.dispatch_engine import TransactionalEngine as TransactionalEngine
    from holdfast.journal.inbox.driving import EndedEntry as EndedEntry
    from holdfast.journal.inbox.driving import EntryOutcome as EntryOutcome
    from holdfast.journal.inbox.entries import EntryState as EntryState
    from holdfast.journal.inbox.entries import InboxEntry as InboxEntry
    from holdfast.journal.inbox.entries import Submission as Submission
    from holdfast.journal.inbox.inbox import Inbox as Inbox
    from holdfast.journal.inbox.inbox import InboxStore as InboxStore
    from holdfast.journal.inbox.inbox import QueueDepth as QueueDepth
    from holdfast.journal.inbox.job_slots import JobSlots as JobSlots
    from holdfast.journal.inbox.opening_inbox import open_inbox as open_inbox
    from holdfast.journal.inbox.queue_limits import QueueLimits as QueueLimits
    from holdfast.journal.inbox.statements import Statement as Statement
    from holdfast.journal.inbox.sweeping import StalledEntry as StalledEntry
    from holdfast.journal.inbox.token_room import TokenUse as TokenUse
    from holdfast.journal.inbox.worker_entries import WorkerEntry as WorkerEntry
    from holdfast.journal.inbox.worker_entries import WorkerInfo as WorkerInfo
    from holdfast.runtime.queued_runs.queued_run import QueuedRun as QueuedRun
    from holdfast.worker.engines.engine_opening import open_engine as open_engine
    from holdfast.worker.quarantine import QuarantineOptions as QuarantineOptions
    from holdfast.worker.worker import Worker as Worker

_HOME: dict[str, str] = {
    "Admission": "holdfast.journal.inbox.admitting",
    "DispatchEngine": "holdfast.journal.inbox.dispatch_engine",
    "EndedEntry": "holdfast.journal.inbox.driving",
    "EntryOutcome": "holdfast.journal.inbox.driving",
    "EntryState": "holdfast.journal.inbox.entries",
    "HandleJob": "holdfast.journal.inbox.dispatch_engine",
    "Inbox": "holdfast.journal.inbox.inbox",
    "InboxEntry": "holdfast.journal.inbox.entries",
    "InboxStore": "holdfast.journal.inbox.inbox",
    "Job": "holdfast.journal.inbox.dispatch_engine",
    "JobSlots": "holdfast.journal.inbox.job_slots",
    "Offer": "holdfast.journal.inbox.admitting",
    "QuarantineOptions": "holdfast.worker.quarantine",
    "QueueDepth": "holdfast.journal.inbox.inbox",
    "QueueLimits": "holdfast.journal.inbox.queue_limits",
    "QueuedRun": "holdfast.runtime.queued_runs.queued_run",
    "StalledEntry": "holdfast.journal.inbox.sweeping",
    "Statement": "holdfast.journal.inbox.statements",
    "Submission": "holdfast.journal.inbox.entries",
    "TokenUse": "holdfast.journal.inbox.token_room",
    "TransactionalEngine": "holdfast.journal.inbox.dispatch_engine",
    "Worker": "holdfast.worker.worker",
    "WorkerEntry": "holdfast.journal.inbox.worker_entries",
    "WorkerInfo": "holdfast.journal.inbox.worker_entries",
    "open_engine": "holdfast.worker.engines.engine_opening",
    "open_inbox": "holdfast.journal.inbox.opening_inbox",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
