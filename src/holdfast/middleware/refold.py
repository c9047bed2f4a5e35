"""Computes the states of middlewares for a session that may have been rewound.

A rewind resets the state of a session's fold, as it resets the history. A middleware with
`rewinds = False` is the exception, for what cannot be undone, such as money that was spent. This
module must never call a hook.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.events import (
    Event,
    HistoryCompacted,
    SessionRewound,
    SessionTitled,
    TurnClosed,
)
from holdfast.middleware.folds import Folds

_ENDS = (TurnClosed, SessionRewound, HistoryCompacted, SessionTitled)


def refold_session(folds: Folds, events: Sequence[Event]) -> Folds:
    """Fold all events of a session, and reset the states at each rewind. Return `folds`.

    Args:
        folds: folds without any event.
        events: all events of the session, in order.
    """
    targets = {event.to for event in events if isinstance(event, SessionRewound)}
    states = {0: dict(folds.states)}
    number = 0
    for event in events:
        if isinstance(event, SessionRewound):
            folds.rewind_states(states[event.to])
        folds.apply(event)
        if isinstance(event, _ENDS):
            number += 1
            if number in targets:
                states[number] = dict(folds.states)
    return folds
