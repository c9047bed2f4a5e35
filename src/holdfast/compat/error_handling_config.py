"""The settings of the seeds as options: `ErrorHandlingConfig` of seed 000, breakers, caches and a cache key.

Seed 000 keeps the settings of retries, of tool timeouts and of error texts together. `Agent` has
three keywords for them: `retry`, `tool_timeout` and `detailed_errors`. This module must never add a
setting that `Agent` does not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import TypedDict

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import NonNegativeFloat, NonNegativeInt, PositiveFloat
from holdfast.core.errors import ErrorCategory
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.retry.options import (
    CustomRetry,
    ProviderHandler,
    RefreshCredentials,
    RetryOptions,
)


class ErrorHandlingKeywords(TypedDict):
    """The keywords of `Agent` that a record of the seed stands for."""

    retry: RetryOptions
    tool_timeout: float | None
    detailed_errors: bool


class ErrorHandling(Struct, frozen=True, kw_only=True):
    """The settings of seed 000 with its names and defaults.

    `SingleFunctionTimeout` is `function_timeout` and has no limit by default, as in later versions
    of that system. `AutoRefreshTokensOn401` is `refresh_credentials`, a function that does it.
    A setting that is not explained here is that of `RetryOptions`.

    Args:
        normalize_errors: see `RetryOptions`.
        include_provider_details: see `RetryOptions`.
        include_detailed_errors_in_chat: `detailed_errors` of `Agent`.
        max_retries: see `RetryOptions`.
        function_timeout: `tool_timeout` of `Agent`.
        retry_delay: see `RetryOptions`.
        use_provider_retry_delays: see `RetryOptions`.
        refresh_credentials: see `RetryOptions`.
        max_retry_delay: see `RetryOptions`.
        backoff_multiplier: see `RetryOptions`.
        max_retries_by_category: see `RetryOptions`.
        provider_handler: see `RetryOptions`.
        custom_retry: see `RetryOptions`.

    >>> ErrorHandling(function_timeout=30).agent_keywords()["tool_timeout"]
    30
    """

    normalize_errors: bool = True
    include_provider_details: bool = False
    include_detailed_errors_in_chat: bool = False
    max_retries: NonNegativeInt = 3
    function_timeout: PositiveFloat | None = None
    retry_delay: NonNegativeFloat = 1.0
    use_provider_retry_delays: bool = True
    refresh_credentials: RefreshCredentials | None = None
    max_retry_delay: NonNegativeFloat = 30.0
    backoff_multiplier: NonNegativeFloat = 2.0
    max_retries_by_category: Mapping[ErrorCategory, NonNegativeInt] | None = None
    provider_handler: ProviderHandler | None = None
    custom_retry: CustomRetry | None = None

    def __post_init__(self) -> None:
        check_fields(self, "error_handling.")

    def retry_options(self) -> RetryOptions:
        """The settings that are about retries."""
        return RetryOptions(
            normalize_errors=self.normalize_errors,
            include_provider_details=self.include_provider_details,
            max_retries=self.max_retries,
            retry_delay=self.retry_delay,
            use_provider_retry_delays=self.use_provider_retry_delays,
            refresh_credentials=self.refresh_credentials,
            max_retry_delay=self.max_retry_delay,
            backoff_multiplier=self.backoff_multiplier,
            max_retries_by_category=self.max_retries_by_category,
            provider_handler=self.provider_handler,
            custom_retry=self.custom_retry,
        )

    def agent_keywords(self) -> ErrorHandlingKeywords:
        """The keywords of `Agent` that mean the same: `Agent(model, **handling.agent_keywords())`."""
        return {
            "retry": self.retry_options(),
            "tool_timeout": self.function_timeout,
            "detailed_errors": self.include_detailed_errors_in_chat,
        }


SEED_003_BREAKER = BreakerOptions(mode="consecutive", failures=5, open_seconds=60.0)
"""The breaker of seed 003: 5 failures in a row, 60 seconds; here it also counts and probes."""

SEED_002_CACHE = CacheOptions(ttl=600.0)
"""The cache of seed 002: ten minutes; here by a strong hash."""

SEED_003_CACHE = CacheOptions(entries=100, ttl=None)
"""The cache of seed 003: 100 answers, which never expire."""


def cache_key(messages: Sequence[object], agent_config: object) -> str:
    """The key function of seed 003, unchanged, for those who must read its keys.

    It joins two texts without a separator and hashes them with MD5, so two requests can be made to
    share a key: do not use it for a new cache.

    >>> cache_key([{"role": "user"}], {"model": "m"})
    'e6b8ae65d5aee1ea8475ef7f3def863d'
    """
    content = json.dumps(messages, sort_keys=True) + json.dumps(agent_config, sort_keys=True)
    return md5(content.encode(), usedforsecurity=False).hexdigest()
