"""The transactions of people and programs that change the queue: cancel, drop, retry, wake."""

from __future__ import annotations

from holdfast.core.effects import find_root_run_id
from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.entries import LETTERS, RESTING, EntryState, InboxEntry
from holdfast.journal.inbox.entry_rows import to_entry, to_int
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.journal_names import digest_name


def find_entry(entry_id: int) -> Transaction[InboxEntry | None]:
    """Return an entry."""
    rows = yield Statement(f"{sql.SELECT}id = :id", {"id": entry_id})
    return to_entry(rows[0]) if rows else None


def drop_entry(entry_id: int) -> Transaction[bool]:
    """Take a turn that has not begun, that failed or is parked out of the queue; return whether it was.

    The turn of one that failed or is parked is closed already. Why it was stays with the entry.
    """
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or not (_has_not_begun(entry) or entry.state in LETTERS):
        return False
    yield from _change(entry, EntryState.DROPPED)
    if entry.state.is_queued:
        yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": -1})
    return True


def retry_entry(entry_id: int) -> Transaction[bool]:
    """Queue a turn again that failed, is parked or was dropped. Returns whether that was done."""
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or entry.state not in (*LETTERS, EntryState.DROPPED):
        return False
    yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": 1})
    yield from _change(entry, EntryState.BLOCKED)
    return True


def cancel_entry(entry_id: int, by: str) -> Transaction[EntryState | None]:
    """Cancel a turn; return its state from now on, or None if there is no such entry.

    A turn that has not begun is dropped. One that waits is admitted, for a worker that closes it. The
    worker of one that runs learns of it, and the state stays.
    """
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or entry.state.is_over:
        return None if entry is None else entry.state
    if _has_not_begun(entry):
        yield from drop_entry(entry_id)
        return EntryState.DROPPED
    yield Statement(sql.LOCK_TENANT, {"tenant": entry.tenant})
    yield Statement(sql.CANCEL, {"id": entry_id, "by": by})
    if entry.state in RESTING:
        yield from wake_entry(entry_id)
        return EntryState.READY
    yield sql.NOTIFY
    return entry.state


def wake_entry(entry_id: int) -> Transaction[bool]:
    """Let a turn that waits go on; returns whether it did wait."""
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or entry.state not in RESTING:
        return False
    yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": 1})
    yield Statement(sql.WAKE, {"id": entry_id})
    yield sql.NOTIFY
    return True


def note_answer(tenant: str, run: str, *, end: str = "") -> Transaction[None]:
    """Let the turn go on that waits in a run, or will not wait since its answer has come.

    For a journal without a database; in a database a trigger does this.

    Args:
        tenant: the tenant.
        run: the run id of the session, or that of a subagent.
        end: the status with which the turn has ended, so that it will not wait; "" if it has not.
    """
    yield sql.LOCK
    values: dict[str, object] = {"tenant": tenant, "name": digest_name(find_root_run_id(run))}
    if not end:
        yield Statement(sql.NOTE_ANSWER, values)
    elif run == find_root_run_id(run):
        yield from _end_with_turn(values, end)
    for (entry_id,) in (yield Statement(sql.WAITING_OF, values)):
        yield from wake_entry(to_int(entry_id))


def _end_with_turn(values: dict[str, object], end: str) -> Transaction[None]:
    """End the entry of a turn that was closed, if it is to be parked or was cancelled."""
    for entry_id, state in (yield Statement(sql.ENDED_WITH_TURN, {**values, "end": end})):
        yield Statement(sql.LOCK_TENANT, {"tenant": values["tenant"]})
        if state == EntryState.READY:
            yield Statement(sql.ADD_QUEUED, {"tenant": values["tenant"], "count": -1})
        yield Statement(sql.END_WITH_TURN, {"id": entry_id, "end": end})
        yield Statement(sql.UNBLOCK, values)
        yield sql.NOTIFY


def _has_not_begun(entry: InboxEntry) -> bool:
    """Whether no worker has begun it since it was queued, so that the journal has no open turn of it.

    The number of deliveries does not count here: a delivery that was handed back is not counted.
    """
    return entry.state.is_queued and not entry.worker


def _change(entry: InboxEntry, state: EntryState) -> Transaction[None]:
    yield Statement(sql.LOCK_TENANT, {"tenant": entry.tenant})
    keeps = 1 if state.is_over else 0
    change = {"id": entry.id, "state": state.value, "before": entry.state.value, "keeps": keeps}
    for tenant, name in (yield Statement(sql.CHANGE_STATE, change)):
        yield Statement(sql.UNBLOCK, {"tenant": tenant, "name": name})
    yield sql.NOTIFY
