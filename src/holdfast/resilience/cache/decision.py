"""The decisions of the cache: the key of a request, and the replies that are saved and removed. Pure.

A key is a strong hash of everything that is sent, in a canonical form, with the scope of the
credentials in it: a reply must never cross from one account to another. Only a complete reply is
saved, and a reply that calls tools only if that is wanted, since the tools would run again.
`strategy` shares an `LruCache` between runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Generic, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Reply, ReplyKind
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.pipeline import T

KeyOf: TypeAlias = Callable[[object], str | None]
"""The key of a payload; None when it has none, and then the cache is not used."""

Weigh: TypeAlias = Callable[[object], int | None]
"""The size of a value in bytes; None when it must not be saved."""


def account_scope(*credentials: str) -> str:
    """A name for an account that does not show its key; the same for the same credentials.

    >>> account_scope("sk-1", "https://a") == account_scope("sk-1", "https://a") != account_scope("sk-2", "https://a")
    True
    """
    return _hash_bytes(_encode(credentials))


def request_key(scope: str) -> KeyOf:
    """The key function for model requests of one account: everything that is sent, but `stream`.

    Args:
        scope: names the account and the endpoint; `account_scope` makes one.

    Raises:
        ConfigurationError: the scope is empty.
    """
    if not scope:
        raise ConfigurationError(
            "cache.scope", "must name the credentials", fix="Use account_scope(base_url, api_key)"
        )

    def key_of(payload: object) -> str | None:
        if not isinstance(payload, ModelRequest):
            return None
        return canonical_key((scope, msgspec.structs.replace(payload, stream=False)))

    return key_of


def canonical_key(value: object) -> str | None:
    """A strong hash of any value that has a JSON form, which does not depend on the order of its mappings.

    >>> canonical_key({"a": 1, "b": (2,)}) == canonical_key({"b": [2], "a": 1})
    True
    >>> canonical_key(object()) is None
    True
    """
    try:
        return _hash_bytes(_encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _hash_bytes(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def _encode_sequence(value: object) -> object:
    """A sequence of our own kind as a list; anything else has no canonical form."""
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(type(value).__name__)


_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_encode_sequence).encode


def weigh_reply(options: CacheOptions) -> Weigh:
    """The size of a reply that may be saved: a complete one that ended by itself."""

    def weigh(value: object) -> int | None:
        if not isinstance(value, Reply) or value.kind is not ReplyKind.COMPLETE:
            return None
        if value.finish is not FinishReason.STOP and not value.calls:
            return None
        if value.calls and not options.tool_calls:
            return None
        try:
            return len(_encode(value))
        except (TypeError, ValueError, OverflowError):
            return None

    return weigh


class CacheEntry(Struct, Generic[T], frozen=True):
    """A saved value, its size in bytes, and when it was saved on the monotonic clock."""

    value: T
    weight: int
    at: float


class LruCache(Generic[T]):
    """Entries in the order of their last use, limited in number, size and age.

    >>> cache = LruCache(CacheOptions(entries=2, ttl=10))
    >>> for name in "abc":
    ...     cache.put(name, name.upper(), weight=1, now=0.0)
    >>> cache.get("a", 1.0), cache.get("c", 1.0), cache.get("c", 11.0)
    (None, CacheEntry(value='C', weight=1, at=0.0), None)
    """

    __slots__ = ("_entries", "options", "weight")

    def __init__(self, options: CacheOptions) -> None:
        self.options = options
        self.weight = 0
        self._entries: OrderedDict[str, CacheEntry[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now: float) -> CacheEntry[T] | None:
        """The entry, if it is there and not too old; one from the future is too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        ttl = self.options.ttl
        if ttl is not None and not 0 <= now - entry.at < ttl:
            self.drop(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def put(self, key: str, value: T, *, weight: int, now: float) -> None:
        """Save a value, and remove those that were not used for the longest time."""
        self.drop(key)
        if weight > self.options.size:
            return
        self._entries[key] = CacheEntry(value, weight, now)
        self.weight += weight
        while len(self._entries) > self.options.entries or self.weight > self.options.size:
            self.drop(next(iter(self._entries)))

    def drop(self, key: str) -> None:
        """Remove one entry."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.weight -= entry.weight

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.weight = 0
