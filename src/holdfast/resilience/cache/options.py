"""The settings of the cache."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_flag
from holdfast.core.limits import check_seconds, check_whole


class CacheOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        entries: the most answers that are kept; 100 in seed 003.
        size: the most bytes of answers, as they look in JSON.
        ttl: how long an answer is good, in seconds; 600 in seed 002, None without end (seed 003).
        tool_calls: keep replies that ask for tools, too.

    >>> CacheOptions(entries=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: cache.entries: must be at least 1, got 0
    """

    entries: int = 1000
    size: int = 64 * 1024 * 1024
    ttl: float | None = 600.0
    tool_calls: bool = False

    def __post_init__(self) -> None:
        check_whole("cache.entries", self.entries, at_least=1)
        check_whole("cache.size", self.size, at_least=1)
        check_seconds("cache.ttl", self.ttl)
        check_flag("cache.tool_calls", self.tool_calls)
