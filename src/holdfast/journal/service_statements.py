"""The tables and statements of a service store, for SQLite and for PostgreSQL.

Both understand every statement; a parameter is written `:name`. Rules for editing: a version that was
released is never changed, and there is no way back.
"""

from __future__ import annotations

from typing import LiteralString

_TABLES: tuple[LiteralString, ...] = (
    (
        "CREATE TABLE holdfast_keys ("
        " id text PRIMARY KEY,"
        " digest {bytes} NOT NULL UNIQUE,"
        " tenant text NOT NULL,"
        " name text NOT NULL,"
        " scopes text NOT NULL,"
        " created_at {time} NOT NULL,"
        " expires_at {time},"
        " revoked_at {time},"
        " used_at {time}"
        ")"
    ),
    (
        "CREATE TABLE holdfast_sign_ins ("
        " digest {bytes} PRIMARY KEY,"
        " key_id text NOT NULL,"
        " created_at {time} NOT NULL,"
        " expires_at {time} NOT NULL"
        ")"
    ),
    # A request with an idempotency key. The route may contain a session of any length, and the caller
    # chooses the key, so their digest is the primary key.
    (
        "CREATE TABLE holdfast_answered ("
        " name {bytes} PRIMARY KEY,"
        " digest text NOT NULL,"
        " owner text NOT NULL,"
        " status integer,"
        " body {bytes} NOT NULL,"
        " created_at {time} NOT NULL,"
        " claimed_until {time} NOT NULL"
        ")"
    ),
    "CREATE INDEX holdfast_answered_by_time ON holdfast_answered (created_at)",
    # Who holds the turns that were begun without an idempotency key. A turn without a row is held by
    # the connection that began it.
    (
        "CREATE TABLE holdfast_turn_claims ("
        " name text PRIMARY KEY,"
        " body text NOT NULL,"
        " holder text NOT NULL,"
        " state text NOT NULL,"
        " at {time} NOT NULL"
        ")"
    ),
    "CREATE INDEX holdfast_turn_claims_by_body ON holdfast_turn_claims (body, at)",
    "CREATE INDEX holdfast_turn_claims_by_time ON holdfast_turn_claims (at)",
    # The uploads for messages; a message that begins a turn is saved with a copy in the journal.
    (
        "CREATE TABLE holdfast_uploads ("
        " tenant text NOT NULL,"
        " name text NOT NULL,"
        " media_type text NOT NULL,"
        " data {bytes} NOT NULL,"
        " created_at {time} NOT NULL,"
        " PRIMARY KEY (tenant, name)"
        ")"
    ),
    "CREATE INDEX holdfast_uploads_by_time ON holdfast_uploads (created_at)",
    "CREATE TABLE holdfast_probe (id integer PRIMARY KEY, at {time} NOT NULL)",
)

POSTGRES_TABLES: tuple[LiteralString, ...] = tuple(
    text.format(bytes="bytea", time="double precision") for text in _TABLES
)
"""The tables in the database of a journal."""

SQLITE_TABLES = tuple(text.format(bytes="blob", time="real") for text in _TABLES)
"""The tables in a SQLite file of their own."""

_COLUMNS = "id, digest, tenant, name, scopes, created_at, expires_at, revoked_at, used_at"

ADD_KEY = f"""
INSERT INTO holdfast_keys ({_COLUMNS})
VALUES (:id, :digest, :tenant, :name, :scopes, :created_at, :expires_at, :revoked_at, :used_at)
ON CONFLICT DO NOTHING
"""  # noqa: S608  # REASON: made of constants
EXPIRE_KEY = """
UPDATE holdfast_keys SET expires_at =
  CASE WHEN expires_at IS NULL OR expires_at > :until THEN :until ELSE expires_at END
WHERE id = :old AND revoked_at IS NULL
"""
ADD_SUCCESSOR = """
INSERT INTO holdfast_keys (id, digest, tenant, name, scopes, created_at, expires_at)
SELECT :id, :digest, :tenant, :name, :scopes, :created_at, CAST(:expires_at AS double precision)
WHERE EXISTS (SELECT 1 FROM holdfast_keys WHERE id = :old AND revoked_at IS NULL)
ON CONFLICT DO NOTHING
"""
REVOKE_KEY = """
UPDATE holdfast_keys SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL RETURNING id
"""
END_SIGN_INS = "DELETE FROM holdfast_sign_ins WHERE key_id = :id"
NOTE_USE = "UPDATE holdfast_keys SET used_at = :at WHERE id = :id"
FIND_KEY = f"SELECT {_COLUMNS} FROM holdfast_keys WHERE digest = :digest"  # noqa: S608  # REASON: as above
LIST_KEYS = f"SELECT {_COLUMNS} FROM holdfast_keys ORDER BY created_at, id"  # noqa: S608  # REASON: as above
HAS_KEYS = "SELECT 1 FROM holdfast_keys LIMIT 1"

ADD_SIGN_IN = """
INSERT INTO holdfast_sign_ins (digest, key_id, created_at, expires_at)
VALUES (:digest, :key_id, :created_at, :expires_at) ON CONFLICT DO NOTHING
"""
DELETE_ENDED_SIGN_INS = "DELETE FROM holdfast_sign_ins WHERE expires_at <= :created_at"
FIND_SIGN_IN = """
SELECT s.key_id, s.created_at, s.expires_at,
  k.id, k.digest, k.tenant, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.used_at
FROM holdfast_sign_ins s JOIN holdfast_keys k ON k.id = s.key_id WHERE s.digest = :digest
"""
DELETE_SIGN_IN = "DELETE FROM holdfast_sign_ins WHERE digest = :digest"

DELETE_OLD_REQUESTS = "DELETE FROM holdfast_answered WHERE created_at <= :oldest"
CLAIM_REQUEST = """
INSERT INTO holdfast_answered AS saved
  (name, digest, owner, status, body, created_at, claimed_until)
VALUES (:name, :digest, :owner, NULL, :body, :now, :claimed_until)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, claimed_until = excluded.claimed_until
WHERE saved.status IS NULL AND saved.claimed_until <= :now AND saved.digest = excluded.digest
"""
FIND_REQUEST = """
SELECT digest, owner, status, body, created_at, claimed_until
FROM holdfast_answered WHERE name = :name
"""
FINISH_REQUEST = """
UPDATE holdfast_answered SET status = :status, body = :body WHERE name = :name AND status IS NULL
"""
RENEW_CLAIM = """
UPDATE holdfast_answered SET claimed_until = :until
WHERE name = :name AND status IS NULL AND owner = :owner
"""
EXPIRE_CLAIMS = "UPDATE holdfast_answered SET claimed_until = :now WHERE status IS NULL"
RELEASE_REQUEST = """
DELETE FROM holdfast_answered WHERE name = :name AND status IS NULL AND owner = :owner
"""

FIND_CLAIMS = """
SELECT name, body, holder, state, at FROM holdfast_turn_claims WHERE body = :body AND at >= :since
"""
CLAIM_TURN = """
INSERT INTO holdfast_turn_claims AS saved (name, body, holder, state, at)
VALUES (:name, :body, :holder, :state, :at)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, state = excluded.state
WHERE saved.holder IN (:before, excluded.holder) AND saved.state <> 'got' RETURNING name
"""
DELETE_OLD_CLAIMS = "DELETE FROM holdfast_turn_claims WHERE at < :since"

CLAIMS_AT_ONCE = 100
"""How many claims one statement saves at most."""

_SAVE_CLAIMS = """
INSERT INTO holdfast_turn_claims AS saved (name, body, holder, state, at) VALUES {}
ON CONFLICT (name) DO UPDATE SET state = excluded.state
WHERE saved.holder = excluded.holder AND saved.state <> 'got'
"""


def save_claims(count: int) -> str:
    """Return the statement that saves some claims, whose parameters have the number of the claim at the end.

    >>> save_claims(1).split("VALUES ")[1].splitlines()[0]
    '(:name0, :body0, :holder0, :state0, :at0)'
    """
    rows = (f"(:name{n}, :body{n}, :holder{n}, :state{n}, :at{n})" for n in range(count))
    return _SAVE_CLAIMS.format(", ".join(rows))


DELETE_OLD_UPLOADS = "DELETE FROM holdfast_uploads WHERE created_at <= :oldest"
ADD_UPLOAD = """
INSERT INTO holdfast_uploads (tenant, name, media_type, data, created_at)
VALUES (:tenant, :name, :media_type, :data, :created_at)
ON CONFLICT (tenant, name) DO UPDATE SET created_at = excluded.created_at
"""
FIND_UPLOAD = """
SELECT media_type, data, created_at FROM holdfast_uploads WHERE tenant = :tenant AND name = :name
"""
COUNT_UPLOADED = """
SELECT COALESCE(SUM(length(data)), 0) FROM holdfast_uploads WHERE tenant = :tenant
"""
LITTLE_MEMORY = "SELECT set_config('work_mem', '64kB', true)"
"""Lets PostgreSQL write the rows that the next statements of the transaction collect to a temporary file."""

NEED_SPACE = "SELECT count(*) FROM generate_series(1, 20000)"
"""Collects some 300 kB of rows."""

PROBE = """
INSERT INTO holdfast_probe (id, at) VALUES (1, :at) ON CONFLICT (id) DO UPDATE SET at = excluded.at
"""
