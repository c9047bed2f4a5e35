"""The settings of the cache."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat, PositiveInt


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

    entries: PositiveInt = 1000
    size: PositiveInt = 64 * 1024 * 1024
    ttl: PositiveFloat | None = 600.0
    tool_calls: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "cache.")
