"""The settings of retry, and the types of the functions by which a user decides.

This module must never decide anything itself: the decision and the strategy read these settings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import NonNegativeFloat, NonNegativeInt
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.resilience.retry.backoff import Backoff


class Defer(Enum):
    """The return value of a `custom_retry` that does not decide. None means: stop."""

    DEFER = "defer"


DEFER: Final = Defer.DEFER
"""Let the provider's answer and the backoff decide."""

RetryAnswer: TypeAlias = float | Defer | None
"""The return value of a custom retry function: seconds to wait, `DEFER`, or None for no retry."""
CustomRetry: TypeAlias = Callable[[BaseException, int], Awaitable[RetryAnswer] | RetryAnswer]
"""The user's function: takes the exception and the attempt (from 0), returns seconds, None or DEFER."""

RefreshCredentials: TypeAlias = Callable[[ErrorInfo], Awaitable[bool]]
"""Called after an AUTH_ERROR; returns True when new credentials are set and one more try is useful."""


class ProviderHandler(Protocol):
    """A user's own reading of a provider's errors, in place of the error table of the wire."""

    def parse_error(self, error: BaseException) -> ErrorInfo | None:
        """Return the meaning of the exception; None leaves the wait to backoff with full jitter."""
        ...

    def retry_delay(self, info: ErrorInfo, attempt: int, options: RetryOptions) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 0); None stops."""
        ...


class RetryOptions(Struct, frozen=True, kw_only=True):
    """Which failures are tried again, how often, and after which wait.

    Args:
        max_retries: attempts after the first; 3 means up to 4 attempts.
        retry_delay: the first wait of the backoff, in seconds.
        backoff_multiplier: each wait of "exponential" is this many times the one before.
        max_retry_delay: the longest wait of the backoff, in seconds, with its jitter; also caps the
            waits that `custom_retry` and `provider_handler` return. "pure" has no cap, and a wait that the
            provider asks for has `max_provider_delay`.
        backoff: "exponential" (with 10 percent jitter), "full_jitter", "pure" (1, 2, 4 times
            `retry_delay`, without jitter) or "decorrelated".
        max_retries_by_category: fewer or more retries for some categories; a category that is
            not named has `max_retries`. A category that is never retried is refused here, except
            beside a `provider_handler`.
        use_provider_retry_delays: wait exactly as long as the provider asks (Retry-After).
        max_provider_delay: when a provider asks for a longer wait than this many seconds, the call
            fails at once.
        max_breaker_wait: how many seconds in all a call waits while a breaker or limiter rejects
            it, or while a server loads its model; 0 fails at once. None means 60 for a call of a model,
            and 0 for any other call.
        custom_retry: the user's own function; its answer is final. A coroutine function that takes
            too long is cancelled; a plain function runs on the event loop and must not block.
        provider_handler: the user's own reading of a provider's errors.
        refresh_credentials: called once after an AUTH_ERROR; True allows one more try at once.
        normalize_errors: treat failures by their category. Without it, every failure from outside
            is retried with the plain backoff, even a wrong key.
        include_provider_details: name the provider, status, code, type and request id in the final error.
        repeat_in_doubt: repeat a tool without a declared effect also after a timeout or a lost
            connection, which leave open whether it acted. A tool that is declared "write" is never
            repeated then.

    >>> RetryOptions(retry_delay=float("nan"))
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: retry.retry_delay: must be a finite number from 0, got nan
    """

    max_retries: NonNegativeInt = 3
    retry_delay: NonNegativeFloat = 1.0
    backoff_multiplier: NonNegativeFloat = 2.0
    max_retry_delay: NonNegativeFloat = 30.0
    backoff: Backoff = "exponential"
    max_retries_by_category: Mapping[ErrorCategory, NonNegativeInt] | None = None
    use_provider_retry_delays: bool = True
    max_provider_delay: NonNegativeFloat = 120.0
    max_breaker_wait: NonNegativeFloat | None = None
    custom_retry: CustomRetry | None = None
    provider_handler: ProviderHandler | None = None
    refresh_credentials: RefreshCredentials | None = None
    normalize_errors: bool = True
    include_provider_details: bool = False
    repeat_in_doubt: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "retry.")
        if self.provider_handler is not None:
            return  # it may read a failure in another way than its category says
        for category, count in (self.max_retries_by_category or {}).items():
            if count and not category.is_retryable:
                raise ConfigurationError(
                    "retry.max_retries_by_category",
                    f"a failure of the category {category.value} is never retried",
                    fix="Leave it out, or decide with custom_retry or provider_handler",
                )
