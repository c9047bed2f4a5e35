"""The store of a service besides runs and acts: keys, sign-ins, answered requests, claims and uploads.

The store lies beside the journal, and several processes may use it at once. It must never contain a
key or the id of a sign-in, only their SHA-256 digests. All times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

REQUEST_KEEP = 86_400.0
"""Seconds for which the answer to a request with an idempotency key is stored."""


UPLOAD_KEEP = 86_400.0
"""Seconds for which bytes are stored after they were sent."""


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key of a program or a person that calls the service.

    Args:
        id: names the key in lists and logs; it is not secret.
        digest: the SHA-256 of the key.
        tenant: the tenant whose runs the key can reach.
        name: who uses the key; acts are recorded with it.
        scopes: the rights of the key.
        created_at: when it was made.
        expires_at: from when on it is not accepted; None for never.
        revoked_at: when it was revoked; None if it was not.
        used_at: about when it was last used; None if it never was.
    """

    id: str
    digest: bytes
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None

    def is_valid(self, now: float) -> bool:
        """Whether the key is accepted at this time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class SignIn(Struct, frozen=True, kw_only=True):
    """A person who signed in to the console with a key.

    Args:
        digest: the SHA-256 of the id in the cookie.
        key_id: the key; the sign-in ends with it.
        created_at: when the person signed in.
        expires_at: when the sign-in ends.
    """

    digest: bytes
    key_id: str
    created_at: float
    expires_at: float


class RequestName(Struct, frozen=True):
    """Names a request by its idempotency key.

    Args:
        tenant: the tenant of the caller.
        route: the method and the path.
        key: the idempotency key that the caller chose.
    """

    tenant: str
    route: str
    key: str


class SavedRequest(Struct, frozen=True, kw_only=True):
    """A request with an idempotency key, which is under way or was answered.

    Args:
        digest: the digest of its body.
        owner: who performs it.
        status: the HTTP status of its answer; None while it is under way.
        body: the answer.
        created_at: when it came.
        claimed_until: until when its owner performs it; later a repetition may take it over.
    """

    digest: str
    owner: str
    status: int | None
    body: bytes
    created_at: float
    claimed_until: float


ClaimState: TypeAlias = Literal["open", "left", "got"]
"""Whether the holder of a turn waits for its answer, has left without it, or has got it."""


class TurnClaim(Struct, frozen=True, kw_only=True):
    """Whose request gets the answer of a turn that was begun without an idempotency key.

    Args:
        name: the request of the turn, which the service made.
        body: the digest of the body and of its sender; the turns of equal requests have it in common.
        holder: the connection that holds the turn.
        state: whether the holder waits, has left or has got the answer.
        at: when the turn was wanted first.
    """

    name: str
    body: str
    holder: str
    state: ClaimState
    at: float


class Upload(Struct, frozen=True, kw_only=True):
    """Bytes that were sent for a message.

    Args:
        tenant: the tenant.
        name: names the bytes; equal bytes have equal names.
        media_type: such as "image/png".
        data: the bytes.
        created_at: when they were sent last.
    """

    tenant: str
    name: str
    media_type: str
    data: bytes
    created_at: float


class ServiceStore(Protocol):
    """Stores everything of a service besides the runs. Every method may raise JournalError."""

    async def add_key(self, key: ApiKey) -> None:
        """Save a new key."""
        ...

    async def rotate_key(self, key_id: str, successor: ApiKey, until: float) -> bool:
        """Save a new key and let an old one expire, both or neither.

        Args:
            key_id: the old key.
            successor: the new key.
            until: when the old key expires, unless it expires earlier.

        Returns:
            Whether there is an old key that was not revoked; otherwise nothing is saved.
        """
        ...

    async def revoke_key(self, key_id: str, at: float) -> bool:
        """Revoke a key and end its sign-ins. Returns whether there is one that was not revoked."""
        ...

    async def note_use(self, key_id: str, at: float) -> None:
        """Save when a key was used."""
        ...

    async def find_key(self, digest: bytes) -> ApiKey | None:
        """Return the key with this digest, also one that is not valid."""
        ...

    async def list_keys(self) -> Sequence[ApiKey]:
        """Return the keys of all tenants, also those that are not valid, oldest first."""
        ...

    async def has_keys(self) -> bool:
        """Whether a key was ever made, even if none is valid now."""
        ...

    async def add_sign_in(self, sign_in: SignIn) -> None:
        """Save a new sign-in, and delete those that ended."""
        ...

    async def find_sign_in(self, digest: bytes) -> tuple[SignIn, ApiKey] | None:
        """Return the sign-in with this digest and its key."""
        ...

    async def delete_sign_in(self, digest: bytes) -> None:
        """End a sign-in."""
        ...

    async def claim_request(
        self, name: RequestName, digest: str, *, owner: str, now: float, lease: float = 60.0
    ) -> SavedRequest:
        """Begin a request, unless the store has it already.

        Args:
            name: names the request.
            digest: the digest of its body.
            owner: a text that no other caller of this method has.
            now: the time.
            lease: seconds after which a repetition may take over the request, if it has no answer.

        Returns:
            The saved request. The caller performs it if `owner` is its own.
        """
        ...

    async def finish_request(self, name: RequestName, status: int, body: bytes) -> None:
        """Save the answer to a request, unless it has one."""
        ...

    async def renew_claim(self, name: RequestName, owner: str, until: float) -> None:
        """Let nobody take over a request that is under way before a time, if it has this owner."""
        ...

    async def expire_claims(self, now: float) -> None:
        """Let repetitions take over all requests under way; whoever performed them has died."""
        ...

    async def release_request(self, name: RequestName, owner: str) -> None:
        """Forget a request that was not performed, so that it can be repeated at once."""
        ...

    async def find_claims(self, body: str, since: float) -> Sequence[TurnClaim]:
        """Return the claims of turns with equal bodies that were wanted at a time or later."""
        ...

    async def claim_turn(self, claim: TurnClaim, holder: str) -> bool:
        """Save a claim if the turn has no other one, or one of this holder who has not got the answer.

        Returns:
            Whether it was saved.
        """
        ...

    async def save_claims(self, claims: Sequence[TurnClaim], since: float) -> None:
        """Save claims, but those of turns that another holder has claimed; delete those before a time."""
        ...

    async def add_upload(self, upload: Upload) -> None:
        """Save bytes, and delete those that are older than `UPLOAD_KEEP`."""
        ...

    async def find_upload(self, tenant: str, name: str) -> Upload | None:
        """Return the bytes with this name."""
        ...

    async def count_bytes(self, tenant: str) -> int:
        """Return the bytes of the uploads of a tenant."""
        ...

    async def probe(self, at: float) -> None:
        """Write one row, and something that needs new space: both show that the store can be written."""
        ...

    def close(self) -> None:
        """Close the store. A second call does nothing."""
        ...
