"""A service store in a database: the operations as statements. A subclass sends them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import TypeAlias, cast

from msgspec import convert
from msgspec.structs import asdict

from holdfast.journal import service_statements as sql
from holdfast.journal.rows import Row
from holdfast.journal.service_store.service_store import (
    REQUEST_KEEP,
    UPLOAD_KEEP,
    ApiKey,
    RequestName,
    SavedRequest,
    SignIn,
    TurnClaim,
    Upload,
)

Values: TypeAlias = Mapping[str, object]
Step: TypeAlias = tuple[str, Values]

_KeyRow: TypeAlias = tuple[
    str, bytes, str, str, str, float, float | None, float | None, float | None
]
_RequestRow: TypeAlias = tuple[str, str, int | None, bytes, float, float]


class SqlServiceStore(ABC):
    """The operations of `ServiceStore`; each is one transaction that is safe to repeat."""

    @abstractmethod
    async def perform(self, *steps: Step) -> list[Row]:
        """Execute statements in one transaction; return the rows of the last one."""

    async def add_key(self, key: ApiKey) -> None:
        """Save a new key."""
        await self.perform((sql.ADD_KEY, _key_values(key)))

    async def rotate_key(self, key_id: str, successor: ApiKey, until: float) -> bool:
        """Save a new key and let an old one expire, both or neither."""
        values = {**_key_values(successor), "old": key_id, "until": until}
        steps = ((text, values) for text in (sql.EXPIRE_KEY, sql.ADD_SUCCESSOR, sql.FIND_KEY))
        return bool(await self.perform(*steps))

    async def revoke_key(self, key_id: str, at: float) -> bool:
        """Revoke a key and end its sign-ins."""
        ids = {"id": key_id}
        end = (sql.END_SIGN_INS, ids)
        return bool(await self.perform(end, (sql.REVOKE_KEY, {**ids, "at": at})))

    async def note_use(self, key_id: str, at: float) -> None:
        """Save when a key was used."""
        await self.perform((sql.NOTE_USE, {"id": key_id, "at": at}))

    async def find_key(self, digest: bytes) -> ApiKey | None:
        """Return the key with this digest, also one that is not valid."""
        rows = await self.perform((sql.FIND_KEY, {"digest": digest}))
        return _to_key(rows[0]) if rows else None

    async def list_keys(self) -> Sequence[ApiKey]:
        """Return the keys of all tenants, oldest first."""
        return [_to_key(row) for row in await self.perform((sql.LIST_KEYS, {}))]

    async def has_keys(self) -> bool:
        """Whether a key was ever made."""
        return bool(await self.perform((sql.HAS_KEYS, {})))

    async def add_sign_in(self, sign_in: SignIn) -> None:
        """Save a new sign-in, and delete those that ended."""
        values = asdict(sign_in)
        await self.perform((sql.DELETE_ENDED_SIGN_INS, values), (sql.ADD_SIGN_IN, values))

    async def find_sign_in(self, digest: bytes) -> tuple[SignIn, ApiKey] | None:
        """Return the sign-in with this digest and its key."""
        rows = await self.perform((sql.FIND_SIGN_IN, {"digest": digest}))
        if not rows:
            return None
        key_id, created_at, expires_at = cast("tuple[str, float, float]", rows[0][:3])
        sign_in = SignIn(digest=digest, key_id=key_id, created_at=created_at, expires_at=expires_at)
        return sign_in, _to_key(rows[0][3:])

    async def delete_sign_in(self, digest: bytes) -> None:
        """End a sign-in."""
        await self.perform((sql.DELETE_SIGN_IN, {"digest": digest}))

    async def claim_request(
        self, name: RequestName, digest: str, *, owner: str, now: float, lease: float = 60.0
    ) -> SavedRequest:
        """Begin a request, unless the store has it already."""
        values = {
            "name": _digest_name(name),
            "digest": digest,
            "owner": owner,
            "body": b"",
            "now": now,
            "claimed_until": now + lease,
        }
        rows = await self.perform(
            (sql.DELETE_OLD_REQUESTS, {"oldest": now - REQUEST_KEEP}),
            (sql.CLAIM_REQUEST, values),
            (sql.FIND_REQUEST, values),
        )
        found, owned_by, status, body, created_at, until = cast("_RequestRow", rows[0])
        return SavedRequest(
            digest=found,
            owner=owned_by,
            status=status,
            body=bytes(body),
            created_at=created_at,
            claimed_until=until,
        )

    async def finish_request(self, name: RequestName, status: int, body: bytes) -> None:
        """Save the answer to a request, unless it has one."""
        values = {"name": _digest_name(name), "status": status, "body": body}
        await self.perform((sql.FINISH_REQUEST, values))

    async def renew_claim(self, name: RequestName, owner: str, until: float) -> None:
        """Let nobody take over a request before a time."""
        values = {"name": _digest_name(name), "owner": owner, "until": until}
        await self.perform((sql.RENEW_CLAIM, values))

    async def expire_claims(self, now: float) -> None:
        """Let repetitions take over all requests under way."""
        await self.perform((sql.EXPIRE_CLAIMS, {"now": now}))

    async def release_request(self, name: RequestName, owner: str) -> None:
        """Forget a request that was not performed."""
        await self.perform((sql.RELEASE_REQUEST, {"name": _digest_name(name), "owner": owner}))

    async def find_claims(self, body: str, since: float) -> Sequence[TurnClaim]:
        """Return the claims of turns with equal bodies."""
        rows = await self.perform((sql.FIND_CLAIMS, {"body": body, "since": since}))
        fields = TurnClaim.__struct_fields__
        return [convert(dict(zip(fields, row, strict=True)), TurnClaim) for row in rows]

    async def claim_turn(self, claim: TurnClaim, holder: str) -> bool:
        """Save a claim if the turn has no other one."""
        return bool(await self.perform((sql.CLAIM_TURN, {**asdict(claim), "before": holder})))

    async def save_claims(self, claims: Sequence[TurnClaim], since: float) -> None:
        """Save claims, and delete old ones."""
        steps: list[Step] = [(sql.DELETE_OLD_CLAIMS, {"since": since})]
        ordered = sorted(claims, key=attrgetter("name"))  # as others lock the rows
        for first in range(0, len(ordered), sql.CLAIMS_AT_ONCE):
            some = ordered[first : first + sql.CLAIMS_AT_ONCE]
            values = {f"{k}{n}": v for n, one in enumerate(some) for k, v in asdict(one).items()}
            steps.append((sql.save_claims(len(some)), values))
        await self.perform(*steps)

    async def add_upload(self, upload: Upload) -> None:
        """Save bytes, and delete old ones."""
        values = asdict(upload)
        oldest = {"oldest": upload.created_at - UPLOAD_KEEP}
        await self.perform((sql.DELETE_OLD_UPLOADS, oldest), (sql.ADD_UPLOAD, values))

    async def find_upload(self, tenant: str, name: str) -> Upload | None:
        """Return the bytes with this name."""
        rows = await self.perform((sql.FIND_UPLOAD, {"tenant": tenant, "name": name}))
        if not rows:
            return None
        media_type, data, created_at = cast("tuple[str, bytes, float]", tuple(rows[0]))
        return Upload(
            tenant=tenant,
            name=name,
            media_type=media_type,
            data=bytes(data),
            created_at=created_at,
        )

    async def count_bytes(self, tenant: str) -> int:
        """Return the bytes of the uploads of a tenant."""
        return int(str((await self.perform((sql.COUNT_UPLOADED, {"tenant": tenant})))[0][0]))

    async def probe(self, at: float) -> None:
        """Write one row, which shows that the store can be written."""
        await self.perform((sql.PROBE, {"at": at}))


def _key_values(key: ApiKey) -> dict[str, object]:
    return {**asdict(key), "scopes": " ".join(key.scopes)}


def _to_key(row: Row) -> ApiKey:
    key_id, digest, tenant, name, scopes, created_at, expires_at, revoked_at, used_at = cast(
        "_KeyRow", tuple(row)
    )
    return ApiKey(
        id=key_id,
        digest=bytes(digest),
        tenant=tenant,
        name=name,
        scopes=tuple(scopes.split()),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        used_at=used_at,
    )


def _digest_text(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _digest_name(name: RequestName) -> bytes:
    # The length of each part is included, so that no two names are one text.
    parts = (name.tenant, name.route, name.key)
    return _digest_text("".join(f"{len(part)}:{part}" for part in parts))
