"""The middlewares that set how errors of tools are handled, and all six of the kind in a working order.

They only set options: the agent's retry strategy retries, the code that runs tools applies the timeout, and one
formatter makes texts of exceptions. None of them must be a second retry layer, timer or formatter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.middleware.error_tracking import ErrorTracking
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.repetition_guard import RepetitionGuard
from holdfast.middleware.total_error_threshold import TotalErrorThreshold


class ErrorFormatting(Middleware):
    """Sets the text that the model reads when a tool fails.

    Args:
        include_detailed_errors: show the exception's text, with secrets redacted; None leaves it to
            `detailed_errors` of the agent.
    """

    @check_arguments
    def __init__(self, include_detailed_errors: bool | None = None) -> None:
        self.include_detailed_errors = include_detailed_errors

    def tool_settings(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the flag, if it is set."""
        del given
        if self.include_detailed_errors is None:
            return {}
        return {"detailed_errors": self.include_detailed_errors}

    def describe(self) -> dict[str, object]:
        """The flag."""
        return {"include_detailed_errors": self.include_detailed_errors}


_FIELDS = frozenset(
    {
        "max_retries",
        "retry_delay",
        "backoff_multiplier",
        "max_retry_delay",
        "backoff",
        "max_retries_by_category",
        "use_provider_retry_delays",
        "max_provider_delay",
        "custom_retry",
        "provider_handler",
        "repeat_in_doubt",
    }
)


class FunctionRetry(Middleware):
    """Sets how tools are retried; settings that are not given come from the agent's `retry`.

    Args:
        settings: fields of `RetryOptions` about retries, such as `max_retries=1`.

    >>> FunctionRetry(max_retries=1).describe()
    {'max_retries': 1}
    """

    def __init__(self, **settings: object) -> None:
        for name in settings:
            if name not in _FIELDS:
                raise ConfigurationError(
                    name,
                    "is not a setting of retries",
                    fix=f"Use one of {', '.join(sorted(_FIELDS))}",
                )
        self.settings = settings

    def tool_settings(self, given: Mapping[str, object]) -> dict[str, object]:
        """The settings that were given."""
        del given
        return dict(self.settings)

    def describe(self) -> dict[str, object]:
        """The settings that were given."""
        return {name: value for name, value in self.settings.items() if not callable(value)}


DEFAULT_SECONDS = 30.0


class FunctionTimeout(Middleware):
    """Sets how long one attempt of a tool may take; after a timeout the tool is retried.

    Args:
        seconds: for one attempt; None takes the agent's `tool_timeout`, and 30 where it has none.

    >>> FunctionTimeout(0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: seconds: Timeout must be greater than zero, got 0
    """

    @check_arguments
    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and seconds <= 0:
            raise ConfigurationError("seconds", f"Timeout must be greater than zero, got {seconds}")
        self.seconds = seconds

    def tool_settings(self, given: Mapping[str, object]) -> dict[str, object]:
        """The seconds."""
        return {"tool_timeout": self.seconds or given["tool_timeout"] or DEFAULT_SECONDS}

    def describe(self) -> dict[str, object]:
        """The seconds."""
        return {"seconds": self.seconds}


@check_arguments
def error_handling_middlewares(
    max_consecutive_calls: int | RepetitionGuard = 5,
    max_consecutive_errors: int | ErrorTracking = 3,
    max_total_errors: int | TotalErrorThreshold = 10,
    *,
    retry: FunctionRetry | None = None,
    timeout: PositiveFloat | None = None,
    include_detailed_errors: bool | None = None,
) -> list[Middleware[Any]]:
    """The six middlewares that handle errors and repetition; pass them as `middleware=`.

    Args:
        max_consecutive_calls: the number of the equal call that does not run any more; or a guard
            with other settings too.
        max_consecutive_errors: how many iterations in a row may have a failed tool; or an
            `ErrorTracking`, for example with a detector of your own.
        max_total_errors: how many tools may fail in one turn; or a `TotalErrorThreshold`.
        retry: how tools are retried; the agent's settings by default.
        timeout: seconds for one attempt of a tool; by default the agent's setting, or 30 without one.
        include_detailed_errors: whether the model sees the text of exceptions; by default the agent's
            setting.

    >>> [middleware.name for middleware in error_handling_middlewares()][:3]
    ['RepetitionGuard', 'ErrorTracking', 'TotalErrorThreshold']
    """
    calls, errors, total = max_consecutive_calls, max_consecutive_errors, max_total_errors
    return [
        RepetitionGuard(calls) if isinstance(calls, int) else calls,
        ErrorTracking(errors) if isinstance(errors, int) else errors,
        TotalErrorThreshold(total) if isinstance(total, int) else total,
        retry or FunctionRetry(),
        FunctionTimeout(timeout),
        ErrorFormatting(include_detailed_errors),
    ]
