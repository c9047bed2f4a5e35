"""Informs the model about the progress of the turn: its first call, its results, its last iterations.

It must never change the history: the guidance applies to one call.
"""

from __future__ import annotations

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveInt
from holdfast.middleware.decisions import Patch
from holdfast.middleware.hook_contexts import BeforeIteration
from holdfast.middleware.hooks import Middleware

FIRST = (
    "\n\n📍 ITERATION GUIDANCE: This is your first turn. "
    "Identify what tools you need and call them to gather information."
)
LATER = (
    "\n\n📍 ITERATION GUIDANCE: You have {count} tool result(s). "
    "Analyze the data and synthesize your response."
)
WARNING = (
    "\n\n⚠️ WARNING: Only {remaining} iteration(s) remaining. "
    "Wrap up your analysis and provide a conclusion."
)
NEAR = 3
"""The warning begins this many iterations before the limit."""


class Guidance(Middleware):
    """Adds a line about the progress of the turn to the instructions of each model call.

    Args:
        max_iterations: the iteration from which the model is asked to wrap up. The remaining
            iterations are counted from the limit of the turn if that is lower, if the turn went on
            beyond this number, or if it is None.
    """

    @check_arguments
    def __init__(self, max_iterations: PositiveInt | None = 20) -> None:
        self.max_iterations = max_iterations

    async def before_iteration(self, context: BeforeIteration) -> Patch:
        """Append the guidance to the instructions."""
        guidance = (
            FIRST if context.is_first_iteration else LATER.format(count=_count_results(context))
        )
        remaining = self._count_remaining(context)
        if remaining is not None and 0 < remaining <= NEAR:
            guidance += WARNING.format(remaining=remaining)
        return Patch(instructions=context.instructions + guidance)

    def _count_remaining(self, context: BeforeIteration) -> int | None:
        """Return how many iterations remain, this one included; None without a limit.

        0 means that the limit is reached and that somebody is asked to extend it.
        """
        own, limit = self.max_iterations, context.limits.iterations
        if own is not None and context.iteration < own:
            return min(own, limit or own) - context.iteration
        return None if limit is None else max(0, limit - context.iteration)

    def describe(self) -> dict[str, object]:
        """The limit."""
        return {"max_iterations": self.max_iterations}


def _count_results(context: BeforeIteration) -> int:
    # A tool message holds only results.
    return sum([len(message.parts) for message in context.messages if message.role == "tool"])
