"""Turns exceptions of foreign code (calls, callbacks, iterators of an SDK) into values.

Cancellations, KeyboardInterrupt, SystemExit and GeneratorExit are never caught.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class ErrorCatcher:
    """A context manager that catches an exception and stores it as `.error`.

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
        """The exception, for code that runs only after the block raised."""
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
        # CancelledError of concurrent.futures is a subclass of Exception.
        if not isinstance(error, Exception) or type(error).__name__ == "CancelledError":
            return False
        self.error = error
        return True


def exception_text(error: BaseException) -> str:
    """Return the text of an exception; "" if its `__str__` raises.

    >>> exception_text(ValueError("no key"))
    'no key'
    """
    with ErrorCatcher():
        return str(error)
    return ""
