"""The statements of a PostgreSQL journal. Each statement is atomic.

Rules for editing. An append locks the row of its run, so the numbers of the records have no gap.
The statement that appends also compares the fencing token. The expiry of a lease is compared with
the server's time after the lock was acquired: `clock_timestamp()`, never `now()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.run_fold import COUNTS, RunState

CHANGE_TYPES: Final = {
    "count": "bigint",
    "size": "bigint",
    "first": "float8",
    "last": "float8",
    "new_agent": "text",
    "new_turn": "bigint",
    "open": "boolean",
    "new_status": "text",
    "new_title": "text",
    "new_messages": "bigint",
    "new_doubt": "boolean",
    "new_asked": "text",
    "new_answered": "text",
    **{f"new_{name}": "bigint" for name in COUNTS},
    "new_cost": "float8",
}
"""The values of an append about its run, and the types of the columns.

From `new_turn` on, they are the fields of `core.run_fold.RunChange` in their order.
"""

CHANGE_DEFAULTS: Final[Mapping[str, int | str]] = {
    **dict.fromkeys(("new_messages", *(f"new_{name}" for name in COUNTS)), 0),
    **dict.fromkeys(("new_asked", "new_answered"), ""),
    "new_doubt": False,
}
"""The values of a change that does not change a column, where they are not null."""

_QUESTIONS: Final = """\
CASE WHEN {open} IS NOT NULL THEN '' WHEN {new_answered} = '' THEN r.questions
      ELSE replace(r.questions, {new_answered}, '') END || {new_asked}"""
_STATUS: Final = f"""\
COALESCE({{new_status}}, CASE WHEN NOT r.turn_open OR {{new_asked}} || {{new_answered}} = ''
      THEN r.status WHEN {_QUESTIONS} = '' THEN 'open' ELSE 'waiting' END)"""
_COST: Final = "CASE WHEN {new_turn} IS NULL THEN r.cost ELSE 0 END + {new_cost}"

_ADD_COUNTS: Final = ",\n    ".join(
    f"{name} = CASE WHEN {{new_turn}} IS NULL THEN r.{name} ELSE 0 END + {{new_{name}}}"
    for name in COUNTS
)

_CHANGES: Final = f"""\
    records = r.records + {{count}},
    bytes = r.bytes + {{size}},
    opened_at = LEAST(r.opened_at, {{first}}),
    changed_at = GREATEST(r.changed_at, {{last}}),
    listed_at = CASE WHEN {_STATUS} = 'open' THEN r.listed_at
      ELSE GREATEST(r.changed_at, {{last}}) END,
    listed_cost = CASE WHEN {_STATUS} = 'open' THEN r.listed_cost ELSE {_COST} END,
    turn_open = COALESCE({{open}}, r.turn_open),
    agent = COALESCE({{new_agent}}, r.agent),
    title = CASE WHEN r.turns = 0 THEN COALESCE({{new_title}}, r.title) ELSE r.title END,
    turns = r.turns + ({{new_turn}} IS NOT NULL)::integer,
    messages = r.messages + {{new_messages}},
    turn = COALESCE({{new_turn}}, r.turn),
    status = {_STATUS},
    in_doubt = {{new_doubt}} OR ({{new_turn}} IS NULL AND r.in_doubt),
    questions = {_QUESTIONS},
    {_ADD_COUNTS},
    cost = {_COST},
"""
_VALUES: Final = {name: f"%({name})s::{kind}" for name, kind in CHANGE_TYPES.items()}
_COLUMNS: Final = {name: f"w.{name}" for name in CHANGE_TYPES}
_RUN_CHANGES: Final = _CHANGES.format_map(_VALUES)
"""The changes of an append in the row of its run, whoever holds the lease."""

_FIRST_COLUMNS: Final = f"""\
records, bytes, opened_at, changed_at, listed_at, turn_open, agent, title, turns, messages, turn,
    status, in_doubt, questions, {", ".join(COUNTS)}, cost, listed_cost"""
_FIRST: Final = f"""\
{{count}}, {{size}}, {{first}}, {{last}}, {{last}}, COALESCE({{open}}, false), COALESCE({{new_agent}}, ''),
    COALESCE({{new_title}}, ''), ({{new_turn}} IS NOT NULL)::integer, {{new_messages}},
    COALESCE({{new_turn}}, 0), COALESCE({{new_status}}, 'idle'), {{new_doubt}}, {{new_asked}},
    {", ".join(f"{{new_{name}}}" for name in COUNTS)}, CASE WHEN {{new_turn}} IS NOT NULL THEN {{new_cost}} END,
    CASE WHEN {{new_turn}} IS NOT NULL THEN {{new_cost}} END"""
"""The row of a run that has no records yet."""

_INSERT_RECORDS: Final = """\
request AS (
  INSERT INTO holdfast_requests (tenant, request, run_id, key)
  SELECT %(tenant)s, %(request)s::text, id, (%(keys)s::text[])[1]
  FROM head WHERE %(request)s::text <> '')
INSERT INTO holdfast_records
  (run_id, seq, key, digest, type, at, schema, event, checksum)
SELECT id, records - %(count)s + n, new.key, digest, type, at, schema, event,
  checksum # (records - %(count)s + n)
FROM head, unnest(%(keys)s::text[], %(digests)s::text[], %(types)s::text[], %(times)s::float8[],
  %(schemas)s::integer[], %(events)s::text[], %(checksums)s::bigint[])
  WITH ORDINALITY AS new (key, digest, type, at, schema, event, checksum, n)
RETURNING seq
"""
"""The records and the request of an append whose run was found."""

APPEND: Final = f"""
WITH head AS (
  INSERT INTO holdfast_runs AS r
    (tenant, name, run, nested, {_FIRST_COLUMNS})
  VALUES (%(tenant)s, %(name)s, %(run)s, %(nested)s, {_FIRST.format_map(_VALUES)})
  ON CONFLICT (tenant, name) DO UPDATE SET
{_RUN_CHANGES}    token = NULL, owner = NULL, expires = NULL
  WHERE r.expires IS NULL OR r.expires <= clock_timestamp()
  RETURNING id, records),
{_INSERT_RECORDS}"""  # noqa: S608  # REASON: of constants only
"""One record or several, without a lease. A lease that ran out ends here, so that its holder cannot append after this."""

APPEND_LEASED: Final = f"""
WITH head AS (
  UPDATE holdfast_runs AS r SET
{_RUN_CHANGES}    token = CASE WHEN %(ends)s THEN NULL ELSE r.token END,
    owner = CASE WHEN %(ends)s THEN NULL ELSE r.owner END,
    expires = CASE WHEN %(ends)s THEN NULL
      ELSE clock_timestamp() + make_interval(secs => %(lease)s) END
  WHERE id = %(run_id)s AND token = %(token)s
  RETURNING id, records),
{_INSERT_RECORDS}"""  # noqa: S608  # REASON: of constants only
"""One record or several under a lease, which this renews or ends; nothing when another driver has taken over."""

_CHANGE_ARRAYS: Final = ", ".join(f"%({name}s)s::{kind}[]" for name, kind in CHANGE_TYPES.items())
_CHANGE_NAMES: Final = ", ".join(CHANGE_TYPES)
_CHANGE_COLUMNS: Final = ", ".join(
    f"COALESCE({name}, {CHANGE_DEFAULTS[name]!r}) AS {name}" if name in CHANGE_DEFAULTS else name
    for name in CHANGE_TYPES
)
"""An array is empty if all its values are the default: `unnest` makes nulls of them."""

SAVE_GROUP: Final = f"""
WITH wanted AS (
  SELECT run_id, token, version, owner, {_CHANGE_COLUMNS}, request, ends, tenant, name, run, nested, n
  FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(versions)s::bigint[],
    %(owners)s::bytea[], {_CHANGE_ARRAYS}, %(requests)s::text[], %(ends)s::boolean[],
    %(tenants)s::text[], %(names)s::bytea[], %(runs)s::text[], %(nested)s::boolean[])
    WITH ORDINALITY AS w (run_id, token, version, owner, {_CHANGE_NAMES}, request,
      ends, tenant, name, run, nested, n)),
made AS (
  INSERT INTO holdfast_runs AS r (tenant, name, run, nested, {_FIRST_COLUMNS},
    token, owner, expires)
  SELECT tenant, name, run, nested, {_FIRST.format_map(_COLUMNS)},
    nextval('holdfast_tokens'), owner, clock_timestamp() + make_interval(secs => %(lease)s)
  FROM wanted AS w WHERE run_id = 0
  ON CONFLICT (tenant, name) DO NOTHING
  RETURNING id, r.tenant, r.owner, r.token),
locked AS (
  SELECT r.id, w.*
  FROM wanted AS w JOIN holdfast_runs AS r ON r.id = w.run_id
  WHERE CASE WHEN w.token IS NULL
    THEN r.records = version AND (r.expires IS NULL OR r.expires <= clock_timestamp())
    ELSE r.token = w.token END
  FOR UPDATE OF r SKIP LOCKED),
changed AS (
  UPDATE holdfast_runs AS r SET
{_CHANGES.format_map(_COLUMNS)}    token = CASE WHEN NOT ends THEN COALESCE(w.token, nextval('holdfast_tokens')) END,
    owner = CASE WHEN NOT ends THEN COALESCE(w.owner, r.owner) END,
    expires = CASE WHEN NOT ends THEN clock_timestamp() + make_interval(secs => %(lease)s) END
  FROM locked AS w
  WHERE r.id = w.id AND CASE WHEN w.token IS NULL
    THEN r.records = version AND (r.expires IS NULL OR r.expires <= clock_timestamp())
    ELSE r.token = w.token END
  RETURNING r.id, r.tenant, r.token, r.records - count AS before, request, n),
head AS (
  SELECT id, tenant, token, before, request, n FROM changed
  UNION ALL
  SELECT id, made.tenant, made.token, 0, request, n FROM made JOIN wanted USING (owner)),
record AS (
  INSERT INTO holdfast_records
    (run_id, seq, key, digest, type, at, schema, event, checksum)
  SELECT id, before + place, key, digest, type, at, schema, event, checksum # (before + place)
  FROM head JOIN unnest(%(numbers)s::bigint[], %(places)s::bigint[], %(keys)s::text[],
    %(digests)s::text[], %(types)s::text[], %(times)s::float8[], %(schemas)s::integer[],
    %(events)s::text[], %(checksums)s::bigint[])
    AS new (number, place, key, digest, type, at, schema, event, checksum) ON number = n
  RETURNING run_id, seq, key),
request AS (
  INSERT INTO holdfast_requests (tenant, request, run_id, key)
  SELECT tenant, request, id, key FROM head JOIN record ON run_id = id AND seq = before + 1
  WHERE request <> '')
SELECT n, token, id FROM head
"""  # noqa: S608  # REASON: of constants only
"""Appends of many runs: under leases, which they renew or end, or those that begin a lease.

It returns the numbers of those that were saved. A lease begins only if the run is as its driver knows
it: new (`run_id` 0), or with that many records (`version`) and without a lease. A run that another
transaction has locked is left out, so that no append waits for another run."""

OWNED: Final = """
SELECT n, token, id FROM unnest(%(tenants)s::text[], %(names)s::bytea[], %(owners)s::bytea[])
  WITH ORDINALITY AS wanted (tenant, name, owner, n)
JOIN holdfast_runs AS r USING (tenant, name, owner)
"""
"""The leases that a group began before its connection was lost."""

SAVED: Final = """
SELECT checksum # seq FROM holdfast_records
WHERE run_id = (
  SELECT id FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s)
  AND hashtextextended(key, 0) = hashtextextended(%(key)s COLLATE "C", 0) AND key = %(key)s
"""

LINES: Final = """
SELECT schema, run, seq, key, digest, type, at, event, checksum, records
FROM holdfast_runs LEFT JOIN holdfast_records ON run_id = id AND seq > %(after)s
  AND seq >> 5 >= %(after)s::integer >> 5
WHERE tenant = %(tenant)s AND name = %(name)s AND records > 0
ORDER BY seq
"""

LINES_GROUP: Final = """
SELECT n, schema, run, seq, key, digest, type, at, event, checksum, records
FROM unnest(%(tenants)s::text[], %(names)s::bytea[], %(afters)s::integer[])
  WITH ORDINALITY AS wanted (tenant, name, after, n)
JOIN holdfast_runs AS r USING (tenant, name)
LEFT JOIN LATERAL (
  SELECT * FROM holdfast_records
  WHERE run_id = r.id AND seq > after AND seq >> 5 >= after >> 5 AND r.records - after <= 64
  ORDER BY seq OFFSET 0) AS new ON true
WHERE records > 0
ORDER BY n, seq
"""
"""The records of many runs; of a run with many new ones only its number of records."""

RUNS: Final = """
SELECT run, records, opened_at, changed_at, turn_open, agent,
  COALESCE(expires > clock_timestamp(), false)
FROM holdfast_runs WHERE tenant = %(tenant)s AND records > 0 ORDER BY run COLLATE "C"
"""

SIZES: Final = """
SELECT run, SUM(octet_length(event)) + COALESCE(MAX(octet_length(state)), 0) + COALESCE((
    SELECT SUM(octet_length(data)) FROM holdfast_media_uses AS u JOIN holdfast_media USING (digest)
    WHERE u.run_id = holdfast_runs.id), 0)
FROM holdfast_runs JOIN holdfast_records ON run_id = id LEFT JOIN holdfast_snapshots USING (run_id)
WHERE tenant = %(tenant)s GROUP BY holdfast_runs.id
"""

BYTES: Final = """
SELECT (SELECT COALESCE(SUM(bytes), 0) FROM holdfast_runs WHERE tenant = %(tenant)s)
  + (SELECT COALESCE(SUM(octet_length(body)), 0) FROM holdfast_inbox WHERE tenant = %(tenant)s)
  + (SELECT COALESCE(SUM(octet_length(definition)), 0) FROM holdfast_schedules WHERE tenant = %(tenant)s)
"""
"""The stored bytes of a tenant: a row of each run, and no record."""

BYTES_OF_RUN: Final = """
SELECT bytes FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s
"""

OPEN_RUNS: Final = """
SELECT run, records, opened_at, changed_at, turn_open, agent,
  COALESCE(expires > clock_timestamp(), false)
FROM holdfast_runs WHERE tenant = %(tenant)s AND records > 0 AND turn_open
"""
"""In no order: sorting thousands of names takes the server longer than the client."""

RUNS_BETWEEN: Final = """
SELECT run, records, opened_at, changed_at, turn_open, agent,
  COALESCE(expires > clock_timestamp(), false)
FROM holdfast_runs
WHERE tenant = %(tenant)s AND records > 0
  AND left(run, 200) COLLATE "C" BETWEEN left(%(first)s, 200) AND left(%(last)s, 200)
  AND run COLLATE "C" BETWEEN %(first)s AND %(last)s
ORDER BY run COLLATE "C"
"""

RECENT_RUNS: Final = """
(SELECT run, records, opened_at, changed_at, turn_open, agent,
  COALESCE(expires > clock_timestamp(), false)
FROM holdfast_runs
WHERE tenant = %(tenant)s AND status <> 'open' AND NOT nested AND listed_at IS NOT NULL
  AND listed_at <= %(at)s AND NOT (listed_at = %(at)s AND run COLLATE "C" <= %(run)s)
ORDER BY listed_at DESC, run COLLATE "C" LIMIT %(limit)s)
UNION ALL
(SELECT run, records, opened_at, changed_at, turn_open, agent,
  COALESCE(expires > clock_timestamp(), false)
FROM holdfast_runs
WHERE tenant = %(tenant)s AND turn_open AND status = 'open' AND NOT nested)
"""
"""The runs that wait or have ended and changed last, and all others with an open turn."""

DELETE_RUN: Final = """
DELETE FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s RETURNING id, records
"""

# A separate statement: it must see records appended while the first one waited for the row.
DELETE_RECORDS: Final = "DELETE FROM holdfast_records WHERE run_id = %(id)s"

DELETE_SNAPSHOT: Final = "DELETE FROM holdfast_snapshots WHERE run_id = %(id)s"

DELETE_REQUESTS: Final = "DELETE FROM holdfast_requests WHERE run_id = %(id)s"

RUN_ID: Final = "SELECT id FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s"

# The locks keep a deletion from deleting rows that an append is about to use, and the other way around.
KNOWN_MEDIA: Final = """
SELECT digest FROM holdfast_media WHERE digest = ANY(%(digests)s) ORDER BY digest FOR KEY SHARE
"""

SAVE_MEDIUM: Final = """
INSERT INTO holdfast_media (digest, data) VALUES (%(digest)s, %(data)s)
ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest
"""

USE_MEDIA: Final = """
INSERT INTO holdfast_media_uses (run_id, digest)
SELECT %(id)s, digest FROM unnest(%(digests)s::bytea[]) AS used (digest) ON CONFLICT DO NOTHING
"""

MEDIA: Final = (
    "SELECT encode(digest, 'hex'), data FROM holdfast_media WHERE digest = ANY(%(digests)s)"
)

LOCK_MEDIA: Final = """
SELECT digest FROM holdfast_media
WHERE digest IN (SELECT digest FROM holdfast_media_uses WHERE run_id = %(id)s)
ORDER BY digest FOR UPDATE
"""

# A separate statement: it must see the uses that were saved while the one before waited for a lock.
DELETE_MEDIA: Final = """
WITH used AS (DELETE FROM holdfast_media_uses WHERE run_id = %(id)s)
DELETE FROM holdfast_media AS m
WHERE digest IN (SELECT digest FROM holdfast_media_uses WHERE run_id = %(id)s)
  AND NOT EXISTS (
    SELECT 1 FROM holdfast_media_uses AS u WHERE u.digest = m.digest AND u.run_id <> %(id)s)
"""

TENANTS: Final = "SELECT DISTINCT tenant FROM holdfast_runs WHERE records > 0 ORDER BY tenant"

TENANTS_WITH_OPEN_TURNS: Final = (
    "SELECT DISTINCT tenant FROM holdfast_runs WHERE turn_open ORDER BY tenant"
)

IDENTITY: Final = """
SELECT md5(concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
  (SELECT oid FROM pg_database WHERE datname = current_database()),
  'holdfast_journal'::regclass::oid))
"""
"""The server, the database and the table: a journal in another schema has a table of its own."""

ORPHANS: Final = """
SELECT count(*) FROM holdfast_records WHERE run_id NOT IN (SELECT id FROM holdfast_runs)
"""

REQUEST: Final = """
SELECT run, key FROM holdfast_requests AS r JOIN holdfast_runs ON run_id = id
WHERE r.tenant = %(tenant)s AND request = %(request)s
"""

REQUESTS: Final = """
SELECT request FROM holdfast_requests
WHERE tenant = %(tenant)s AND request BETWEEN %(first)s AND %(last)s
ORDER BY request LIMIT %(most)s
"""

HISTORY: Final = """
SELECT key, type, CASE WHEN type = ANY(%(types)s) THEN event END
FROM holdfast_records WHERE run_id = (
  SELECT id FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s)
ORDER BY seq
"""

SET_TURNS: Final = """
UPDATE holdfast_runs SET title = %(title)s, turns = %(turns)s, messages = %(messages)s
WHERE tenant = %(tenant)s AND name = %(name)s
"""

KEYS_GROUP: Final = """
SELECT n, key
FROM unnest(%(tenants)s::text[], %(names)s::bytea[]) WITH ORDINALITY AS wanted (tenant, name, n)
JOIN holdfast_runs AS r USING (tenant, name)
JOIN LATERAL (
  SELECT seq, key FROM holdfast_records WHERE run_id = r.id ORDER BY seq OFFSET 0) AS new ON true
ORDER BY n, seq
"""

PICK_GROUP: Final = """
SELECT n, schema, run, seq, key, digest, type, at, event, checksum
FROM unnest(%(numbers)s::bigint[], %(keys)s::text[]) AS picked (n, wanted_key)
JOIN unnest(%(tenants)s::text[], %(names)s::bytea[])
  WITH ORDINALITY AS wanted (tenant, name, n) USING (n)
JOIN holdfast_runs AS r USING (tenant, name)
JOIN LATERAL (
  SELECT * FROM holdfast_records
  WHERE run_id = r.id AND key = wanted_key
    AND hashtextextended(key, 0) = hashtextextended(wanted_key COLLATE "C", 0)
  OFFSET 0) AS found ON true
ORDER BY n, seq
"""

# Collation "C", because other collations may compare letters differently, such as the Turkish i.
HOLDING: Final = """
SELECT run, key FROM holdfast_records JOIN holdfast_runs ON run_id = id
WHERE tenant = %(tenant)s AND type = ANY(%(said)s) AND event COLLATE "C" ILIKE ALL(%(patterns)s)
ORDER BY at DESC, run COLLATE "C", seq DESC
"""

_RESTORED: Final = (
    *("records", "bytes", "opened_at", "changed_at", "agent"),
    *RunState.__struct_fields__,
)

RESTORE_RUN: Final = f"""
INSERT INTO holdfast_runs AS r
  (tenant, name, run, nested, {", ".join(_RESTORED)}, listed_at, listed_cost)
VALUES (%(tenant)s, %(name)s, %(run)s, %(nested)s, {", ".join(f"%({name})s" for name in _RESTORED)},
  %(changed_at)s, %(cost)s)
ON CONFLICT (tenant, name) DO UPDATE SET
  {", ".join(f"{name} = excluded.{name}" for name in _RESTORED)},
  listed_at = excluded.listed_at, listed_cost = excluded.listed_cost
WHERE r.records = 0
RETURNING id
"""  # noqa: S608  # REASON: of constants only
"""A claimed run without records may be restored: the caller may have the lease."""

RESTORE_RECORD: Final = """
INSERT INTO holdfast_records
  (run_id, seq, key, digest, type, at, schema, event, checksum)
VALUES (%(id)s, %(seq)s, %(key)s, %(digest)s, %(type)s, %(at)s, %(schema)s, %(event)s,
  %(checksum)s)
"""

RESTORE_REQUEST: Final = """
INSERT INTO holdfast_requests (tenant, request, run_id, key)
VALUES (%(tenant)s, %(request)s, %(id)s, %(key)s) ON CONFLICT DO NOTHING
"""

SNAPSHOT: Final = """
SELECT state FROM holdfast_snapshots
WHERE run_id = (
  SELECT id FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s)
"""

# The lock prevents a deletion of the run meanwhile, which would leave the snapshot behind.
KEEP_SNAPSHOT: Final = """
INSERT INTO holdfast_snapshots AS s (run_id, state)
SELECT id, %(state)s FROM holdfast_runs WHERE tenant = %(tenant)s AND name = %(name)s AND records >= %(records)s
FOR KEY SHARE
ON CONFLICT (run_id) DO UPDATE SET state = excluded.state
"""

CLAIM: Final = """
INSERT INTO holdfast_runs AS r (tenant, name, run, nested, token, owner, expires)
SELECT tenant, name, run, nested, nextval('holdfast_tokens'), owner,
  clock_timestamp() + make_interval(secs => %(lease)s)
FROM unnest(%(tenants)s::text[], %(names)s::bytea[], %(runs)s::text[], %(nested)s::boolean[],
  %(owners)s::bytea[]) AS wanted (tenant, name, run, nested, owner)
ON CONFLICT (tenant, name) DO UPDATE SET
  token = excluded.token, owner = excluded.owner,
  expires = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE r.expires IS NULL OR r.expires <= clock_timestamp() OR r.owner = excluded.owner
RETURNING owner, token, id, records
"""
"""Claims of many runs. A claim whose response was lost is repeated with the same owner."""

RENEW: Final = """
UPDATE holdfast_runs AS r SET expires = clock_timestamp() + make_interval(secs => %(lease)s)
FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS held (id, token)
WHERE r.id = held.id AND r.token = held.token RETURNING r.token
"""

RELEASE: Final = """
WITH held AS (
  SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS held (id, token)),
unused AS (
  DELETE FROM holdfast_runs AS r USING held
  WHERE r.id = held.id AND r.token = held.token AND records = 0)
UPDATE holdfast_runs AS r SET token = NULL, owner = NULL, expires = NULL FROM held
WHERE r.id = held.id AND r.token = held.token AND records > 0
"""

SETTINGS: Final = """
SELECT set_config('statement_timeout', %(timeout)s, false),
  set_config('idle_in_transaction_session_timeout', %(timeout)s, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
  current_setting('server_encoding')
"""
"""Settings of a connection that override the server's defaults, so that no acknowledged record is lost."""
