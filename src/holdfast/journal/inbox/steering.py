"""The transactions of people and programs that change what is queued: cancel, drop, retry, wake."""

from __future__ import annotations

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.entry_rows import to_entry
from holdfast.journal.inbox.statements import Statement, Transaction


def find_entry(entry_id: int) -> Transaction[InboxEntry | None]:
    """Return an entry."""
    rows = yield Statement(f"{sql.SELECT}id = :id", {"id": entry_id})
    return to_entry(rows[0]) if rows else None


def drop_entry(entry_id: int) -> Transaction[bool]:
    """Take a turn that has not begun, or that failed, out of the queue. Returns whether that was done."""
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or not (entry.state.is_queued or entry.state is EntryState.FAILED):
        return False
    yield from _change(entry, EntryState.DROPPED)
    if entry.state.is_queued:
        yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": -1})
    return True


def retry_entry(entry_id: int) -> Transaction[bool]:
    """Queue a turn again that failed or was dropped. Returns whether that was done."""
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or entry.state not in (EntryState.FAILED, EntryState.DROPPED):
        return False
    yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": 1})
    yield from _change(entry, EntryState.BLOCKED)
    return True


def cancel_entry(entry_id: int, by: str) -> Transaction[EntryState | None]:
    """Cancel a turn; return its state from now on, or None if there is no such entry.

    A turn that has not begun is dropped. One that waits is admitted, for a worker that closes it. The
    worker of one that runs is told, and the state stays.
    """
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or entry.state.is_over:
        return None if entry is None else entry.state
    if entry.state.is_queued and not entry.turn:
        yield from drop_entry(entry_id)
        return EntryState.DROPPED
    yield Statement(sql.CANCEL, {"id": entry_id, "by": by})
    if entry.state is EntryState.WAITING:
        yield from wake_entry(entry_id)
        return EntryState.READY
    yield sql.NOTIFY
    return entry.state


def wake_entry(entry_id: int) -> Transaction[bool]:
    """Let a turn that waits go on; returns whether it did wait."""
    yield sql.LOCK
    entry = yield from find_entry(entry_id)
    if entry is None or entry.state is not EntryState.WAITING:
        return False
    # In the order in which an answer in the journal takes these locks.
    yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": 1})
    if not (yield Statement(sql.WAKE, {"id": entry_id})):
        yield Statement(sql.ADD_QUEUED, {"tenant": entry.tenant, "count": -1})
        return False
    yield sql.NOTIFY
    return True


def _change(entry: InboxEntry, state: EntryState) -> Transaction[None]:
    yield Statement(sql.LOCK_TENANT, {"tenant": entry.tenant})
    change = {"id": entry.id, "state": state.value, "before": entry.state.value}
    for tenant, name in (yield Statement(sql.CHANGE_STATE, change)):
        yield Statement(sql.UNBLOCK, {"tenant": tenant, "name": name})
    yield sql.NOTIFY
