"""Fallback: when one target cannot answer, ask the next one, and keep what was tried.

Only a failure that another target may not have is a reason to go on: an outage, a limit, a key of
that provider, a model that is gone. What the request itself did wrong would fail everywhere, and an
answer that a content filter withheld must never be got elsewhere unasked. The history goes along as
it is: a request is neutral, and each target encodes it for its own wire.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError, ErrorCategory, HoldfastError
from holdfast.core.events import FailedTarget
from holdfast.core.messages import Usage
from holdfast.resilience.broken_off import add_usage, spent_usage
from holdfast.resilience.pipeline import CallContext, Done, Failed, Operation, Outcome, P, T

ELSEWHERE: frozenset[ErrorCategory] = frozenset(
    {
        ErrorCategory.UNKNOWN,
        ErrorCategory.TRANSIENT,
        ErrorCategory.TIMEOUT,
        ErrorCategory.SERVER_ERROR,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        ErrorCategory.RATE_LIMIT_TERMINAL,
        ErrorCategory.AUTH_ERROR,
        ErrorCategory.MODEL_NOT_FOUND,
        ErrorCategory.EMPTY_RESPONSE,
        ErrorCategory.INVALID_RESPONSE,
        ErrorCategory.CONTEXT_WINDOW,
    }
)
"""Failures that another model may not have."""


class FallbackTarget(Struct, frozen=True):
    """Something else to ask.

    Args:
        name: for records and errors, such as "anthropic:claude-sonnet-4-5".
        operation: asks it; the strategies of this target are wrapped around it already.
        model: put into the payload's field `model`; None leaves the payload alone.
    """

    name: str
    operation: Callable[..., Awaitable[object]]
    model: str | None = None


class Fallback(Struct, frozen=True):
    """The strategy: the wrapped act first, then each target in order.

    Args:
        primary: the name of the wrapped act.
        targets: what to ask when it fails.
        categories: the failures for which to go on.
    """

    primary: str
    targets: tuple[FallbackTarget, ...]
    categories: frozenset[ErrorCategory] = ELSEWHERE

    def __post_init__(self) -> None:
        if not self.targets:
            raise ConfigurationError("fallback", "has no targets", fix="Name a model")
        names = [self.primary, *(target.name for target in self.targets)]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(
                    "fallback", f"{name!r} is named twice", fix="Give each a name of its own"
                )
        if odd := self.categories - frozenset(ErrorCategory):
            raise ConfigurationError("fallback.categories", f"{set(odd)} is no ErrorCategory")

    @property
    def name(self) -> str:
        """`fallback`"""
        return "fallback"

    def describe(self) -> Mapping[str, object]:
        """The targets in order, and the failures for which the next one is asked."""
        return {
            "targets": [self.primary, *(target.name for target in self.targets)],
            "categories": sorted(category.value for category in self.categories),
        }

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The act, and then the others."""
        categories, primary = self.categories, self.primary
        others = [
            (target.name, target.model, cast("Operation[P, T]", target.operation))
            for target in self.targets
        ]

        async def with_fallback(call: CallContext[P]) -> Outcome[T]:
            outcome = await operation(call)
            if type(outcome) is Done:
                return outcome
            name = primary
            tried: tuple[FailedTarget, ...] = ()
            lost: Usage | None = None
            for other, model, ask in others:
                if not isinstance(outcome, Failed) or not should_try_next(
                    categories, outcome, call
                ):
                    break
                tried = (*tried, FailedTarget(name, outcome.attempts, outcome.info.to_public()))
                lost = add_usage(lost, add_usage(outcome.lost, spent_usage(outcome)))
                outcome = await ask(_retarget_call(call, model, tried))
                name = other
            return _with_failed_targets(outcome, tried, lost)

        return with_fallback


def should_try_next(
    categories: frozenset[ErrorCategory], outcome: Failed, call: CallContext[P]
) -> bool:
    """Whether the next target is asked after this failure.

    Never when the act may have taken effect, nor when no time is left.
    """
    if not outcome.may_repeat or call.remaining() == 0:
        return False
    return not outcome.sent or outcome.info.category in categories


def _retarget_call(
    call: CallContext[P], model: str | None, tried: tuple[FailedTarget, ...]
) -> CallContext[P]:
    """The call for the next target; attempts are counted on, so that each has a number of its own."""
    payload = call.payload
    if model is not None:
        payload = msgspec.structs.replace(payload, model=model)  # type: ignore[type-var]  # as the target says
    attempt = call.attempt + sum(record.attempts for record in tried)
    return msgspec.structs.replace(call, payload=payload, attempt=attempt)


def _with_failed_targets(
    outcome: Outcome[T], tried: tuple[FailedTarget, ...], lost: Usage | None
) -> Outcome[T]:
    """The outcome with what was tried and lost before it, in a failure also in words."""
    if not tried:
        return outcome
    attempts = outcome.attempts + sum(record.attempts for record in tried)
    lost = add_usage(lost, outcome.lost)
    if isinstance(outcome, Done):
        return Done(outcome.value, attempts, tried, lost)
    before = "; ".join(f"{record.target}: {record.error.safe}" for record in tried)
    info = msgspec.structs.replace(
        outcome.info, safe=f"{outcome.info.safe} (before that, {before})"
    )
    outcome.error.add_note(f"tried before: {before}")
    if isinstance(outcome.error, HoldfastError):
        outcome.error.info = info
    return msgspec.structs.replace(outcome, info=info, attempts=attempts, tried=tried, lost=lost)
