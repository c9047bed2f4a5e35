"""The statements of the inbox. SQLite and PostgreSQL understand every one; `:now` is the time.

`LOCK` is held by one transaction at a time that admits turns or changes what is admitted. Whoever needs
it takes it first, then the row of a tenant, then entries, so that no two wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.journal.inbox.statements import Statement

LOCK: Final = Statement("-- lock")
"""Takes the lock of the inbox until the transaction ends; each database has a way of its own."""

NOTIFY: Final = Statement("-- notify")
"""Wakes the workers once the transaction is committed; each database has a way of its own."""

NOW: Final = Statement("SELECT :now")

COLUMNS: Final = (
    "id, tenant, agent, session, request, state, priority, due_at, created_at, changed_at,"
    " deliveries, worker, turn, error, made_by, cancelled_by"
)
"""The columns of an entry without its body."""

SELECT: Final = f"SELECT {COLUMNS}, body FROM holdfast_inbox WHERE "  # noqa: S608  # REASON: made of constants

FIND_BY_REQUEST: Final = (
    f"SELECT {COLUMNS}, body, digest FROM holdfast_inbox"  # noqa: S608  # REASON: as above
    " WHERE tenant = :tenant AND request = :request"
)

FIND_ACTIVE: Final = (
    f"{SELECT}tenant = :tenant AND session_name = :name"
    " AND state IN ('ready', 'admitted', 'waiting')"
)

LIMITS_OF: Final = (
    "SELECT scope, limits FROM holdfast_inbox_limits"
    " WHERE scope IN ('all', 'tenant', :tenant_scope, :agent_scope)"
)

USAGE: Final = (
    "SELECT turns, tokens FROM holdfast_inbox_usage WHERE tenant = :tenant AND day = :day"
)

ADD_USAGE: Final = """
INSERT INTO holdfast_inbox_usage AS known (tenant, day, turns, tokens)
VALUES (:tenant, :day, :turns, :tokens)
ON CONFLICT (tenant, day) DO UPDATE
SET turns = known.turns + excluded.turns, tokens = known.tokens + excluded.tokens
RETURNING turns, tokens
"""

COUNT_QUEUED: Final = """
INSERT INTO holdfast_inbox_tenants AS known (tenant, queued) VALUES (:tenant, 1)
ON CONFLICT (tenant) DO UPDATE SET queued = known.queued + 1
RETURNING queued
"""

COUNT_ALL_QUEUED: Final = "SELECT coalesce(sum(queued), 0) FROM holdfast_inbox_tenants"

COUNT_LATELY_DONE: Final = """
SELECT count(*) FROM holdfast_inbox
WHERE state IN ('done', 'failed', 'dropped') AND changed_at > :now - 60
"""

INSERT: Final = """
INSERT INTO holdfast_inbox (tenant, agent, session, session_name, request, digest, body, state,
  priority, due_at, created_at, changed_at, made_by)
SELECT :tenant, :agent, :session, :name, :request, :digest, :body,
  CASE WHEN :due_at > :now THEN 'scheduled'
    WHEN EXISTS (SELECT 1 FROM holdfast_inbox WHERE tenant = :tenant AND session_name = :name
      AND state IN ('ready', 'admitted', 'waiting')) THEN 'blocked'
    ELSE 'ready' END,
  :priority, :due_at, :now, :now, :made_by
WHERE true
ON CONFLICT (tenant, request) DO NOTHING
RETURNING id
"""

LOCK_TENANT: Final = "UPDATE holdfast_inbox_tenants SET queued = queued WHERE tenant = :tenant"
"""Keeps other transactions from changing the queue of a tenant."""

ADD_QUEUED: Final = (
    "UPDATE holdfast_inbox_tenants SET queued = queued + :count WHERE tenant = :tenant"
)

FACTS: Final = """
SELECT 'limits', scope, limits, 0 FROM holdfast_inbox_limits
UNION ALL
SELECT 'worker', id, info, 0 FROM holdfast_workers WHERE seen_at > :now - :seconds
UNION ALL
SELECT 'admitted', tenant, agent, count(*) FROM holdfast_inbox
WHERE state = 'admitted' GROUP BY tenant, agent
"""

CANDIDATES: Final = """
SELECT tenant, served FROM holdfast_inbox_tenants WHERE queued > 0
ORDER BY served, tenant LIMIT :limit OFFSET :offset
"""

READY: Final = """
SELECT id, priority FROM holdfast_inbox
WHERE state = 'ready' AND tenant = :tenant AND agent = :agent
ORDER BY priority DESC, id LIMIT :limit
"""

SERVE: Final = """
UPDATE holdfast_inbox_tenants SET queued = queued - :count, served = :now WHERE tenant = :tenant
"""

BEGIN: Final = f"""
UPDATE holdfast_inbox SET worker = :worker, deliveries = deliveries + 1, changed_at = :now
WHERE id = :id AND state = 'admitted'
  AND (worker = '' OR worker = :worker OR NOT EXISTS (
    SELECT 1 FROM holdfast_workers WHERE id = worker AND seen_at > :now - :seconds))
RETURNING {COLUMNS}, body
"""  # noqa: S608  # REASON: as above

END: Final = """
UPDATE holdfast_inbox SET state = :state, worker = '', error = :error, changed_at = :now,
  turn = CASE WHEN :turn > 0 THEN :turn ELSE turn END,
  due_at = CASE WHEN :state IN ('waiting', 'scheduled') THEN :due_at ELSE due_at END,
  cancelled_by = CASE WHEN :state IN ('waiting', 'scheduled') THEN cancelled_by END
WHERE id = :id AND state = 'admitted' AND worker = :worker
RETURNING tenant, session_name, cancelled_by
"""

UNBLOCK: Final = """
UPDATE holdfast_inbox SET state = 'ready', changed_at = :now
WHERE id = (SELECT id FROM holdfast_inbox WHERE tenant = :tenant AND session_name = :name
    AND state = 'blocked' ORDER BY id LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM holdfast_inbox WHERE tenant = :tenant AND session_name = :name
    AND state IN ('ready', 'admitted', 'waiting'))
"""

FORGET_WORKER_OF: Final = """
UPDATE holdfast_inbox SET worker = '', deliveries = deliveries - 1, changed_at = :now
WHERE id = :id AND state = 'admitted' AND worker = :worker
RETURNING tenant, agent
"""

WAKE: Final = """
UPDATE holdfast_inbox SET state = 'ready', changed_at = :now WHERE id = :id AND state = 'waiting'
RETURNING tenant
"""

CHANGE_STATE: Final = """
UPDATE holdfast_inbox SET state = :state, error = '', changed_at = :now, due_at = :now,
  deliveries = 0
WHERE id = :id AND state = :before
RETURNING tenant, session_name
"""

CANCEL: Final = """
UPDATE holdfast_inbox SET cancelled_by = :by WHERE id = :id AND cancelled_by IS NULL
"""

CANCELLED_OF: Final = """
SELECT id, cancelled_by FROM holdfast_inbox
WHERE state = 'admitted' AND worker = :worker AND cancelled_by IS NOT NULL
"""

PROMOTE: Final = """
UPDATE holdfast_inbox SET state = 'blocked', changed_at = :now
WHERE id IN (SELECT id FROM holdfast_inbox WHERE state = 'scheduled' AND due_at <= :now
  ORDER BY due_at LIMIT :limit)
RETURNING tenant, session_name
"""

OVERDUE: Final = """
SELECT id FROM holdfast_inbox WHERE state = 'waiting' AND due_at <= :now ORDER BY due_at LIMIT :limit
"""

STALLED: Final = """
SELECT id, tenant, agent, worker FROM holdfast_inbox WHERE state = 'admitted' AND NOT EXISTS (
  SELECT 1 FROM holdfast_workers WHERE id = worker AND seen_at > :now - :seconds)
"""
"""Entries that no worker has that is alive: their job is on its way, lost, or its worker has died."""

ABANDON: Final = """
UPDATE holdfast_inbox SET worker = '', changed_at = :now
WHERE id = :id AND state = 'admitted' AND worker = :worker
"""

PRUNE: Final = """
DELETE FROM holdfast_inbox WHERE id IN (SELECT id FROM holdfast_inbox
  WHERE state IN ('done', 'failed', 'dropped') AND changed_at < :now - :seconds LIMIT :limit)
RETURNING id
"""

HEARTBEAT: Final = """
INSERT INTO holdfast_workers (id, info, seen_at) VALUES (:id, :info, :now)
ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at
"""

FORGET_WORKER: Final = "DELETE FROM holdfast_workers WHERE id = :id"

FORGET_OLD_WORKERS: Final = "DELETE FROM holdfast_workers WHERE seen_at < :now - 3600"

WORKERS: Final = """
SELECT w.info, w.seen_at, w.seen_at > :now - :seconds, (SELECT count(*) FROM holdfast_inbox i
  WHERE i.state = 'admitted' AND i.worker = w.id)
FROM holdfast_workers w ORDER BY w.id
"""

SET_LIMITS: Final = """
INSERT INTO holdfast_inbox_limits (scope, limits) VALUES (:scope, :limits)
ON CONFLICT (scope) DO UPDATE SET limits = excluded.limits
"""

ALL_LIMITS: Final = "SELECT scope, limits FROM holdfast_inbox_limits ORDER BY scope"

DEPTHS: Final = """
SELECT tenant, state, count(*), min(created_at), :now FROM holdfast_inbox
WHERE state NOT IN ('done', 'dropped') GROUP BY tenant, state ORDER BY tenant, state
"""


def admit(ids: Sequence[int]) -> Statement:
    """Return the statement that admits entries."""
    names = {f"id{number}": entry for number, entry in enumerate(ids)}
    wanted = ", ".join(f":{name}" for name in names)
    text = (
        "UPDATE holdfast_inbox SET state = 'admitted', worker = '', changed_at = :now"  # noqa: S608  # REASON: numbered parameters
        f" WHERE id IN ({wanted}) AND state = 'ready'"
    )
    return Statement(text, names)
