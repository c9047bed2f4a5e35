"""Sets how long one attempt of a tool may take. The code that runs tools applies the timeout.

A tool that names a timeout of its own keeps it. It must never be a second timer.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ConfigurationError
from holdfast.middleware.hooks import Middleware

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
