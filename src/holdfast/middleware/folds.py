"""The states of middlewares: folds over the events of a turn or of a session.

The folds for each kind of event are looked up once, when an agent is made. When a fold raises, its
state stays unchanged, and the next hook reports the failure once. A rewind resets the state of a session's fold, as
it resets the history. A middleware with `rewinds = False` is the exception, for facts that cannot be undone, such
as money that was spent. States must never be stored anywhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, get_args

from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    SessionRewound,
    SessionTitled,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.redaction import redact
from holdfast.middleware.hooks import Middleware, is_older

Fold: TypeAlias = Callable[[Any, Any], object]  # takes any state, and the events of its middleware

_KINDS: tuple[type[Event], ...] = get_args(Event)
_twice: ContextVar[bool] = ContextVar("holdfast-fold-twice", default=False)


class FoldTable:
    """The folds of an agent, by the kind of event.

    Args:
        middlewares: the middlewares that define a fold.

    Raises:
        ConfigurationError: one of them names something that is not a kind of event.
    """

    __slots__ = ("by_kind", "keys", "middlewares", "of_turns")

    def __init__(self, middlewares: Sequence[Middleware[Any]]) -> None:
        self.middlewares = tuple(middlewares)
        self.of_turns = tuple(
            middleware for middleware in middlewares if middleware.scope == "turn"
        )
        # Looking up a dict is fastest with the very object that is the key.
        self.keys = {key: key for key in map(id, middlewares)}
        # A turn resets states when it is opened, even if no fold receives that event.
        by_kind: dict[type[Event], list[tuple[int, Fold]]] = {TurnOpened: []} if middlewares else {}
        for middleware in middlewares:
            for kind in find_event_kinds(middleware):
                by_kind.setdefault(kind, []).append(
                    (self.keys[id(middleware)], _with_purity_check(middleware.fold))
                )
        self.by_kind = {kind: tuple(rows) for kind, rows in by_kind.items()}


def find_event_kinds(middleware: Middleware[Any]) -> Sequence[type[Event]]:
    """Return the kinds of events that the fold of a middleware receives.

    Raises:
        ConfigurationError: `events` has something that is not a kind of event.
    """
    for kind in middleware.events or ():
        if kind not in _KINDS:
            name = getattr(kind, "__name__", repr(kind))
            raise ConfigurationError(
                f"{middleware.name}.events",
                f"{name} is not a kind of event",
                fix="Name kinds of Event",
            )
    # A subclass with another fold may need other events.
    by_instance = type(middleware).events is None and middleware.events is not None
    older = not by_instance and is_older(type(middleware), "events", "fold")
    return _KINDS if older or middleware.events is None else middleware.events


class Folds:
    """The states of the middlewares of one run, updated by each event.

    Args:
        table: the folds of the agent.
    """

    __slots__ = ("_by_kind", "_table", "failure", "states")

    def __init__(self, table: FoldTable) -> None:
        self._table = table
        self._by_kind = table.by_kind
        # By the `id` of their middleware.
        self.states: dict[int, object] = {
            table.keys[id(middleware)]: middleware.initial for middleware in table.middlewares
        }
        self.failure: MiddlewareError | None = None

    def apply(self, event: Event) -> None:
        """Update the states with one event."""
        rows = self._by_kind.get(type(event))
        if rows is None:
            return
        states = self.states
        if type(event) is TurnOpened:
            for middleware in self._table.of_turns:
                states[id(middleware)] = middleware.initial
        for key, fold in rows:
            try:
                states[key] = fold(states[key], event)
            except Exception as error:  # noqa: BLE001  # REASON: a fold is the user's code
                self._record_failure(key, error)

    def rewind_states(self, states: Mapping[int, object]) -> None:
        """Restore earlier states of the middlewares with `rewinds`.

        Args:
            states: the states, by the `id` of their middleware.
        """
        keys = (id(middleware) for middleware in self._table.middlewares if middleware.rewinds)
        self.states.update((key, states[key]) for key in keys)

    def _record_failure(self, key: int, error: Exception) -> None:
        (owner,) = (
            middleware.name for middleware in self._table.middlewares if id(middleware) == key
        )
        name = type(error).__name__
        problem = str(error) if isinstance(error, ImpureFoldError) else f"raised {name}"
        self.failure = MiddlewareError(owner, "fold", problem, private=redact(f"{name}: {error}"))
        self.failure.__cause__ = error


class ImpureFoldError(Exception):
    """A fold has side effects, or returns different states for the same input."""


@contextmanager
def folding_twice() -> Iterator[None]:
    """Check the folds of all agents made inside this context, by folding twice. For tests."""
    token = _twice.set(True)
    try:
        yield
    finally:
        _twice.reset(token)


def _with_purity_check(fold: Fold) -> Fold:
    """Return the fold. Inside `folding_twice`, it raises ImpureFoldError if it is not pure."""
    if not _twice.get():
        return fold

    def fold_twice(state: object, event: Event) -> object:
        _check_pure(fold, state, event)
        return fold(state, event)

    return fold_twice


def _check_pure(fold: Fold, state: object, event: Event) -> None:
    copy_1, copy_2 = copy.deepcopy(state), copy.deepcopy(state)
    first, second = fold(copy_1, event), fold(copy_2, event)
    if copy_1 != state and _is_comparable(state):
        raise ImpureFoldError(f"changes its state in place at {type(event).__name__}")
    if first != second and _is_comparable(first):
        raise ImpureFoldError(f"gives two different states at {type(event).__name__}")


def _is_comparable(state: object) -> bool:
    return type(state).__eq__ is not object.__eq__


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
