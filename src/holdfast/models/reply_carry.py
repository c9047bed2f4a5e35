"""Carries a reply that broke off to the next attempt: its text, and the tokens that are lost.

An attempt puts a reply that another attempt can continue into its outcome. For a reply that is not
continued, `AttemptAbandoned` is emitted exactly once: by the attempt itself if no earlier text was
carried to it, and otherwise here.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import ErrorCategory, HoldfastError
from holdfast.core.messages import Reply, Usage
from holdfast.core.notices import AttemptAbandoned
from holdfast.resilience.pipeline import CallContext, Carry, Failed, Outcome, P, T


class ReplyCarry(Struct, frozen=True):
    """The carry of a model call.

    Args:
        continues: whether the next attempt may continue a reply that breaks off.
        refused: whether the provider refused to continue a reply; then no reply is continued any more.
        reply_so_far: the part of the reply that earlier attempts received, which the next one continues.
        lost: the tokens of failed attempts whose replies are not continued.
        meter: what prices the attempts, which the runtime passes on to them; None without prices.
    """

    continues: bool = False
    refused: bool = False
    reply_so_far: Reply | None = None
    lost: Usage | None = None
    meter: object = None

    @property
    def may_continue(self) -> bool:
        """Whether a reply that breaks off may be continued."""
        return self.continues and not self.refused

    def is_attempt_counted(self, outcome: Failed) -> bool:
        """Whether the attempt counts: not if the provider rejected only the text to continue."""
        return not (
            self.reply_so_far is not None
            and outcome.carry is None
            and outcome.may_repeat
            and outcome.info.category is ErrorCategory.CLIENT_ERROR
        )

    def after_attempt(self, call: CallContext[P], outcome: Failed) -> Carry:
        """Return the text to continue; without one, the tokens of the attempt are added to `lost`."""
        if not outcome.sent:
            return self
        if outcome.carry is not None:
            return outcome.carry
        self.give_up(call, outcome)
        return ReplyCarry(
            self.continues,
            self.refused or not self.is_attempt_counted(outcome),
            lost=add_usage(self.lost, _spent_usage(outcome, self.reply_so_far)),
            meter=self.meter,
        )

    def after_target(self, outcome: Failed) -> Carry:
        """Return the carry for another model, which continues no reply: the tokens of this one are lost."""
        lost = add_usage(self.lost, _spent_usage(outcome))
        return ReplyCarry(self.continues, lost=lost, meter=self.meter)

    def give_up(self, call: CallContext[P], outcome: Failed) -> None:
        """Emit `AttemptAbandoned` if there is text that another attempt was to continue."""
        if outcome.carry is not None or self.reply_so_far is not None:
            call.execution.emit(AttemptAbandoned(call.key, call.attempt, outcome.info.to_public()))

    def interrupt(self, call: CallContext[P]) -> None:
        """Store the text so far as the partial reply of the call."""
        if self.reply_so_far is not None and call.execution.keep_partial is not None:
            call.execution.keep_partial(self.reply_so_far)


NOTHING_CARRIED = ReplyCarry()


def read_carry(call: CallContext[P]) -> ReplyCarry:
    """Return the carry of earlier attempts."""
    carry = call.carry
    return carry if isinstance(carry, ReplyCarry) else NOTHING_CARRIED


def with_continuable_reply(call: CallContext[P], outcome: Failed, reply: Reply) -> Failed:
    """Return the failure with a reply that the next attempt can continue."""
    return replace(outcome, carry=replace(read_carry(call), reply_so_far=reply))


def lost_usage(outcome: Outcome[T]) -> Usage | None:
    """Return the tokens of failed attempts before this outcome; those of the outcome are in its partial reply."""
    carry = outcome.carry
    return carry.lost if isinstance(carry, ReplyCarry) else None


def add_usage(first: Usage | None, second: Usage | None) -> Usage | None:
    """Return the sum; None if both are None."""
    return first + second if first and second else first or second


def _spent_usage(outcome: Failed, reply_so_far: Reply | None = None) -> Usage | None:
    """Return the tokens of a failed attempt: those of its partial reply, or else of the earlier text."""
    partial = outcome.error.partial if isinstance(outcome.error, HoldfastError) else None
    received = partial or reply_so_far
    return received.usage if received is not None and received.usage.total else None
