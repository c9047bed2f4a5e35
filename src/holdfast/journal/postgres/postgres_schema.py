"""The tables of a PostgreSQL journal; `holdfast_journal.version` says which version they have.

Rules for editing: a step that was released is never changed, and there is no way back. A new version
is a further step.
"""

from __future__ import annotations

from typing import LiteralString

from holdfast.journal.inbox_schema import POSTGRES_TABLES as INBOX_TABLES
from holdfast.journal.service_statements import POSTGRES_TABLES

# `name` is the SHA-256 of `run`: an index takes no text of any length. `journal.rows` computes
# `checksum`. `bytes` is the length of its events with their media, so that a tenant is measured without
# reading them. `nested` says whether it is the run of a subagent. From `title` on, the columns say what a
# list of sessions shows of the turns of a run; see `core.run_fold`. `listed_at` is `changed_at`, and
# `listed_cost` is `cost`, without the records inside an open turn that does not wait, so that these
# change no column of an index. The last index has the costs in classes, nine of each power of ten: the
# latest runs of each class are found without the others. A request is the idempotency key of a turn's
# caller.
SCHEMA: tuple[LiteralString, ...] = (
    "CREATE TABLE holdfast_journal (version integer NOT NULL)",
    "INSERT INTO holdfast_journal (version) VALUES (1)",
    "CREATE SEQUENCE holdfast_tokens AS bigint",
    (
        "CREATE TABLE holdfast_runs ("
        " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        ' tenant text COLLATE "C" NOT NULL,'
        " name bytea NOT NULL,"
        " run text NOT NULL,"
        " records bigint NOT NULL DEFAULT 0,"
        " bytes bigint NOT NULL DEFAULT 0,"
        " opened_at double precision,"
        " changed_at double precision,"
        " turn_open boolean NOT NULL DEFAULT false,"
        " agent text NOT NULL DEFAULT '',"
        " nested boolean NOT NULL,"
        " title text NOT NULL DEFAULT '',"
        " turns integer NOT NULL DEFAULT 0,"
        " messages integer NOT NULL DEFAULT 0,"
        " turn integer NOT NULL DEFAULT 0,"
        " status text COLLATE \"C\" NOT NULL DEFAULT 'idle',"
        " in_doubt boolean NOT NULL DEFAULT false,"
        " questions text NOT NULL DEFAULT '',"
        " input bigint NOT NULL DEFAULT 0,"
        " cached_input bigint NOT NULL DEFAULT 0,"
        " output bigint NOT NULL DEFAULT 0,"
        " cost double precision,"
        " listed_at double precision,"
        " listed_cost double precision,"
        " token bigint,"
        " owner bytea,"
        " expires timestamptz,"
        " UNIQUE (tenant, name)"
        ") WITH (fillfactor = 80)"
    ),
    # With whether it is leased, as it is while it is driven: a lease begins and ends with the turn.
    (
        "CREATE INDEX holdfast_runs_open ON holdfast_runs (tenant, status, (token IS NOT NULL))"
        " WHERE turn_open"
    ),
    (
        "CREATE INDEX holdfast_runs_recent ON holdfast_runs (tenant, listed_at DESC)"
        " WHERE status <> 'open' AND NOT nested AND listed_at IS NOT NULL"
    ),
    (
        "CREATE INDEX holdfast_runs_by_state"
        " ON holdfast_runs (tenant, status, left(agent, 200), listed_at DESC, listed_cost)"
        " WHERE status <> 'open' AND NOT nested AND listed_at IS NOT NULL"
    ),
    (
        "CREATE INDEX holdfast_runs_by_cost ON holdfast_runs (tenant, (CASE WHEN listed_cost > 0"
        " THEN floor(log(listed_cost) * 9) ELSE -10000 END), listed_at DESC)"
        " WHERE status <> 'open' AND NOT nested AND listed_at IS NOT NULL AND listed_cost IS NOT NULL"
    ),
    ('CREATE INDEX holdfast_runs_by_name ON holdfast_runs (tenant, (left(run, 200)) COLLATE "C")'),
    (
        "CREATE TABLE holdfast_records ("
        " run_id bigint NOT NULL,"
        " at double precision NOT NULL,"
        " checksum bigint NOT NULL,"
        " seq integer NOT NULL,"
        " schema smallint NOT NULL,"
        ' key text COLLATE "C" NOT NULL,'
        ' type text COLLATE "C" NOT NULL,'
        ' digest text COLLATE "C" NOT NULL,'
        " event text NOT NULL"
        ")"
    ),
    # Of 64-bit hashes, since most of a record's bytes beside its event would be its key in an index.
    (
        "CREATE UNIQUE INDEX holdfast_records_by_key"
        " ON holdfast_records (run_id, hashtextextended(key, 0))"
    ),
    # Equal entries of an index take six bytes each. An append locks its run, so numbers are unique.
    "CREATE INDEX holdfast_records_by_seq ON holdfast_records (run_id, (seq >> 5))",
    (
        "CREATE TABLE holdfast_requests ("
        ' tenant text COLLATE "C" NOT NULL,'
        ' request text COLLATE "C" NOT NULL,'
        " run_id bigint NOT NULL,"
        " key text NOT NULL,"
        " PRIMARY KEY (tenant, request)"
        ")"
    ),
    "CREATE INDEX holdfast_requests_by_run ON holdfast_requests (run_id)",
    # The acts of people and programs on sessions. `session_name` is the SHA-256 of `session`. The id of an
    # act for a request with an idempotency key is made of that key.
    (
        "CREATE TABLE holdfast_acts ("
        ' tenant text COLLATE "C" NOT NULL,'
        ' id text COLLATE "C" NOT NULL,'
        " act text NOT NULL,"
        " session_name bytea NOT NULL,"
        " session text NOT NULL,"
        " made_by text NOT NULL,"
        " at double precision NOT NULL,"
        " details text NOT NULL,"
        " digest text NOT NULL,"
        " PRIMARY KEY (tenant, id)"
        ")"
    ),
    "CREATE INDEX holdfast_acts_by_session ON holdfast_acts (tenant, session_name, at)",
    "CREATE TABLE holdfast_snapshots (run_id bigint PRIMARY KEY, state bytea NOT NULL)",
    # Large bytes of pictures and files, once each, and which runs use them; see `journal.media_store`.
    "CREATE TABLE holdfast_media (digest bytea PRIMARY KEY, data bytea NOT NULL)",
    (
        "CREATE TABLE holdfast_media_uses ("
        " run_id bigint NOT NULL,"
        " digest bytea NOT NULL,"
        " PRIMARY KEY (run_id, digest)"
        ")"
    ),
    "CREATE INDEX holdfast_media_uses_by_digest ON holdfast_media_uses (digest)",
    # The tables of a service besides runs; see `journal.service_store.service_store`.
    *POSTGRES_TABLES,
    # Which turns are to be done; see `journal.inbox`.
    *INBOX_TABLES,
    # Acts for the processes that drive runs, until their results were read; see `journal.live_link`.
    (
        "CREATE TABLE holdfast_driver_acts ("
        " id text PRIMARY KEY,"
        ' tenant text COLLATE "C" NOT NULL,'
        " session text NOT NULL,"
        " act text NOT NULL,"
        " body text NOT NULL,"
        " result text,"
        " at timestamptz NOT NULL DEFAULT now()"
        ")"
    ),
)


STEPS: tuple[tuple[LiteralString, ...], ...] = (SCHEMA,)
"""The statements that make each version of the one before; the first step makes a new journal."""

VERSION = len(STEPS)
"""The version that this Holdfast reads and writes."""
