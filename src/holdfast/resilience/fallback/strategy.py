"""Fallback: when one target fails, ask the next one, and record the failed ones.

Another target is asked only after a failure that it may not have: an outage, a limit, a key of that
provider, a model that does not exist. A request that is wrong would fail everywhere, and a reply that
a content filter withheld must never be requested elsewhere. The history stays as it is: a request is
independent of the provider, and each target encodes it for its own wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError, ErrorCategory, HoldfastError
from holdfast.core.events import FailedTarget
from holdfast.resilience.fallback.decision import retarget_call, should_try_next
from holdfast.resilience.fallback.options import ELSEWHERE, FallbackTarget
from holdfast.resilience.pipeline import CallContext, Carry, Done, Failed, Operation, Outcome, P, T


class Fallback(Struct, frozen=True):
    """The strategy: the wrapped operation first, then each target in order.

    Args:
        primary: the name of the wrapped operation.
        targets: the targets that are asked when it fails.
        categories: the failures after which the next target is asked.
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
            raise ConfigurationError("fallback.categories", f"{set(odd)} is not an ErrorCategory")

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
        """The operation, and the other targets after it."""
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
            carry = call.carry
            for other, model, ask in others:
                if not isinstance(outcome, Failed) or not should_try_next(
                    categories, outcome, call
                ):
                    break
                tried = (*tried, FailedTarget(name, outcome.attempts, outcome.info.to_public()))
                carry = _carry_on(outcome, carry)
                outcome = await ask(retarget_call(call, model, tried, carry))
                name = other
            return _with_failed_targets(outcome, tried, carry)

        return with_fallback


def _carry_on(outcome: Failed, carry: Carry | None) -> Carry | None:
    """Return the carry for the next target, after a target with `carry` has failed."""
    carry = outcome.carry or carry
    return None if carry is None else carry.after_target(outcome)


def _with_failed_targets(
    outcome: Outcome[T], tried: tuple[FailedTarget, ...], carry: Carry | None
) -> Outcome[T]:
    """The outcome with the targets that failed before, which the text of a failure names."""
    if not tried:
        return outcome
    attempts = outcome.attempts + sum(record.attempts for record in tried)
    carry = outcome.carry or carry
    if isinstance(outcome, Done):
        return Done(outcome.value, attempts, tried, carry)
    before = "; ".join(f"{record.target}: {record.error.safe}" for record in tried)
    info = msgspec.structs.replace(
        outcome.info, safe=f"{outcome.info.safe} (before that, {before})"
    )
    outcome.error.add_note(f"tried before: {before}")
    if isinstance(outcome.error, HoldfastError):
        outcome.error.info = info
    return msgspec.structs.replace(outcome, info=info, attempts=attempts, tried=tried, carry=carry)
