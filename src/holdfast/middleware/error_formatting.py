"""Sets whether the model sees the text of exceptions.

It only sets an option of the formatter that every agent has. It must never be a second place where an
exception becomes text.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.argument_checks import check_arguments
from holdfast.middleware.hooks import Middleware


class ErrorFormatting(Middleware):
    """Sets what the model reads when a tool fails.

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
