"""Ends a turn in which too many tools failed in total.

The count is never reset within a turn; `ErrorTracking` counts failures in a row.
"""

from __future__ import annotations

from typing import Annotated

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveInt, template
from holdfast.core.events import Event, ToolFinished
from holdfast.core.notices import TotalErrorThresholdExceeded
from holdfast.middleware.decisions import Stop
from holdfast.middleware.error_tracking import Detector, is_error_result, is_failure
from holdfast.middleware.hook_contexts import BeforeIteration, RunFacts
from holdfast.middleware.hooks import Middleware

REASON = "Total error threshold ({count}) exceeded"
TEXT = (
    "Total error threshold ({count}/{max}) exceeded. "
    "Encountered too many errors of varying types. Stopping execution."
)


class TotalErrorThreshold(Middleware[int]):
    """Stops the turn when too many tools failed.

    Args:
        max_total_errors: how many calls of one turn may fail.
        detector: decides which result is a failure; by default a result that is marked as an error.
        text: the text that the turn ends with; `{count}` and `{max}` are replaced.
    """

    events = (ToolFinished,)

    @check_arguments
    def __init__(
        self,
        max_total_errors: PositiveInt = 10,
        *,
        detector: Detector = is_error_result,
        text: Annotated[str, template("count", "max")] = TEXT,
    ) -> None:
        self.max_total_errors = max_total_errors
        self.detector = detector
        self.text = text

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """When the count has reached the limit."""
        del hook
        return facts.state_of(self) >= self.max_total_errors

    @property
    def initial(self) -> int:
        """The count before any error."""
        return 0

    def fold(self, state: int, event: Event) -> int:
        """Count failed tools."""
        if isinstance(event, ToolFinished) and is_failure(event, self.detector):
            return state + 1
        return state

    async def before_iteration(self, context: BeforeIteration) -> Stop | None:
        """Stop before another model call when the limit is reached."""
        count, most = context.state_of(self), self.max_total_errors
        if context.iteration == 0 or count < most:
            return None
        context.emit(
            TotalErrorThresholdExceeded(
                context.agent, count, most, context.iteration, context.now()
            )
        )
        return Stop(REASON.format(count=count), self.text.format(count=count, max=most))

    def describe(self) -> dict[str, object]:
        """The limit."""
        return {"max_total_errors": self.max_total_errors}
