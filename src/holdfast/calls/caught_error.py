"""Turns the exception of somebody else's code into a value: calls, callbacks, iterators of an SDK.

This module must never catch a cancellation, whatever its class says it derives from, nor anything
that is no `Exception`: KeyboardInterrupt, SystemExit, GeneratorExit.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class ErrorCatcher:
    """A block that ends in an exception goes on behind itself, with the exception as `.error`.

    >>> with ErrorCatcher() as caught:
    ...     raise ValueError("no")
    >>> caught.error
    ValueError('no')
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None

    @property
    def required_error(self) -> Exception:
        """The exception, in code that only a block which raised can reach."""
        if self.error is None:
            raise LookupError("the block did not raise")
        return self.error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        # The cancellation of a future of a thread is an Exception by its class.
        if not isinstance(error, Exception) or type(error).__name__ == "CancelledError":
            return False
        self.error = error
        return True


def exception_text(error: BaseException) -> str:
    """What an exception says, also when saying it fails.

    >>> exception_text(ValueError("no key"))
    'no key'
    """
    with ErrorCatcher():
        return str(error)
    return ""
