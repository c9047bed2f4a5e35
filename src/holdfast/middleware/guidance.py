"""Tells the model about the progress of the turn: its first call, its results, its last iterations.

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
        max_iterations: the limit from which the remaining iterations are counted; None takes the
            limit of the turn.
    """

    @check_arguments
    def __init__(self, max_iterations: PositiveInt | None = 20) -> None:
        self.max_iterations = max_iterations

    async def before_iteration(self, context: BeforeIteration) -> Patch:
        """Append the guidance to the instructions."""
        guidance = (
            FIRST if context.is_first_iteration else LATER.format(count=_count_results(context))
        )
        most = self.max_iterations or context.limits.iterations
        if most is not None and context.iteration >= most - NEAR:
            guidance += WARNING.format(remaining=most - context.iteration)
        return Patch(instructions=context.instructions + guidance)

    def describe(self) -> dict[str, object]:
        """The limit."""
        return {"max_iterations": self.max_iterations}


def _count_results(context: BeforeIteration) -> int:
    # A tool message holds only results.
    return sum([len(message.parts) for message in context.messages if message.role == "tool"])
