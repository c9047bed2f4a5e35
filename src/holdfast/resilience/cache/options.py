"""The settings of the cache."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_flag
from holdfast.core.limits import check_seconds, check_whole


class CacheOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        entries: the largest number of saved values.
        size: the largest number of bytes of all saved values, in their JSON form.
        ttl: how long a saved value is used, in seconds; None means without an end.
        tool_calls: save replies that call tools, too.

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
