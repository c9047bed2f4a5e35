"""Ends a turn in which several iterations in a row fail, and decides when a tool has failed.

It counts iterations, not errors: two failed tools of one reply are one failure. The count must never
depend on the order in which tools finish. The result of a failed tool has `is_error`, so its text need not be
searched. Searching is for tools that return "Error: ..." as a normal result, and must never be the default: a
search result that mentions a rate limit would count too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveInt, template
from holdfast.core.events import Event, ModelReplied, ToolFinished
from holdfast.core.messages import ToolResult
from holdfast.core.notices import MaxConsecutiveErrorsExceeded
from holdfast.middleware.decisions import Stop
from holdfast.middleware.hook_contexts import AfterIteration, BeforeIteration, HookContext, RunFacts
from holdfast.middleware.hooks import Middleware

Detector: TypeAlias = Callable[[ToolResult], bool]
"""Whether a result counts as a failure. The function must be pure."""

NOT_FAILURES = frozenset({"denied", "stopped"})

_STARTS = ("error:", "failed:")
_PHRASES = (
    "exception occurred",
    "unhandled exception",
    "exception was thrown",
    "rate limit exceeded",
    "rate limited",
    "quota exceeded",
    "quota reached",
)


def is_error_result(result: ToolResult) -> bool:
    """Whether the result is marked as an error."""
    return result.is_error


def looks_like_error(result: ToolResult) -> bool:
    """Whether the result is marked as an error, or reads like one.

    >>> from holdfast.core.messages import Text
    >>> looks_like_error(ToolResult("1", "f", (Text("FAILED: no route"),)))
    True
    """
    if result.is_error:
        return True
    text = result.text.lower()
    return text.startswith(_STARTS) or any(phrase in text for phrase in _PHRASES)


def is_failure(event: ToolFinished, detector: Detector) -> bool:
    """Whether the call failed. A denied call did not, and a call that its reply has twice fails once."""
    if event.same_as:
        return False
    if detector is is_error_result and not event.result.is_error:
        return False
    if event.error is not None and event.error.code in NOT_FAILURES:
        return False
    return detector(event.result)


REASON = "Maximum consecutive errors ({count}) exceeded"
TEXT = (
    "⚠️ Maximum consecutive errors ({count}/{max}) exceeded. "
    "Stopping execution to prevent infinite error loop."
)


class ErrorStreak(Struct, frozen=True, gc=False):
    """The number of failed iterations in a row before this one, and the state of this one."""

    before: int = 0
    finished: bool = False
    failed: bool = False

    @property
    def count(self) -> int:
        """The number of failed iterations in a row, including this one."""
        if not self.finished:
            return self.before
        return self.before + 1 if self.failed else 0


class ErrorTracking(Middleware[ErrorStreak]):
    """Stops the turn when a tool failed in each of several iterations in a row.

    Args:
        max_consecutive_errors: how many iterations in a row; an iteration without a failure resets
            the count.
        detector: decides which result is a failure; by default a result that is marked as an error. Pass
            `looks_like_error` to count results that read like errors too.
        text: the text that the turn ends with; `{count}` and `{max}` are replaced.
    """

    events = (ToolFinished, ModelReplied)

    @check_arguments
    def __init__(
        self,
        max_consecutive_errors: PositiveInt = 3,
        *,
        detector: Detector = is_error_result,
        text: Annotated[str, template("count", "max")] = TEXT,
    ) -> None:
        self.max_consecutive_errors = max_consecutive_errors
        self.detector = detector
        self.text = text

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """When the count has reached the limit."""
        del hook
        state = facts.state_of(self)
        return state.before + state.failed >= self.max_consecutive_errors

    @property
    def initial(self) -> ErrorStreak:
        """The state without any error."""
        return ErrorStreak()

    def fold(self, state: ErrorStreak, event: Event) -> ErrorStreak:
        """Count failed iterations."""
        if isinstance(event, ModelReplied):
            return ErrorStreak(state.count) if state.finished else state
        if isinstance(event, ToolFinished) and not state.failed:
            if is_failure(event, self.detector):
                return ErrorStreak(state.before, True, True)
            # A success matters only after a failed iteration.
            return ErrorStreak(state.before, True) if state.before and not state.finished else state
        return state

    async def after_iteration(self, context: AfterIteration) -> Stop | None:
        """Stop as soon as the limit is reached."""
        return self._stop_if_exceeded(context, context.iteration)

    async def before_iteration(self, context: BeforeIteration) -> Stop | None:
        """Stop before another model call when the limit was reached before."""
        return self._stop_if_exceeded(context, context.iteration) if context.iteration else None

    def _stop_if_exceeded(self, context: HookContext, iteration: int) -> Stop | None:
        count, most = context.state_of(self).count, self.max_consecutive_errors
        if count < most:
            return None
        context.emit(
            MaxConsecutiveErrorsExceeded(context.agent, count, most, iteration, context.now())
        )
        return Stop(REASON.format(count=count), self.text.format(count=count, max=most))

    def describe(self) -> dict[str, object]:
        """The limit."""
        return {"max_consecutive_errors": self.max_consecutive_errors}
