"""What an attempt that failed leaves to the next one: a text to go on from, or tokens that are lost.

The attempt says what can be kept (`Failed.kept`), and the retry strategy hands it to the next one.
Text that was kept and is not continued must be declared abandoned, exactly once, by whoever gives
it up: this module. It must never look into the text.
"""

from __future__ import annotations

from asyncio import CancelledError

from holdfast.core.errors import ErrorCategory, HoldfastError
from holdfast.core.messages import Reply, Usage
from holdfast.core.notices import AttemptAbandoned
from holdfast.resilience.pipeline import CallContext, Failed, P


def reply_after(call: CallContext[P], outcome: Failed) -> Reply | None:
    """What there is of the reply after this outcome; who was held back lost nothing."""
    return outcome.continuable_reply if outcome.sent else call.reply_so_far


def spent_usage(outcome: Failed, reply_so_far: Reply | None = None) -> Usage | None:
    """The tokens of a failure that are in no reply: those of what it got, or of what was kept before."""
    partial = outcome.error.partial if isinstance(outcome.error, HoldfastError) else None
    got = partial or reply_so_far
    return got.usage if got is not None and got.usage.total else None


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """The sum, None when there is nothing to add."""
    return one + other if one and other else one or other


def abandon_reply(call: CallContext[P], outcome: Failed) -> None:
    """Tell those who listen to forget the text, if any was kept."""
    if outcome.continuable_reply is not None or call.reply_so_far is not None:
        call.execution.emit(AttemptAbandoned(call.key, call.attempt, outcome.info.to_public()))


def refuses_to_continue(call: CallContext[P], outcome: Failed) -> bool:
    """Whether the provider refuses the beginning that was sent along, and not the question."""
    refused = outcome.info.category is ErrorCategory.CLIENT_ERROR
    return (
        refused
        and call.reply_so_far is not None
        and outcome.continuable_reply is None
        and outcome.may_repeat
    )


async def wait_before_retry(call: CallContext[P], seconds: float) -> None:
    """Wait before the next attempt; cancelled meanwhile, what is kept is the partial reply."""
    if seconds <= 0:
        return
    try:
        await call.execution.clock.sleep(seconds)
    except CancelledError:
        if call.reply_so_far is not None and call.execution.keep_partial is not None:
            call.execution.keep_partial(call.reply_so_far)
        raise
