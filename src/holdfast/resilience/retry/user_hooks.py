"""Calls the functions of a user that decide about retries, and handles every way in which they fail.

A function may raise, block, or return something that cannot be used. None of that may hide the
failure that it was called for, or become a wait: the call ends with its own error, and a note says
what the function did. This module must never swallow a cancellation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import Literal

from msgspec import Struct

from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ErrorInfo
from holdfast.core.redaction import redact
from holdfast.core.type_checks import is_seconds
from holdfast.resilience.retry.options import (
    CustomRetry,
    Defer,
    ProviderHandler,
    RetryAnswer,
    RetryOptions,
)

LONGEST_ANSWER = 30.0
"""Seconds that an asynchronous function may take when no deadline is nearer."""

_log = logging.getLogger("holdfast")


class NoAnswer(Struct, frozen=True):
    """The function said stop, or returned nothing that can be used."""

    reason: Literal["custom", "custom_invalid", "custom_failed", "custom_blocked"]
    detail: str = ""


class HandlerAnswer(Struct, frozen=True):
    """What a provider handler returned; without an info, it knows nothing about the error."""

    info: ErrorInfo | None
    delay: float | None = None


async def ask_custom_retry(
    strategy: CustomRetry, error: BaseException, attempt: int, remaining: float | None
) -> float | Defer | NoAnswer:
    """Call the user's function.

    Args:
        strategy: it may be a coroutine function or a plain one.
        error: the exception of the attempt.
        attempt: the number of the attempt, from 0.
        remaining: seconds until the deadline; a call that takes longer is cancelled.
    """
    seconds = LONGEST_ANSWER if remaining is None else min(remaining, LONGEST_ANSWER)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            answer = strategy(error, attempt)
            if inspect.isawaitable(answer):
                answer = await answer
    except Exception as raised:  # noqa: BLE001  # REASON: a hook may raise anything; the call has its own error
        if limit.expired():
            return NoAnswer("custom_blocked", f"{seconds:g}")
        return _hook_failure(raised)
    return _parse_answer(answer)


def ask_provider_handler(
    provider_handler: ProviderHandler, options: RetryOptions, error: BaseException, attempt: int
) -> HandlerAnswer | NoAnswer:
    """Ask the user's provider handler what the error means and how long to wait."""
    try:
        info = provider_handler.parse_error(error)
        if info is None:
            return HandlerAnswer(None)
        if nonsense := _check_info(info):
            return nonsense
        delay = provider_handler.retry_delay(info, attempt, options)
    except Exception as raised:  # noqa: BLE001  # REASON: as above
        return _hook_failure(raised)
    if delay is not None and not is_seconds(delay):
        return NoAnswer("custom_invalid", repr(delay)[:40])
    return HandlerAnswer(info, delay)


async def ask_for_credentials(options: RetryOptions, info: ErrorInfo) -> bool:
    """Ask for new credentials; anything but True, and any exception, means that there are none."""
    if options.refresh_credentials is None:
        return False
    try:
        async with asyncio.timeout(LONGEST_ANSWER):
            return await options.refresh_credentials(info.to_public()) is True
    except Exception as raised:  # noqa: BLE001  # REASON: as above
        _log.warning("refresh_credentials raised %s", type(raised).__name__)
        return False


def _parse_answer(answer: RetryAnswer | Awaitable[RetryAnswer]) -> float | Defer | NoAnswer:
    if answer is None:
        return NoAnswer("custom")
    if isinstance(answer, Defer):
        return answer
    if is_seconds(answer):
        return float(answer)  # type: ignore[arg-type]  # is_seconds says that it is a number
    return NoAnswer("custom_invalid", repr(answer)[:40])


def _check_info(value: object) -> NoAnswer | None:
    if isinstance(value, ErrorInfo):
        return None
    return NoAnswer("custom_invalid", f"a {type(value).__name__}")


def _hook_failure(error: Exception) -> NoAnswer:
    _log.warning("a retry hook raised", exc_info=detach_for_log(error))
    return NoAnswer("custom_failed", f"{type(error).__name__}: {redact(str(error))[:200]}")
