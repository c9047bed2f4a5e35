"""How failures are treated: the settings of retry, and the two hooks by which a user decides.

Names and defaults are those of seed 000. This module must never decide anything itself: `retry`
reads these settings.

Three settings of seed 000 have another form here. `SingleFunctionTimeout` is `function_timeout`,
without a limit by default, as in the later versions of that system: each tool says how long it may
take. `AutoRefreshTokensOn401` is `refresh_credentials`, which does it. `ProviderHandler` is by
default the error table of the wire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import (
    check_flag,
    check_instance,
    check_optional_callable,
    check_port,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.core.limits import check_whole
from holdfast.resilience.checks import check_number
from holdfast.resilience.retry.backoff import NAMES, Backoff


class Defer(Enum):
    """What a custom strategy answers when it has no opinion; None means: stop."""

    DEFER = "defer"


DEFER: Final = Defer.DEFER
"""Let the provider's knowledge and the backoff decide."""

RetryAnswer: TypeAlias = float | Defer | None
CustomRetry: TypeAlias = Callable[[BaseException, int], Awaitable[RetryAnswer] | RetryAnswer]
"""The user's strategy: the exception and the attempt from 0, to seconds to wait, None or DEFER."""

RefreshCredentials: TypeAlias = Callable[[ErrorInfo], Awaitable[bool]]
"""Called at an AUTH_ERROR; True when new credentials are in place and one more try makes sense."""


class ProviderHandler(Protocol):
    """A user's own knowledge of a provider, in place of the error table of the wire."""

    def parse_error(self, error: BaseException) -> ErrorInfo | None:
        """What the exception means; None leaves it to backoff with full jitter."""
        ...

    def retry_delay(self, info: ErrorInfo, attempt: int, options: RetryOptions) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 0); None stops."""
        ...


class RetryOptions(Struct, frozen=True, kw_only=True):
    """How failures are treated; names and defaults are those of seed 000.

    Args:
        max_retries: attempts after the first; 3 means up to 4 attempts.
        retry_delay: the first wait of the backoff, in seconds.
        backoff_multiplier: each wait of "exponential" is this many times the one before.
        max_retry_delay: the longest wait of the backoff, in seconds, before jitter; also caps what
            `custom_retry` and `provider_handler` answer. "pure" has no cap.
        backoff: "exponential" (seed 000), "full_jitter" (its executor), "pure" (seed 003: 1, 2, 4)
            or "decorrelated".
        max_retries_by_category: fewer or more retries for some categories; a category that is
            not named has `max_retries`, and one that is never retried stays so.
        use_provider_retry_delays: obey the provider's Retry-After exactly.
        max_provider_delay: a provider that asks for more than this many seconds is not waited for.
        max_breaker_wait: how many seconds a call waits, in all, until an open breaker lets it
            through; 0 fails at once.
        custom_retry: the user's own strategy; its answer is final. A coroutine function that does
            not answer is given up; a plain one runs on the event loop, and must not block.
        provider_handler: the user's own reading of a provider's errors.
        refresh_credentials: called once at an AUTH_ERROR; True allows one more try at once.
        normalize_errors: sort failures into categories. Without it, every failure from outside is
            UNKNOWN and has the plain backoff, a bad key too.
        include_provider_details: name the provider, status, code and request id in the final error.

    >>> RetryOptions(retry_delay=float("nan"))
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: retry.retry_delay: must be a finite number from 0, got nan
    """

    max_retries: int = 3
    retry_delay: float = 1.0
    backoff_multiplier: float = 2.0
    max_retry_delay: float = 30.0
    backoff: Backoff = "exponential"
    max_retries_by_category: Mapping[ErrorCategory, int] | None = None
    use_provider_retry_delays: bool = True
    max_provider_delay: float = 120.0
    max_breaker_wait: float = 60.0
    custom_retry: CustomRetry | None = None
    provider_handler: ProviderHandler | None = None
    refresh_credentials: RefreshCredentials | None = None
    normalize_errors: bool = True
    include_provider_details: bool = False

    def __post_init__(self) -> None:
        check_whole("retry.max_retries", self.max_retries, at_least=0)
        for name in _NUMBERS:
            check_number(f"retry.{name}", getattr(self, name))
        for name in _SWITCHES:
            check_flag(f"retry.{name}", getattr(self, name))
        for name in ("custom_retry", "refresh_credentials"):
            check_optional_callable(f"retry.{name}", getattr(self, name))
        handler = ("parse_error", "retry_delay")
        check_port("retry.provider_handler", self.provider_handler, handler)
        if self.backoff not in NAMES:
            raise ConfigurationError(
                "retry.backoff",
                f"{self.backoff!r} is no policy",
                fix=f"Use one of {', '.join(NAMES)}",
            )
        if self.max_retries_by_category is not None:
            _check_categories(self.max_retries_by_category)


_NUMBERS = (
    "retry_delay",
    "backoff_multiplier",
    "max_retry_delay",
    "max_provider_delay",
    "max_breaker_wait",
)
_SWITCHES = (
    "use_provider_retry_delays",
    "normalize_errors",
    "include_provider_details",
)


def _check_categories(limits: Mapping[ErrorCategory, int]) -> None:
    argument = "retry.max_retries_by_category"
    check_instance(argument, limits, Mapping)
    for category, count in limits.items():
        if not isinstance(category, ErrorCategory):
            raise ConfigurationError(
                argument,
                f"the key {category!r} is no ErrorCategory",
                fix="Use for example ErrorCategory.SERVER_ERROR",
            )
        check_whole(f"{argument}[{category.value}]", count, at_least=0)
