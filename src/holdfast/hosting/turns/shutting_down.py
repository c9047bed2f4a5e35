"""The error of a request that comes while the process stops."""

from __future__ import annotations

from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, Landed

SECONDS_TO_RESTART = 2.0
"""After how many seconds a client is asked to come back."""


class ShuttingDownError(HoldfastError):
    """The process stops and accepts no more turns; another process, or the next one, does."""

    default_category = ErrorCategory.TRANSIENT

    def __init__(self) -> None:
        safe = "The service is shutting down and accepts no more turns."
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT,
            landed=Landed.NO,
            retry_after=SECONDS_TO_RESTART,
            safe=safe,
            code="shutting_down",
        )
        super().__init__(safe, info=info)
