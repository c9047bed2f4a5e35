"""Compares the size of a reply with its limits while it is read.

Measuring takes time that grows with the reply, so it is not done for each delta. A reply cannot grow
faster than its body, so the next measurement is due when the body could have reached a limit.
"""

from __future__ import annotations

from holdfast.codecs.assemble import Assembler
from holdfast.core.errors import ErrorCategory, ErrorInfo, ReplyTooLargeError
from holdfast.core.reply_limits import ReplyLimits

_SMALLEST_CALL = 16
"""No wire describes a call in fewer bytes."""

_GROWTH = 3
"""A byte that is not UTF-8 becomes U+FFFD, which has three."""

_STEP = 128 * 1024
_NEVER = 1 << 62


class ReplyMeter:
    """Measures one reply.

    Args:
        limits: the limits of the reply.
        safe_size: what `find_safe_size` returns for the limits.
        assembler: builds the reply.
    """

    __slots__ = ("_assembler", "_due", "_limits", "_received", "_safe_size")

    def __init__(self, limits: ReplyLimits, safe_size: int, assembler: Assembler) -> None:
        self._limits = limits
        self._safe_size = safe_size
        self._assembler = assembler
        self._received = 0
        self._due = safe_size

    def note_bytes(self, count: int) -> None:
        """Add the size of a piece of the body.

        Raises:
            ReplyTooLargeError: the reply exceeds a limit.
        """
        self._received += count
        if self._received >= self._due:
            self._check()

    def check_end(self) -> None:
        """Check the complete reply.

        Raises:
            ReplyTooLargeError: the reply exceeds a limit.
        """
        if self._received >= self._safe_size:
            self._check()

    def _check(self) -> None:
        text, arguments, calls = self._assembler.measure()
        limits = self._limits
        _check_limit("body", "bytes", self._received, limits.body)
        _check_limit("text", "bytes of text", text, limits.text)
        _check_limit("arguments", "bytes of arguments", arguments, limits.arguments)
        _check_limit("calls", "tool calls", calls, limits.calls)
        growth = _smallest_growth(limits, self._received, text, arguments, calls)
        self._due = self._received + max(growth, _STEP)


def find_safe_size(limits: ReplyLimits) -> int:
    """Return a size of the body; a reply with a smaller body cannot exceed a limit."""
    return _smallest_growth(limits, 0, 0, 0, 0)


def _smallest_growth(
    limits: ReplyLimits, received: int, text: int, arguments: int, calls: int
) -> int:
    """Return how many bytes the body must grow before the reply can exceed a limit."""
    left = [_NEVER if limits.body is None else limits.body - received]
    for limit, size in ((limits.text, text), (limits.arguments, arguments)):
        left += [] if limit is None else [(limit - size) // _GROWTH]
    left += [] if limits.calls is None else [(limits.calls - calls) * _SMALLEST_CALL]
    return max(min(left), 1)


def _check_limit(name: str, unit: str, size: int, limit: int | None) -> None:
    if limit is not None and size > limit:
        code = f"reply_limits.{name}"
        message = f"The reply has more than {limit} {unit}, the limit of {code}"
        info = ErrorInfo(category=ErrorCategory.TRUNCATED, safe=message, code=code)
        raise ReplyTooLargeError(message, info=info)
