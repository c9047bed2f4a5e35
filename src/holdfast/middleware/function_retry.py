"""Sets how tools are retried. The agent's retry strategy performs the retries.

It must never be a second retry layer: two layers of four attempts each are sixteen calls.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.errors import ConfigurationError
from holdfast.middleware.hooks import Middleware

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
