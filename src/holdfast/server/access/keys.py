"""Keys: how they are made and recognized. A key is shown once; only its SHA-256 is stored.

A key has 256 random bits, so a plain hash suffices: there is nothing to guess from a stolen digest.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256

from msgspec.structs import replace

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonEmptyText, PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_names import DEFAULT_TENANT, check_name
from holdfast.journal.service_store.service_store import ApiKey
from holdfast.server.access.principals import Principal, parse_scopes

PREFIX = "hf_"

_FORM = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


def make_key(
    name: str,
    *,
    scopes: tuple[str, ...],
    now: float,
    tenant: str = DEFAULT_TENANT,
    seconds: float | None = None,
) -> tuple[str, ApiKey]:
    """Return a new key, and its stored form.

    Args:
        name: who will use it.
        scopes: its rights.
        now: the time, in seconds since the epoch.
        tenant: the tenant whose runs it can reach.
        seconds: after which it expires; None for never.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> key, stored = make_key("ci", scopes=("run",), now=0.0)
    >>> key[:3], len(key), stored.name, stored.scopes
    ('hf_', 46, 'ci', ('run',))
    """
    check_value("name", name, NonEmptyText)
    check_name("name", name)
    if not name.isprintable():
        raise ConfigurationError("name", "contains a character that cannot be printed")
    check_name("tenant", tenant)
    check_value("expires", seconds, PositiveFloat | None)
    stored = ApiKey(
        id="",
        digest=b"",
        tenant=tenant,
        name=name,
        scopes=parse_scopes(scopes),
        created_at=now,
        expires_at=None if seconds is None else now + seconds,
    )
    return make_successor(stored, now)


def make_successor(old: ApiKey, now: float) -> tuple[str, ApiKey]:
    """Return a new key for the same holder, and its stored form.

    Args:
        old: the key that is replaced.
        now: the time, in seconds since the epoch. A new key lives as long as the old one was to live.
    """
    text = PREFIX + secrets.token_urlsafe(32)
    digest = digest_secret(text)
    end = None if old.expires_at is None else now + old.expires_at - old.created_at
    return text, replace(
        old,
        id=digest.hex()[:12],
        digest=digest,
        created_at=now,
        expires_at=end,
        revoked_at=None,
        used_at=None,
    )


def digest_secret(text: str) -> bytes:
    """Return the SHA-256 under which a key, or the id of a sign-in, is stored."""
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


def is_key(text: str) -> bool:
    """Whether a text has the form of a key. Another text needs no search.

    >>> is_key("hf_" + "A" * 43), is_key("hf_short")
    (True, False)
    """
    return _FORM.fullmatch(text) is not None


def accept_key(stored: ApiKey | None, digest: bytes, now: float) -> Principal | None:
    """Return whom a stored key stands for; None if it is another key or not valid at this time."""
    if stored is None or not hmac.compare_digest(stored.digest, digest) or not stored.is_valid(now):
        return None
    return Principal(stored.tenant, stored.name, frozenset(stored.scopes), stored.id)
