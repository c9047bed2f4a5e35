"""Words the queue, its limits and its workers for the terminal, one line each.

This module must never print a message of a turn.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import shorten
from holdfast.cli.times import format_age, format_time

if TYPE_CHECKING:
    from holdfast.journal.inbox.entries import InboxEntry
    from holdfast.journal.inbox.inbox import QueueDepth
    from holdfast.journal.inbox.queue_limits import QueueLimits
    from holdfast.journal.inbox.worker_entries import WorkerEntry

_NAMES = {
    "running": "running",
    "queued": "queued",
    "turns_per_day": "turns per day",
    "tokens_per_day": "tokens per day",
}


def show_tenant(tenant: str) -> str:
    """Return the tenant with two spaces after it; nothing for the one without a name."""
    return f"tenant {shorten(tenant, 40)}  " if tenant else ""


def describe_depth(depth: QueueDepth) -> str:
    """Describe how many entries of a tenant are in a state.

    >>> from holdfast.journal.inbox.entries import EntryState
    >>> from holdfast.journal.inbox.inbox import QueueDepth
    >>> describe_depth(QueueDepth("acme", EntryState.READY, 3, 12.0))
    'tenant acme  ready 3, the oldest 12 s'
    """
    age = format_age(depth.oldest_seconds)
    return f"{show_tenant(depth.tenant)}{depth.state.value} {depth.count}, the oldest {age}"


def describe_entry(entry: InboxEntry) -> str:
    """Describe an entry, with why it failed."""
    parts = [
        str(entry.id),
        f"{show_tenant(entry.tenant)}{entry.state.value}",
        f"agent {shorten(entry.agent, 40)}",
        f"session {shorten(entry.session, 60)}",
        f"since {format_age(time.time() - entry.changed_at)}",
    ]
    if entry.turn:
        parts.append(f"turn {entry.turn}")
    if entry.error:
        parts.append(shorten(entry.error, 200))
    return "  ".join(parts)


def describe_worker(worker: WorkerEntry) -> str:
    """Describe a worker."""
    info = worker.info
    alive = "isolating" if info.is_isolating else "alive"  # it drives one turn alone
    state = "stopping" if info.is_stopping else alive if worker.is_alive else "gone"
    tenants = f"  tenants {shorten(', '.join(info.tenants), 80)}" if info.tenants else ""
    return (
        f"{info.id}  {state}  {shorten(info.host, 40)}:{info.process}  "
        f"{worker.driving} of {info.slots}  {info.engine}  {shorten(', '.join(info.agents), 80)}"
        f"{tenants}  seen {format_time(worker.seen_at)}"
    )


def describe_limits(scope: str, limits: QueueLimits) -> str:
    """Describe the limits of a scope.

    >>> from holdfast.journal.inbox.queue_limits import QueueLimits
    >>> describe_limits("all", QueueLimits(running=4, is_paused=True))
    'all  running 4, paused'
    >>> describe_limits("tenant", QueueLimits())
    'tenant  no limits'
    """
    parts = [
        f"{words} {value}"
        for name, words in _NAMES.items()
        if (value := getattr(limits, name)) is not None
    ]
    parts += ["paused"] if limits.is_paused else []
    parts += ["draining"] if limits.is_draining else []
    return f"{shorten(scope, 80)}  {', '.join(parts) or 'no limits'}"
