"""Decides whether another target is asked, and which request it gets. Pure."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import ErrorCategory
from holdfast.core.events import FailedTarget
from holdfast.resilience.pipeline import CallContext, Carry, Failed, P


def should_try_next(
    categories: frozenset[ErrorCategory], outcome: Failed, call: CallContext[P]
) -> bool:
    """Whether the next target is asked after this failure.

    Never when the operation may have taken effect, nor when no time is left.
    """
    if not outcome.may_repeat or call.remaining() == 0:
        return False
    return not outcome.sent or outcome.info.category in categories


def retarget_call(
    call: CallContext[P],
    model: str | None,
    tried: tuple[FailedTarget, ...],
    carry: Carry | None,
) -> CallContext[P]:
    """The call for the next target. Attempts are counted on, so that each has a number of its own."""
    payload = call.payload
    if model is not None:
        payload = msgspec.structs.replace(payload, model=model)  # type: ignore[type-var]  # as the target says
    attempt = call.attempt + sum(record.attempts for record in tried)
    return msgspec.structs.replace(call, payload=payload, attempt=attempt, carry=carry)
