"""Asks a person whether a turn that reached its limit of iterations may continue.

The limit and its extension are events of the run, so one instance serves any number of runs. Only a
yes lets the turn continue: a no, a timeout, a cancellation and an error end it.
"""

from __future__ import annotations

import msgspec

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveInt
from holdfast.core.errors import HoldfastError
from holdfast.core.limits import Limits
from holdfast.core.questions import ContinuationQuestion, Continued, Timeout
from holdfast.middleware.decisions import Stop
from holdfast.middleware.hook_contexts import BeforeIteration
from holdfast.middleware.hooks import Middleware

ITERATIONS = 20
TERMINATED_TEXT = (
    "Execution terminated: Maximum iteration limit reached and continuation was not approved."
)
TERMINATED_REASON = "Continuation permission denied at iteration limit"


class ContinuationPermission(Middleware[None]):
    """Asks at the limit of iterations, and ends the turn unless the answer is yes.

    Args:
        iterations: the limit. None takes the `Limits` of the turn or the agent, and 20 when neither
            has any.
        extension: how many more iterations a plain yes gives.
        timeout: seconds to wait for an answer; by default 2 minutes while the run waits, and without
            limit once it is suspended.
        text: the text that the turn ends with unless the answer is yes.

    >>> ContinuationPermission(20).limits(None).iterations
    20
    """

    @check_arguments
    def __init__(
        self,
        iterations: PositiveInt | None = None,
        *,
        extension: PositiveInt = 3,
        timeout: Timeout = "default",
        text: str = TERMINATED_TEXT,
    ) -> None:
        self._iterations = iterations
        self._extension = extension
        self._timeout = timeout
        self._text = text

    def describe(self) -> dict[str, object]:
        """The settings."""
        limit = "that of the turn" if self._iterations is None else self._iterations
        return {"iterations": limit, "extension": self._extension, "timeout": self._timeout}

    def limits(self, given: Limits | None) -> Limits:
        """Return the limits of a turn, which can be extended."""
        most = self._iterations
        if given is None:
            return Limits(iterations=most or ITERATIONS, extendable=True)
        most = most or given.iterations or ITERATIONS
        return msgspec.structs.replace(given, iterations=most, extendable=True)

    async def before_iteration(self, context: BeforeIteration) -> Stop | None:
        """Ask when the limit is reached."""
        most = context.limits.iterations
        if most is None or context.iteration < most:
            return None
        question = ContinuationQuestion(
            iteration=context.iteration + 1,
            limit=most,
            extension=self._extension,
            source=self.name,
        )
        try:
            answer = await context.ask(question, timeout=self._timeout)
        except HoldfastError:
            answer = None
        if isinstance(answer, Continued):
            return None  # the run extends its limit with the answer
        return Stop(TERMINATED_REASON, self._text)
