"""Two time limits: one for each attempt, and one for the whole call.

An attempt that takes too long is cancelled, and may be repeated. The deadline is for all attempts and
the waits between them. Both use the real event loop, because they cancel real I/O. The limits for the
first byte and between two chunks belong to the transport. A cancelled attempt may have taken effect
(`landed` is `unknown`). Neither strategy may turn a cancellation from outside into a timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ErrorCategory, ErrorInfo, TransportError
from holdfast.core.notices import AttemptAbandoned
from holdfast.resilience.pipeline import CallContext, Failed, Operation, Outcome, P, T


class AttemptTimeout(Struct, frozen=True):
    """The strategy: cancel one attempt after so many seconds.

    Args:
        seconds: for one attempt.
        may_repeat: False for an operation that must not be done twice, since the cancelled attempt may
            have taken effect.
    """

    seconds: PositiveFloat
    may_repeat: bool = True

    def __post_init__(self) -> None:
        check_fields(self, "attempt_timeout.")

    @property
    def name(self) -> str:
        """`timeout`"""
        return "timeout"

    def describe(self) -> Mapping[str, object]:
        """The seconds."""
        return {"seconds": self.seconds}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, cancelled when it takes too long."""
        seconds, may_repeat = self.seconds, self.may_repeat

        async def with_timeout(call: CallContext[P]) -> Outcome[T]:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    return await operation(call)
            except TimeoutError:
                if not limit.expired():
                    raise
            cut = timeout_outcome(
                f"no answer within {seconds:g} s, the limit for one attempt", may_repeat=may_repeat
            )
            call.execution.emit(AttemptAbandoned(call.key, call.attempt, cut.info.to_public()))
            return cut

        return with_timeout


class Deadline(Struct, frozen=True):
    """The strategy: cancel the whole call, all attempts and waits together, after so many seconds.

    A nearer deadline of the run itself stays in force.
    """

    seconds: PositiveFloat

    def __post_init__(self) -> None:
        check_fields(self, "deadline.")

    @property
    def name(self) -> str:
        """`deadline`"""
        return "deadline"

    def describe(self) -> Mapping[str, object]:
        """The seconds."""
        return {"seconds": self.seconds}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, with a deadline that the strategies inside know."""
        seconds = self.seconds

        async def with_deadline(call: CallContext[P]) -> Outcome[T]:
            remaining = call.remaining()
            left = seconds if remaining is None else min(seconds, remaining)
            deadline = call.execution.clock.monotonic() + left
            limit = asyncio.timeout(left)
            try:
                async with limit:
                    return await operation(msgspec.structs.replace(call, deadline=deadline))
            except TimeoutError:
                if not limit.expired():
                    raise
            return timeout_outcome(
                f"no answer within {left:.3g} s, the limit for all attempts", may_repeat=False
            )

        return with_deadline


def timeout_outcome(message: str, *, may_repeat: bool) -> Failed:
    """The outcome of an operation that was cancelled: a timeout that may have taken effect."""
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, safe=message, code="cut_off")
    return Failed(TransportError(message, info=info), info, may_repeat=may_repeat)
