"""What middlewares remember of a session that was rewound: folded again, as if they had been there.

A rewind takes the state of a session's fold back to what it was, as it does with the history. The
exception is a middleware that says `rewinds = False`, since some things do not become undone: money
that was spent stays spent. This module must never call a hook.
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
    """Fold a whole session, and go back wherever it was rewound; returns `folds`.

    Args:
        folds: new ones.
        events: all events of the session, in order.
    """
    wanted = {event.to for event in events if isinstance(event, SessionRewound)}
    states = {0: dict(folds.states)}
    number = 0
    for event in events:
        if isinstance(event, SessionRewound):
            folds.rewind_states(states[event.to])
        folds.apply(event)
        if isinstance(event, _ENDS):
            number += 1
            if number in wanted:
                states[number] = dict(folds.states)
    return folds
