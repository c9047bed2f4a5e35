"""The statements of the inbox. SQLite and PostgreSQL understand every one; `:now` is the time.

`LOCK` is held by one transaction at a time that admits turns or changes the queue. Whoever needs it
takes it first. Without it a turn is inserted, which locks the row of its tenant alone, and a worker changes
one entry. So no two wait for each other. Whoever lets a session begin another turn locks the row of the
tenant first, as whoever inserts a turn does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.journal.inbox.statements import Statement

LOCK: Final = Statement("-- lock")
"""Takes the lock of the inbox until the transaction ends; each database has a way of its own."""

NOTIFY_END: Final = Statement("-- notify of an end")
"""As NOTIFY, of a turn that has ended or waits: its transaction has admitted already, so no worker must."""

NOTIFY: Final = Statement("-- notify")
"""Wakes the workers once the transaction is committed; each database has a way of its own."""

NOW: Final = Statement("SELECT :now")

COLUMNS: Final = (
    "id, tenant, agent, session, request, state, priority, due_at, created_at, changed_at,"
    " deliveries, worker, turn, error, made_by, cancelled_by, deaths, deaths_alone, parking"
)
"""The columns of an entry without its body."""

SELECT: Final = f"SELECT {COLUMNS}, body FROM holdfast_inbox WHERE "  # noqa: S608  # REASON: made of constants

FIND_BY_REQUEST: Final = f"{SELECT}tenant = :tenant AND request = :request"

FIND_REQUESTS: Final = """
SELECT request FROM holdfast_inbox
WHERE tenant = :tenant AND request BETWEEN :first AND :last ORDER BY request LIMIT :most
"""

FIND_ACTIVE: Final = (
    f"{SELECT}tenant = :tenant AND session_name = :name"
    " AND state IN ('ready', 'admitted', 'waiting', 'postponed')"
)

BEFORE_SUBMISSION: Final = """
SELECT 'digest', digest FROM holdfast_inbox WHERE tenant = :tenant AND request = :request
UNION ALL
SELECT scope, limits FROM holdfast_inbox_limits
WHERE scope IN ('all', 'tenant', :tenant_scope, :agent_scope)
"""
"""The digest of the submission that has the request, if there is one, and the limits by scope."""

LOCK_QUEUE_OF_ALL: Final = "UPDATE holdfast_inbox_limits SET limits = limits WHERE scope = 'all'"
"""Lets one transaction at a time count the queue of all tenants, while that has a limit."""

USAGE: Final = """
SELECT turns, tokens + coalesce(earlier_tokens, 0) FROM holdfast_inbox_usage
WHERE tenant = :tenant AND day = :day
"""

ADD_TURN: Final = """
INSERT INTO holdfast_inbox_usage AS known (tenant, day, turns) VALUES (:tenant, :day, 1)
ON CONFLICT (tenant, day) DO UPDATE SET turns = known.turns + 1
RETURNING turns, tokens + coalesce(earlier_tokens, 0)
"""

ADD_TOKENS: Final = """
INSERT INTO holdfast_inbox_usage AS known (tenant, day, tokens, largest, counted_from)
VALUES (:tenant, :day, CASE WHEN :at >= :now THEN :tokens ELSE 0 END, :tokens, :now)
ON CONFLICT (tenant, day) DO UPDATE SET
  largest = CASE WHEN known.largest > :tokens THEN known.largest ELSE :tokens END,
  tokens = known.tokens + CASE WHEN :at >= coalesce(known.counted_from, excluded.counted_from)
    THEN :tokens ELSE 0 END,
  counted_from = coalesce(known.counted_from, excluded.counted_from)
RETURNING tokens, earlier_tokens, counted_from
"""
"""Counts tokens that were used after the counting began; those before are among the earlier ones."""

TOKENS_LEFT_OUT: Final = """
UPDATE holdfast_inbox_usage SET tokens = 0, earlier_tokens = NULL, counted_from = :now
WHERE tenant = :tenant AND day = :day AND counted_from IS NOT NULL
"""
"""Lets the journal report the use so far again: a worker may have died before it counted all."""

LARGEST_USE: Final = "SELECT max(largest) FROM holdfast_inbox_usage WHERE tenant = :tenant"

RUNNING_OF: Final = """
SELECT count(*) FROM holdfast_inbox WHERE state = 'admitted' AND tenant = :tenant
"""

SET_EARLIER_TOKENS: Final = """
UPDATE holdfast_inbox_usage SET earlier_tokens = :tokens
WHERE tenant = :tenant AND day = :day AND earlier_tokens IS NULL
"""

COUNT_QUEUED: Final = """
INSERT INTO holdfast_inbox_tenants AS known (tenant, queued) VALUES (:tenant, 1)
ON CONFLICT (tenant) DO UPDATE SET queued = known.queued + 1
"""

COUNT_ALL_QUEUED: Final = "SELECT coalesce(sum(queued), 0) FROM holdfast_inbox_tenants"

LATELY_DONE: Final = """
SELECT count(CASE WHEN tenant = :tenant THEN 1 END), count(*), :now - min(changed_at)
FROM (SELECT tenant, changed_at FROM holdfast_inbox WHERE state IN ('done', 'failed', 'dropped', 'parked')
  ORDER BY changed_at DESC LIMIT 200) AS latest
WHERE changed_at > :now - 60
"""
"""Of the latest turns that ended within a minute: how many were those of a tenant, how many in all, and
how many seconds ago the first of them ended."""

INSERT: Final = f"""
INSERT INTO holdfast_inbox (tenant, agent, session, session_name, request, digest, body, state,
  priority, due_at, created_at, changed_at, made_by)
SELECT :tenant, :agent, :session, :name, :request, :digest, :body,
  CASE WHEN :due_at > :now THEN 'scheduled'
    WHEN EXISTS (SELECT 1 FROM holdfast_inbox WHERE tenant = :tenant AND session_name = :name
      AND state IN ('ready', 'admitted', 'waiting', 'postponed')) THEN 'blocked'
    ELSE 'ready' END,
  :priority, :due_at, :now, :now, :made_by
WHERE true
ON CONFLICT (tenant, request) DO NOTHING
RETURNING {COLUMNS}, body, (SELECT queued FROM holdfast_inbox_tenants AS t WHERE t.tenant = :tenant)
"""  # noqa: S608  # REASON: as above
"""Returns the entry, and how many turns of its tenant are queued with it."""

LOCK_TENANT: Final = "UPDATE holdfast_inbox_tenants SET queued = queued WHERE tenant = :tenant"
"""Keeps other transactions from changing the queue of a tenant."""

PROMISE: Final = """
INSERT INTO holdfast_inbox_tenants AS known (tenant, queued, promised)
VALUES (:tenant, 0, :now + :seconds)
ON CONFLICT (tenant) DO UPDATE SET
  promised = CASE WHEN known.promised > :now THEN known.promised ELSE :now END + :seconds
RETURNING promised - :now
"""
"""Returns after how many seconds there will be room for one more that was refused."""

ADD_QUEUED: Final = (
    "UPDATE holdfast_inbox_tenants SET queued = queued + :count WHERE tenant = :tenant"
)

FACTS: Final = """
SELECT 'limits', scope, limits, 0 FROM holdfast_inbox_limits
UNION ALL
SELECT 'worker', id, info, 0 FROM holdfast_workers WHERE alive_until > :now
UNION ALL
SELECT 'admitted', tenant, agent, count(*) FROM holdfast_inbox
WHERE state = 'admitted' GROUP BY tenant, agent
UNION ALL
SELECT * FROM (SELECT 'served', tenant, '', 0 FROM holdfast_inbox_tenants
  ORDER BY served DESC, tenant DESC LIMIT 1) AS latest
"""

_NEXT_TENANTS = """
  UNION ALL
  SELECT (SELECT min(i.tenant) FROM holdfast_inbox AS i
    WHERE i.state = 'ready' AND i.agent = :agent AND i.tenant > {part}.tenant), position + 1
  FROM {part} WHERE tenant IS NOT NULL AND position < :limit
"""
CANDIDATES: Final = f"""
WITH RECURSIVE later (tenant, position) AS (
  SELECT min(tenant), 1 FROM holdfast_inbox
  WHERE state = 'ready' AND agent = :agent AND tenant > :after
  {_NEXT_TENANTS.format(part="later")}),
earlier (tenant, position) AS (
  SELECT min(tenant), 1 FROM holdfast_inbox WHERE state = 'ready' AND agent = :agent
    AND (SELECT count(tenant) FROM later) < :limit
  {_NEXT_TENANTS.format(part="earlier")})
SELECT found.tenant, coalesce(known.served, 0), position FROM (
  SELECT 0 AS part, tenant, position FROM later
  UNION ALL SELECT 1, tenant, position FROM earlier) AS found
LEFT JOIN holdfast_inbox_tenants AS known ON known.tenant = found.tenant
WHERE found.tenant IS NOT NULL ORDER BY part, position
"""  # noqa: S608  # REASON: as above
"""The next tenants in the ring with a turn of an agent that may begin, with their positions: those after one
of them and, if they are fewer than the limit, those from the first one on. One look into the index finds
each, however many turns they have."""

READY: Final = """
SELECT id, priority FROM holdfast_inbox
WHERE state = 'ready' AND tenant = :tenant AND agent = :agent
ORDER BY priority DESC, id LIMIT :limit
"""

SERVE: Final = """
UPDATE holdfast_inbox_tenants SET queued = queued - :count, served = :now WHERE tenant = :tenant
"""

BEGIN: Final = f"""
UPDATE holdfast_inbox SET worker = :worker, deliveries = deliveries + 1, is_answered = 0,
  changed_at = :now
WHERE id = :id AND state = 'admitted'
  AND (worker = '' OR worker = :worker)
  AND EXISTS (SELECT 1 FROM holdfast_workers AS w WHERE w.id = :worker AND w.alive_until > :now)
RETURNING {COLUMNS}, body
"""  # noqa: S608  # REASON: as above
"""The entries of a worker that died are taken from it first, by ABANDON, which counts that. So a worker that counts
as gone is given nothing, or each entry that it begins would seem to kill it."""

ISOLATE: Final = f"""
UPDATE holdfast_inbox SET is_alone = 1
WHERE id = :id AND state = 'admitted' AND worker = :worker
RETURNING {COLUMNS}, body
"""  # noqa: S608  # REASON: as above
"""Notes that from now on the worker drives this entry alone."""

END: Final = """
UPDATE holdfast_inbox SET state = :state, error = :error, changed_at = :now,
  turn = CASE WHEN :turn > 0 THEN :turn ELSE turn END,
  due_at = CASE WHEN :state IN ('waiting', 'postponed') THEN :due_at + :from_now * :now
    ELSE due_at END,
  deliveries = deliveries * :keep - :minus, deaths = deaths * :keep,
  deaths_alone = deaths_alone * :keep, is_alone = 0, parking = '',
  cancelled_by = CASE WHEN :state IN ('waiting', 'postponed') THEN cancelled_by END
WHERE id = :id AND state = 'admitted' AND worker = :worker
RETURNING tenant, session_name, cancelled_by, is_answered
"""

UNBLOCK: Final = """
UPDATE holdfast_inbox SET state = 'ready', changed_at = :now
WHERE id = (SELECT id FROM holdfast_inbox WHERE tenant = :tenant AND session_name = :name
    AND state = 'blocked' ORDER BY id LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM holdfast_inbox WHERE tenant = :tenant AND session_name = :name
    AND state IN ('ready', 'admitted', 'waiting', 'postponed'))
"""

FORGET_WORKER_OF: Final = """
UPDATE holdfast_inbox SET worker = '', deliveries = deliveries - 1, is_alone = 0, changed_at = :now
WHERE id = :id AND state = 'admitted' AND worker = :worker
RETURNING tenant, agent
"""

WAKE: Final = """
UPDATE holdfast_inbox SET state = 'ready', changed_at = :now WHERE id = :id AND state IN ('waiting', 'postponed')
RETURNING tenant
"""

NOTE_ANSWER: Final = """
UPDATE holdfast_inbox SET is_answered = 1
WHERE tenant = :tenant AND session_name = :name AND state = 'admitted'
"""

WAITING_OF: Final = """
SELECT id FROM holdfast_inbox
WHERE tenant = :tenant AND session_name = :name AND state IN ('waiting', 'postponed')
"""

PARK: Final = """
UPDATE holdfast_inbox SET parking = :why, turn = :turn
WHERE id = :id AND state = 'admitted' AND worker = :worker
RETURNING id
"""
"""Says that an entry is over, and why, as soon as its turn is closed; nobody drives it any more."""

ENDED_WITH_TURN: Final = """
SELECT id, state FROM holdfast_inbox
WHERE tenant = :tenant AND session_name = :name
  AND state IN ('ready', 'admitted', 'waiting', 'postponed')
  AND (parking <> '' OR (cancelled_by IS NOT NULL AND :end = 'cancelled'))
"""

END_WITH_TURN: Final = """
UPDATE holdfast_inbox SET
  state = CASE WHEN parking <> '' AND :end <> 'completed' THEN 'parked' ELSE 'done' END,
  error = parking, parking = '', cancelled_by = NULL, changed_at = :now
WHERE id = :id
"""
"""As the triggers of the databases do when a turn is closed."""

CHANGE_STATE: Final = """
UPDATE holdfast_inbox SET state = :state, error = CASE WHEN :keeps > 0 THEN error ELSE '' END,
  changed_at = :now, due_at = :now, deliveries = 0, deaths = 0, deaths_alone = 0, worker = ''
WHERE id = :id AND state = :before
RETURNING tenant, session_name
"""

CANCEL: Final = """
UPDATE holdfast_inbox SET cancelled_by = :by WHERE id = :id AND cancelled_by IS NULL
"""

HELD_BY: Final = "SELECT id FROM holdfast_inbox WHERE state = 'admitted' AND worker = :worker"
"""The entries that a worker has."""

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

FOLLOW_CLOCK: Final = """
UPDATE holdfast_inbox SET due_at = due_at - (changed_at - :now), changed_at = :now
WHERE state = 'postponed' AND changed_at > :now
"""
"""Moves the end of each wait back if the clock was set back since the wait began."""

WORKERS_FOLLOW_CLOCK: Final = """
UPDATE holdfast_workers SET alive_until = alive_until - (seen_at - :now), seen_at = :now
WHERE seen_at > :now
"""
"""As FOLLOW_CLOCK, so that a worker that died does not count as alive until the clock shows its old time."""

OVERDUE: Final = """
SELECT id FROM holdfast_inbox WHERE state IN ('waiting', 'postponed') AND due_at <= :now ORDER BY due_at LIMIT :limit
"""

STALLED: Final = """
SELECT i.id, i.tenant, i.agent, i.worker, w.info FROM holdfast_inbox AS i
LEFT JOIN holdfast_workers AS w ON w.id = i.worker
WHERE i.state = 'admitted' AND (w.id IS NULL OR w.alive_until <= :now)
"""
"""Entries that no worker has that is alive, with the own entry of such a worker: their job is on its way,
lost, or its worker has died."""

ABANDON: Final = """
UPDATE holdfast_inbox SET worker = '', changed_at = :now, is_alone = 0,
  deaths = deaths + :died * (1 - is_alone), deaths_alone = deaths_alone + :died * is_alone
WHERE id = :id AND state = 'admitted' AND worker = :worker
"""

PRUNE: Final = """
DELETE FROM holdfast_inbox WHERE id IN (SELECT id FROM holdfast_inbox
  WHERE state IN ('done', 'failed', 'dropped', 'parked') AND changed_at < :now - :seconds LIMIT :limit)
RETURNING id
"""

HEARTBEAT: Final = """
INSERT INTO holdfast_workers (id, info, seen_at, alive_until)
VALUES (:id, :info, :now, :now + :seconds)
ON CONFLICT (id) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at,
  alive_until = excluded.alive_until
"""

FORGET_WORKER: Final = "DELETE FROM holdfast_workers WHERE id = :id"

FORGET_OLD_WORKERS: Final = "DELETE FROM holdfast_workers WHERE seen_at < :now - 3600"

WORKERS: Final = """
SELECT w.info, w.seen_at, w.alive_until > :now, (SELECT count(*) FROM holdfast_inbox i
  WHERE i.state = 'admitted' AND i.worker = w.id)
FROM holdfast_workers w ORDER BY w.id
"""

SET_LIMITS: Final = """
INSERT INTO holdfast_inbox_limits (scope, limits) VALUES (:scope, :limits)
ON CONFLICT (scope) DO UPDATE SET limits = excluded.limits
"""

RESUME_STOPPED: Final = """
UPDATE holdfast_inbox SET due_at = :now WHERE state = 'postponed' AND error = :error
"""
"""Lets the turns go on that a quota has stopped, if it allows them."""

ALL_LIMITS: Final = "SELECT scope, limits FROM holdfast_inbox_limits ORDER BY scope"

DEPTHS: Final = """
SELECT tenant, state, count(*), min(created_at), :now FROM holdfast_inbox
WHERE state NOT IN ('done', 'dropped') GROUP BY tenant, state ORDER BY tenant, state
"""


def admit(ids: Sequence[int]) -> Statement:
    """Return the statement that admits entries."""
    wanted, names = _name_all(ids)
    text = (
        "UPDATE holdfast_inbox SET state = 'admitted', worker = '', changed_at = :now"  # noqa: S608  # REASON: numbered parameters
        f" WHERE id IN ({wanted}) AND state = 'ready'"
    )
    return Statement(text, names)


def read_tokens(tenants: Sequence[str], day: str) -> Statement:
    """Return the statement that reads the tokens of tenants on a day, and the most that each counted at once."""
    names: dict[str, object] = {f"t{number}": tenant for number, tenant in enumerate(tenants)}
    wanted = ", ".join(f":{name}" for name in names)
    text = (
        "SELECT tenant, tokens + earlier_tokens, (SELECT max(largest) FROM holdfast_inbox_usage AS u"  # noqa: S608  # REASON: numbered parameters
        " WHERE u.tenant = known.tenant) FROM holdfast_inbox_usage AS known"
        f" WHERE day = :day AND tenant IN ({wanted}) AND earlier_tokens IS NOT NULL"
    )
    return Statement(text, {**names, "day": day})


def give(ids: Sequence[int], worker: str) -> Statement:
    """Return the statement that gives entries, just admitted, to a worker, as BEGIN gives one."""
    wanted, names = _name_all(ids)
    text = (
        "UPDATE holdfast_inbox SET worker = :worker, deliveries = deliveries + 1, is_answered = 0"  # noqa: S608  # REASON: as above
        f" WHERE id IN ({wanted}) AND state = 'admitted' RETURNING {COLUMNS}, body"
    )
    return Statement(text, {**names, "worker": worker})


def _name_all(ids: Sequence[int]) -> tuple[str, dict[str, object]]:
    """Return the parameters of a list of entries, and their values."""
    names: dict[str, object] = {f"id{number}": entry for number, entry in enumerate(ids)}
    return ", ".join(f":{name}" for name in names), names
