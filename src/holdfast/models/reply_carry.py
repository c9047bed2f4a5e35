"""What a reply that broke off leaves to the next attempt: its text, and the tokens that are lost.

The attempt of a model puts a reply that another attempt can continue into its outcome. A reply that
is not continued must be declared abandoned exactly once: by the attempt itself if no earlier text
was carried to it, and otherwise here.
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
        continues: a reply that breaks off may be continued by the next attempt.
        refused: the provider refused to continue a reply, so none is continued any more.
        reply_so_far: what earlier attempts received of the reply; the next one goes on from there.
        lost: tokens of failed attempts whose replies are not continued.
    """

    continues: bool = False
    refused: bool = False
    reply_so_far: Reply | None = None
    lost: Usage | None = None

    @property
    def may_continue(self) -> bool:
        """Whether a reply that breaks off now may be continued."""
        return self.continues and not self.refused

    def is_attempt_counted(self, outcome: Failed) -> bool:
        """False when the provider refused the text that was sent along, and not the request."""
        return not (
            self.reply_so_far is not None
            and outcome.carry is None
            and outcome.may_repeat
            and outcome.info.category is ErrorCategory.CLIENT_ERROR
        )

    def after_attempt(self, call: CallContext[P], outcome: Failed) -> Carry:
        """The text to continue, if there is any; otherwise the tokens of the attempt are lost."""
        if not outcome.sent:
            return self
        if outcome.carry is not None:
            return outcome.carry
        self.give_up(call, outcome)
        return ReplyCarry(
            self.continues,
            self.refused or not self.is_attempt_counted(outcome),
            lost=add_usage(self.lost, _spent_usage(outcome, self.reply_so_far)),
        )

    def after_target(self, outcome: Failed) -> Carry:
        """Another model continues nothing: the tokens of this one are lost."""
        return ReplyCarry(self.continues, lost=add_usage(self.lost, _spent_usage(outcome)))

    def give_up(self, call: CallContext[P], outcome: Failed) -> None:
        """Tell whoever shows the text to remove it, if text was kept for another attempt."""
        if outcome.carry is not None or self.reply_so_far is not None:
            call.execution.emit(AttemptAbandoned(call.key, call.attempt, outcome.info.to_public()))

    def interrupt(self, call: CallContext[P]) -> None:
        """What there is of the reply is the partial reply of the call."""
        if self.reply_so_far is not None and call.execution.keep_partial is not None:
            call.execution.keep_partial(self.reply_so_far)


NOTHING_CARRIED = ReplyCarry()


def read_carry(call: CallContext[P]) -> ReplyCarry:
    """What earlier attempts left to this one."""
    carry = call.carry
    return carry if isinstance(carry, ReplyCarry) else NOTHING_CARRIED


def with_continuable_reply(call: CallContext[P], outcome: Failed, reply: Reply) -> Failed:
    """The failure, with a reply that the next attempt can continue."""
    return replace(outcome, carry=replace(read_carry(call), reply_so_far=reply))


def lost_usage(outcome: Outcome[T]) -> Usage | None:
    """Tokens of failed attempts before this outcome; those of a failure itself are in its partial."""
    carry = outcome.carry
    return carry.lost if isinstance(carry, ReplyCarry) else None


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """The sum; None when there is nothing to add."""
    return one + other if one and other else one or other


def _spent_usage(outcome: Failed, reply_so_far: Reply | None = None) -> Usage | None:
    """The tokens of a failed attempt: of its partial reply, or else of what was kept before."""
    partial = outcome.error.partial if isinstance(outcome.error, HoldfastError) else None
    received = partial or reply_so_far
    return received.usage if received is not None and received.usage.total else None
