"""The tables of the inbox, for SQLite and for PostgreSQL; they belong to the schema of the journal.

An entry is active while its session must begin no other one: a unique index allows one for each
session. `session_name` is the SHA-256 of `session`. An answer in the journal wakes the entry that waits for
it, in the same transaction. Rules for editing: as for the schema of the journal.
"""

from __future__ import annotations

from typing import LiteralString

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
        " UNIQUE (tenant, request)"
        ")"
    ),
    (
        "CREATE UNIQUE INDEX holdfast_inbox_active ON holdfast_inbox (tenant, session_name)"
        " WHERE state IN ('ready', 'admitted', 'waiting')"
    ),
    (
        "CREATE INDEX holdfast_inbox_ready ON holdfast_inbox (tenant, agent, priority DESC, id)"
        " WHERE state = 'ready'"
    ),
    (
        "CREATE INDEX holdfast_inbox_blocked ON holdfast_inbox (tenant, session_name, id)"
        " WHERE state = 'blocked'"
    ),
    "CREATE INDEX holdfast_inbox_scheduled ON holdfast_inbox (due_at) WHERE state = 'scheduled'",
    "CREATE INDEX holdfast_inbox_admitted ON holdfast_inbox (id) WHERE state = 'admitted'",
    "CREATE INDEX holdfast_inbox_waiting ON holdfast_inbox (due_at) WHERE state = 'waiting'",
    (
        "CREATE INDEX holdfast_inbox_over ON holdfast_inbox (changed_at)"
        " WHERE state IN ('done', 'failed', 'dropped')"
    ),
    # How many turns of a tenant are queued, and when one of them was admitted last.
    (
        "CREATE TABLE holdfast_inbox_tenants ("
        " tenant text PRIMARY KEY,"
        " queued bigint NOT NULL,"
        " served {time} NOT NULL DEFAULT 0"
        ")"
    ),
    "CREATE INDEX holdfast_inbox_served ON holdfast_inbox_tenants (served, tenant) WHERE queued > 0",
    "CREATE TABLE holdfast_inbox_limits (scope text PRIMARY KEY, limits text NOT NULL)",
    (
        "CREATE TABLE holdfast_inbox_usage ("
        " tenant text NOT NULL,"
        " day text NOT NULL,"
        " turns bigint NOT NULL,"
        " tokens bigint NOT NULL,"
        " PRIMARY KEY (tenant, day)"
        ")"
    ),
    (
        "CREATE TABLE holdfast_workers ("
        " id text PRIMARY KEY,"
        " info text NOT NULL,"
        " seen_at {time} NOT NULL"
        ")"
    ),
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
        "CREATE FUNCTION holdfast_wake_entry() RETURNS trigger LANGUAGE plpgsql AS $$"
        " DECLARE owner text; wanted bytea;"
        " BEGIN"
        "  SELECT tenant, name INTO owner, wanted FROM holdfast_runs WHERE id = NEW.run_id;"
        "  IF EXISTS (SELECT 1 FROM holdfast_inbox WHERE tenant = owner AND session_name = wanted"
        "   AND state = 'waiting') THEN"
        # In the order in which every transaction of the inbox takes these locks.
        "   UPDATE holdfast_inbox_tenants SET queued = queued + 1 WHERE tenant = owner;"
        "   UPDATE holdfast_inbox SET state = 'ready',"
        "    changed_at = extract(epoch FROM clock_timestamp())"
        "    WHERE tenant = owner AND session_name = wanted AND state = 'waiting';"
        "   IF NOT FOUND THEN"
        "    UPDATE holdfast_inbox_tenants SET queued = queued - 1 WHERE tenant = owner;"
        "   END IF;"
        "   PERFORM pg_notify('holdfast_' || md5(current_schema()), 'inbox');"
        "  END IF;"
        "  RETURN NULL;"
        " END $$"
    ),
    (
        "CREATE TRIGGER holdfast_wake_entry AFTER INSERT ON holdfast_records FOR EACH ROW"
        " WHEN (NEW.type = 'question_answered') EXECUTE FUNCTION holdfast_wake_entry()"
    ),
)
"""The tables in the database of a journal."""

MEMORY_TABLES: tuple[str, ...] = tuple(
    text.format(bytes="blob", time="real", identity="INTEGER PRIMARY KEY AUTOINCREMENT")
    for text in _TABLES
)
"""The tables beside a journal in memory."""

SQLITE_TABLES: tuple[str, ...] = (
    *MEMORY_TABLES,
    (
        "CREATE TRIGGER holdfast_wake_entry AFTER INSERT ON records"
        " WHEN NEW.type = 'question_answered' AND EXISTS (SELECT 1 FROM holdfast_inbox AS i"
        "  JOIN runs ON runs.id = NEW.run AND runs.tenant = i.tenant AND runs.name = i.session"
        "  WHERE i.state = 'waiting')"
        " BEGIN"
        "  UPDATE holdfast_inbox_tenants SET queued = queued + 1"
        "   WHERE tenant = (SELECT tenant FROM runs WHERE id = NEW.run);"
        "  UPDATE holdfast_inbox SET state = 'ready', changed_at = NEW.at"
        "   WHERE state = 'waiting' AND tenant = (SELECT tenant FROM runs WHERE id = NEW.run)"
        "   AND session = (SELECT name FROM runs WHERE id = NEW.run);"
        " END"
    ),
)
"""The tables in the file of a journal."""
