"""The tables of the inbox, for SQLite and for PostgreSQL; they belong to the schema of the journal.

An entry is active while its session must begin no other one: a unique index allows one for each
session. `session_name` is the SHA-256 of `session`. An answer in the journal, or the end of the turn, wakes the
entry that waits, in the same transaction; of an entry that is about to wait it is noted in `is_answered`.
An entry that is to be parked (`parking` says why) or cancelled is over in the transaction that closes its turn.
Rules for editing: as for the schema of the journal.
"""

from __future__ import annotations

from typing import LiteralString

from holdfast.core.events import QuestionAnswered, QuestionUnanswered, TurnClosed

WAKING_EVENTS = (QuestionAnswered, QuestionUnanswered, TurnClosed)
"""The events after which a waiting turn goes on, or is found to have ended."""

_TABLES: tuple[LiteralString, ...] = (
    (
        "CREATE TABLE holdfast_inbox ("
        " id {identity},"
        " tenant text NOT NULL,"
        " agent text NOT NULL,"
        " session text NOT NULL,"
        " session_name {bytes} NOT NULL,"
        " request text NOT NULL,"
        " digest text NOT NULL,"
        " body {bytes} NOT NULL,"
        " state text NOT NULL,"
        " priority integer NOT NULL,"
        " due_at {time} NOT NULL,"
        " created_at {time} NOT NULL,"
        " changed_at {time} NOT NULL,"
        " deliveries integer NOT NULL DEFAULT 0,"
        " worker text NOT NULL DEFAULT '',"
        " turn integer NOT NULL DEFAULT 0,"
        " error text NOT NULL DEFAULT '',"
        " made_by text NOT NULL,"
        " cancelled_by text,"
        " is_answered integer NOT NULL DEFAULT 0,"
        " deaths integer NOT NULL DEFAULT 0,"
        " deaths_alone integer NOT NULL DEFAULT 0,"
        " is_alone integer NOT NULL DEFAULT 0,"
        " parking text NOT NULL DEFAULT '',"
        " UNIQUE (tenant, request)"
        ")"
    ),
    (
        "CREATE UNIQUE INDEX holdfast_inbox_active ON holdfast_inbox (tenant, session_name)"
        " WHERE state IN ('ready', 'admitted', 'waiting', 'postponed')"
    ),
    (
        "CREATE INDEX holdfast_inbox_ready ON holdfast_inbox (agent, tenant, priority DESC, id)"
        " WHERE state = 'ready'"
    ),
    (
        "CREATE INDEX holdfast_inbox_blocked ON holdfast_inbox (tenant, session_name, id)"
        " WHERE state = 'blocked'"
    ),
    "CREATE INDEX holdfast_inbox_listed ON holdfast_inbox (tenant, id)",
    "CREATE INDEX holdfast_inbox_scheduled ON holdfast_inbox (due_at) WHERE state = 'scheduled'",
    "CREATE INDEX holdfast_inbox_admitted ON holdfast_inbox (id) WHERE state = 'admitted'",
    "CREATE INDEX holdfast_inbox_waiting ON holdfast_inbox (due_at) WHERE state IN ('waiting', 'postponed')",
    "CREATE INDEX holdfast_inbox_postponed ON holdfast_inbox (changed_at) WHERE state = 'postponed'",
    (
        "CREATE INDEX holdfast_inbox_over ON holdfast_inbox (changed_at)"
        " WHERE state IN ('done', 'failed', 'dropped', 'parked')"
    ),
    # How many turns of a tenant are queued, when one of them was admitted last, and until when those that
    # were refused are asked to wait; all tenants together are "".
    (
        "CREATE TABLE holdfast_inbox_tenants ("
        " tenant text PRIMARY KEY,"
        " queued bigint NOT NULL,"
        " served {time} NOT NULL DEFAULT 0,"
        " promised {time} NOT NULL DEFAULT 0"
        ")"
    ),
    "CREATE INDEX holdfast_inbox_served ON holdfast_inbox_tenants (served, tenant)",
    "CREATE TABLE holdfast_inbox_limits (scope text PRIMARY KEY, limits text NOT NULL)",
    # The use of a tenant on a day. `tokens` counts those since `counted_from`, and `earlier_tokens` are those
    # before, from the journal; null until that was read. `largest` is the most that was counted at once.
    (
        "CREATE TABLE holdfast_inbox_usage ("
        " tenant text NOT NULL,"
        " day text NOT NULL,"
        " turns bigint NOT NULL DEFAULT 0,"
        " tokens bigint NOT NULL DEFAULT 0,"
        " largest bigint NOT NULL DEFAULT 0,"
        " counted_from {time},"
        " earlier_tokens bigint,"
        " PRIMARY KEY (tenant, day)"
        ")"
    ),
    # A schedule, as JSON, and its next tick in seconds since the epoch; null if there is none.
    (
        "CREATE TABLE holdfast_schedules ("
        " tenant text NOT NULL,"
        " name text NOT NULL,"
        " definition text NOT NULL,"
        " next_tick bigint,"
        " is_paused integer NOT NULL DEFAULT 0,"
        " changed_at {time} NOT NULL,"
        " PRIMARY KEY (tenant, name)"
        ")"
    ),
    (
        "CREATE INDEX holdfast_schedules_next ON holdfast_schedules (next_tick)"
        " WHERE is_paused = 0 AND next_tick IS NOT NULL"
    ),
    # The outcomes of the ticks of a schedule; the latest ones.
    (
        "CREATE TABLE holdfast_schedule_ticks ("
        " id {identity},"
        " tenant text NOT NULL,"
        " name text NOT NULL,"
        " tick bigint NOT NULL,"
        " outcome text NOT NULL,"
        " entry bigint,"
        " missed integer NOT NULL,"
        " at {time} NOT NULL"
        ")"
    ),
    "CREATE INDEX holdfast_schedule_history ON holdfast_schedule_ticks (tenant, name, id)",
    (
        "CREATE TABLE holdfast_workers ("
        " id text PRIMARY KEY,"
        " info text NOT NULL,"
        " seen_at {time} NOT NULL,"
        " alive_until {time} NOT NULL"
        ")"
    ),
)

# No text of an error can have this in it: in a JSON string, its quotes are escaped.
_ENDS_WITH_TURN: LiteralString = (
    "(parking <> '' OR (cancelled_by IS NOT NULL AND NEW.event LIKE '%\"status\":\"cancelled\"%'))"
)
"""Whether an entry is over as soon as its turn is closed: it is to be parked, or was cancelled."""

_SET_ENDED: LiteralString = (
    "state = CASE WHEN parking <> '' AND NEW.event NOT LIKE '%\"status\":\"completed\"%'"
    " THEN 'parked' ELSE 'done' END, error = parking, parking = '', cancelled_by = NULL,"
    " changed_at = {now}"
)

POSTGRES_TABLES: tuple[LiteralString, ...] = (
    *(
        text.format(
            bytes="bytea",
            time="double precision",
            identity="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        )
        for text in _TABLES
    ),
    (
        "CREATE FUNCTION holdfast_wake_entry() RETURNS trigger LANGUAGE plpgsql AS $$"  # noqa: S608  # REASON: made of constants
        " DECLARE owner text; wanted bytea; is_nested boolean;"
        " BEGIN"
        # A question of a subagent is one of the session that it works for.
        "  SELECT tenant, CASE WHEN nested THEN sha256(convert_to(regexp_replace(run,"
        "   '(/t[0-9]+[.]i[0-9]+[.]tool[.][0-9]+([.]again[.][0-9]+)?)+$', ''), 'UTF8'))"
        "   ELSE name END, nested"
        "   INTO owner, wanted, is_nested FROM holdfast_runs WHERE id = NEW.run_id;"
        "  IF NOT EXISTS (SELECT 1 FROM holdfast_inbox WHERE tenant = owner"
        "   AND session_name = wanted AND state IN ('ready', 'admitted', 'waiting', 'postponed')"
        "   AND (state IN ('waiting', 'postponed') OR NEW.type <> 'turn_closed'"
        "    OR parking <> '' OR cancelled_by IS NOT NULL)) THEN"
        "   RETURN NULL;"
        "  END IF;"
        # The lock of the inbox: the entry may be about to wait, in a transaction of its worker.
        "  PERFORM pg_advisory_xact_lock("
        "   hashtextextended('holdfast_inbox.' || current_schema(), 0));"
        "  IF NEW.type = 'turn_closed' AND NOT is_nested THEN"
        "   UPDATE holdfast_inbox_tenants SET queued = queued - (SELECT count(*)"
        "    FROM holdfast_inbox WHERE tenant = owner AND session_name = wanted"
        f"   AND state = 'ready' AND {_ENDS_WITH_TURN}) WHERE tenant = owner;"
        f"  UPDATE holdfast_inbox SET {_SET_ENDED.format(now='extract(epoch FROM clock_timestamp())')}"
        "    WHERE tenant = owner AND session_name = wanted"
        f"    AND state IN ('ready', 'admitted', 'waiting', 'postponed') AND {_ENDS_WITH_TURN};"
        "   IF FOUND THEN"
        "    UPDATE holdfast_inbox SET state = 'ready',"
        "     changed_at = extract(epoch FROM clock_timestamp())"
        "     WHERE id = (SELECT id FROM holdfast_inbox WHERE tenant = owner"
        "      AND session_name = wanted AND state = 'blocked' ORDER BY id LIMIT 1);"
        "    PERFORM pg_notify('holdfast_' || md5(current_schema()), 'inbox');"
        "    RETURN NULL;"
        "   END IF;"
        "  END IF;"
        "  UPDATE holdfast_inbox SET is_answered = 1 WHERE tenant = owner"
        "   AND session_name = wanted AND state = 'admitted';"
        "  UPDATE holdfast_inbox SET state = 'ready',"
        "   changed_at = extract(epoch FROM clock_timestamp())"
        "   WHERE tenant = owner AND session_name = wanted AND state IN ('waiting', 'postponed');"
        "  IF FOUND THEN"
        "   UPDATE holdfast_inbox_tenants SET queued = queued + 1 WHERE tenant = owner;"
        "   PERFORM pg_notify('holdfast_' || md5(current_schema()), 'inbox');"
        "  END IF;"
        "  RETURN NULL;"
        " END $$"
    ),
    (
        "CREATE TRIGGER holdfast_wake_entry AFTER INSERT ON holdfast_records FOR EACH ROW"
        " WHEN (NEW.type IN ('question_answered', 'question_unanswered', 'turn_closed'))"
        " EXECUTE FUNCTION holdfast_wake_entry()"
    ),
)
"""The tables in the database of a journal."""

MEMORY_TABLES: tuple[str, ...] = tuple(
    text.format(bytes="blob", time="real", identity="INTEGER PRIMARY KEY AUTOINCREMENT")
    for text in _TABLES
)
"""The tables beside a journal in memory."""

# A question of a subagent is one of the session that it works for.
_IS_OF_RUN = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.id = NEW.run AND runs.tenant = holdfast_inbox.tenant"
    " AND (runs.name = holdfast_inbox.session OR (runs.nested"
    " AND substr(runs.name, 1, length(holdfast_inbox.session) + 2) = holdfast_inbox.session || '/t')))"
)

_IS_ENDED_BY = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.id = NEW.run AND runs.tenant = holdfast_inbox.tenant"  # noqa: S608  # REASON: as above
    f" AND runs.name = holdfast_inbox.session AND NOT runs.nested) AND {_ENDS_WITH_TURN}"
)

SQLITE_TABLES: tuple[str, ...] = (
    *MEMORY_TABLES,
    (
        "CREATE TRIGGER holdfast_wake_entry AFTER INSERT ON records"  # noqa: S608  # REASON: made of constants
        " WHEN NEW.type IN ('question_answered', 'question_unanswered', 'turn_closed')"
        " AND EXISTS (SELECT 1 FROM holdfast_inbox"
        " WHERE state IN ('ready', 'admitted', 'waiting', 'postponed'))"
        " BEGIN"
        "  UPDATE holdfast_inbox_tenants SET queued = queued - (SELECT count(*)"
        "    FROM holdfast_inbox WHERE holdfast_inbox.tenant = holdfast_inbox_tenants.tenant"
        f"   AND state = 'ready' AND {_IS_ENDED_BY})"
        "   WHERE NEW.type = 'turn_closed'"
        "    AND tenant = (SELECT tenant FROM runs WHERE id = NEW.run);"
        f"  UPDATE holdfast_inbox SET {_SET_ENDED.format(now='NEW.at')}"
        "   WHERE NEW.type = 'turn_closed'"
        f"   AND state IN ('ready', 'admitted', 'waiting', 'postponed') AND {_IS_ENDED_BY};"
        "  UPDATE holdfast_inbox SET state = 'ready', changed_at = NEW.at"
        "   WHERE NEW.type = 'turn_closed' AND id = (SELECT i.id FROM holdfast_inbox AS i, runs AS r"
        "     WHERE r.id = NEW.run AND NOT r.nested AND i.tenant = r.tenant AND i.session = r.name"
        "     AND i.state = 'blocked' ORDER BY i.id LIMIT 1)"
        "    AND NOT EXISTS (SELECT 1 FROM holdfast_inbox AS i WHERE i.tenant = holdfast_inbox.tenant"
        "     AND i.session_name = holdfast_inbox.session_name"
        "     AND i.state IN ('ready', 'admitted', 'waiting', 'postponed'));"
        "  UPDATE holdfast_inbox SET is_answered = 1"
        f"   WHERE state = 'admitted' AND NEW.type <> 'turn_closed' AND {_IS_OF_RUN};"
        "  UPDATE holdfast_inbox_tenants SET queued = queued + (SELECT count(*)"
        "    FROM holdfast_inbox WHERE holdfast_inbox.tenant = holdfast_inbox_tenants.tenant"
        f"   AND state IN ('waiting', 'postponed') AND {_IS_OF_RUN})"
        "   WHERE tenant = (SELECT tenant FROM runs WHERE id = NEW.run);"
        "  UPDATE holdfast_inbox SET state = 'ready', changed_at = NEW.at"
        f"   WHERE state IN ('waiting', 'postponed') AND {_IS_OF_RUN};"
        " END"
    ),
)
"""The tables in the file of a journal."""
