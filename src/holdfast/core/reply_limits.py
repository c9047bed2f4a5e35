"""The limits of one reply of a model, as data. They bound the memory that a reply can take."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveInt

_MEBIBYTE = 1024 * 1024


class ReplyLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one reply, streamed or whole; None means no limit.

    A reply that exceeds a limit is not read any further, and raises ReplyTooLargeError.

    Args:
        text: bytes of its text, with reasoning and refusals.
        arguments: bytes of the arguments of all its tool calls.
        calls: its tool calls.
        body: bytes of the response, with everything around the text. One event of a stream, and a
            response that is not streamed, never has more than 64 MiB.

    >>> ReplyLimits(calls=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: reply_limits.calls: must be at least 1, got 0
    """

    text: PositiveInt | None = 16 * _MEBIBYTE
    arguments: PositiveInt | None = 16 * _MEBIBYTE
    calls: PositiveInt | None = 512
    body: PositiveInt | None = 256 * _MEBIBYTE

    def __post_init__(self) -> None:
        check_fields(self, "reply_limits.")
