"""A service store in memory, beside a journal in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec.structs import replace

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


class MemoryServiceStore:
    """Stores keys, sign-ins, requests and uploads as long as the object lives; see `ServiceStore`.

    >>> import asyncio
    >>> asyncio.run(MemoryServiceStore().has_keys())
    False
    """

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._sign_ins: dict[bytes, SignIn] = {}
        self._requests: OrderedDict[RequestName, SavedRequest] = OrderedDict()
        self._claims: dict[str, TurnClaim] = {}
        self._uploads: dict[tuple[str, str], Upload] = {}

    async def add_key(self, key: ApiKey) -> None:
        """Save a new key."""
        self._keys[key.id] = key

    async def rotate_key(self, key_id: str, successor: ApiKey, until: float) -> bool:
        """Save a new key and let an old one expire."""
        old = self._keys.get(key_id)
        if old is None or old.revoked_at is not None:
            return False
        end = until if old.expires_at is None else min(until, old.expires_at)
        self._keys[key_id] = replace(old, expires_at=end)
        self._keys[successor.id] = successor
        return True

    async def revoke_key(self, key_id: str, at: float) -> bool:
        """Revoke a key and end its sign-ins."""
        key = self._keys.get(key_id)
        if key is None or key.revoked_at is not None:
            return False
        self._keys[key_id] = replace(key, revoked_at=at)
        for digest, sign_in in list(self._sign_ins.items()):
            if sign_in.key_id == key_id:
                del self._sign_ins[digest]
        return True

    async def note_use(self, key_id: str, at: float) -> None:
        """Save when a key was used."""
        if key_id in self._keys:
            self._keys[key_id] = replace(self._keys[key_id], used_at=at)

    async def find_key(self, digest: bytes) -> ApiKey | None:
        """Return the key with this digest."""
        return next((key for key in self._keys.values() if key.digest == digest), None)

    async def list_keys(self) -> Sequence[ApiKey]:
        """Return all keys, oldest first."""
        return sorted(self._keys.values(), key=lambda key: (key.created_at, key.id))

    async def has_keys(self) -> bool:
        """Whether a key was ever made."""
        return bool(self._keys)

    async def add_sign_in(self, sign_in: SignIn) -> None:
        """Save a new sign-in, and delete those that ended."""
        for digest, other in list(self._sign_ins.items()):
            if other.expires_at <= sign_in.created_at:
                del self._sign_ins[digest]
        self._sign_ins[sign_in.digest] = sign_in

    async def find_sign_in(self, digest: bytes) -> tuple[SignIn, ApiKey] | None:
        """Return the sign-in with this digest and its key."""
        sign_in = self._sign_ins.get(digest)
        return None if sign_in is None else (sign_in, self._keys[sign_in.key_id])

    async def delete_sign_in(self, digest: bytes) -> None:
        """End a sign-in."""
        self._sign_ins.pop(digest, None)

    async def claim_request(
        self, name: RequestName, digest: str, *, owner: str, now: float, lease: float = 60.0
    ) -> SavedRequest:
        """Begin a request, unless the store has it already."""
        self._delete_old_requests(now - REQUEST_KEEP)
        saved = self._requests.get(name)
        if saved is None or _is_abandoned(saved, digest, now):
            self._requests.pop(name, None)  # so that the requests stay in the order of their times
            saved = self._requests[name] = SavedRequest(
                digest=digest,
                owner=owner,
                status=None,
                body=b"",
                created_at=now,
                claimed_until=now + lease,
            )
        return saved

    def _delete_old_requests(self, oldest: float) -> None:
        """Delete the requests up to a time; they are the first ones."""
        while self._requests:
            name = next(iter(self._requests))
            if self._requests[name].created_at > oldest:
                return
            del self._requests[name]

    async def finish_request(self, name: RequestName, status: int, body: bytes) -> None:
        """Save the answer to a request, unless it has one."""
        saved = self._requests.get(name)
        if saved is not None and saved.status is None:
            self._requests[name] = replace(saved, status=status, body=body)

    async def renew_claim(self, name: RequestName, owner: str, until: float) -> None:
        """Let nobody take over a request before a time."""
        saved = self._requests.get(name)
        if saved is not None and saved.status is None and saved.owner == owner:
            self._requests[name] = replace(saved, claimed_until=until)

    async def expire_claims(self, now: float) -> None:
        """Let repetitions take over all requests under way."""
        for name, saved in self._requests.items():
            if saved.status is None:
                self._requests[name] = replace(saved, claimed_until=now)

    async def release_request(self, name: RequestName, owner: str) -> None:
        """Forget a request that was not performed."""
        saved = self._requests.get(name)
        if saved is not None and saved.status is None and saved.owner == owner:
            del self._requests[name]

    async def find_claims(self, body: str, since: float) -> Sequence[TurnClaim]:
        """Return the claims of turns with equal bodies."""
        return [one for one in self._claims.values() if one.body == body and one.at >= since]

    async def claim_turn(self, claim: TurnClaim, holder: str) -> bool:
        """Save a claim if the turn has no other one."""
        saved = self._claims.get(claim.name)
        holders = (holder, claim.holder)
        if saved is not None and (saved.holder not in holders or saved.state == "got"):
            return False
        self._claims[claim.name] = claim
        return True

    async def save_claims(self, claims: Sequence[TurnClaim], since: float) -> None:
        """Save claims, and delete old ones."""
        for name, old in list(self._claims.items()):
            if old.at < since:
                del self._claims[name]
        for claim in claims:
            saved = self._claims.get(claim.name)
            if saved is None or (saved.holder == claim.holder and saved.state != "got"):
                self._claims[claim.name] = claim

    async def add_upload(self, upload: Upload) -> None:
        """Save bytes, and delete old ones."""
        for name, other in list(self._uploads.items()):
            if other.created_at <= upload.created_at - UPLOAD_KEEP:
                del self._uploads[name]
        self._uploads[upload.tenant, upload.name] = upload

    async def find_upload(self, tenant: str, name: str) -> Upload | None:
        """Return the bytes with this name."""
        return self._uploads.get((tenant, name))

    async def count_bytes(self, tenant: str) -> int:
        """Return the bytes of the uploads of a tenant."""
        return sum(len(one.data) for one in self._uploads.values() if one.tenant == tenant)

    async def probe(self, at: float) -> None:
        """Do nothing, since memory can always be written."""

    def close(self) -> None:
        """Do nothing: the object may be used further."""


def _is_abandoned(saved: SavedRequest, digest: str, now: float) -> bool:
    """Whether the owner of a request died before it was answered."""
    return saved.status is None and saved.claimed_until <= now and saved.digest == digest
