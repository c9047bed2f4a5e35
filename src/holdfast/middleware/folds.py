"""What middlewares remember: folds over the events of a turn or of a session.

Which fold is called for which kind of event is decided once, when an agent is made. A fold that
raises keeps the state that it had; the failure is reported once, by the next hook point. States
must never be kept anywhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, get_args

from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import Event, TurnOpened
from holdfast.core.redaction import redact
from holdfast.middleware.hooks import Middleware, is_older

Fold: TypeAlias = Callable[[Any, Any], object]  # of any state, and of the events that it is for

_KINDS: tuple[type[Event], ...] = get_args(Event)
_twice: ContextVar[bool] = ContextVar("holdfast-fold-twice", default=False)


class FoldTable:
    """The folds of an agent by the kind of event that they are for.

    Args:
        middlewares: those that fold.

    Raises:
        ConfigurationError: one names something that is no kind of event.
    """

    __slots__ = ("by_kind", "keys", "middlewares", "of_turns")

    def __init__(self, middlewares: Sequence[Middleware[Any]]) -> None:
        self.middlewares = tuple(middlewares)
        self.of_turns = tuple(one for one in middlewares if one.scope == "turn")
        # A state is found fastest by the very object that is its key.
        self.keys = {key: key for key in map(id, middlewares)}
        by_kind: dict[type[Event], list[tuple[int, Fold]]] = {}
        for one in middlewares:
            for kind in _kinds_of(one):
                by_kind.setdefault(kind, []).append(
                    (self.keys[id(one)], _with_purity_check(one.fold))
                )
        self.by_kind = {kind: tuple(rows) for kind, rows in by_kind.items()}


def _kinds_of(one: Middleware[Any]) -> Sequence[type[Event]]:
    for kind in one.events:
        if kind not in _KINDS:
            shown = getattr(kind, "__name__", repr(kind))
            raise ConfigurationError(
                f"{one.name}.events", f"{shown} is no kind of event", fix="Name kinds of Event"
            )
    # A subclass with another fold may be for other events.
    older = "events" not in vars(one) and is_older(type(one), "events", "fold")
    return _KINDS if older or not one.events else one.events


class Folds:
    """The states of the middlewares of one run, kept up event by event.

    Args:
        table: the folds of the agent.
    """

    __slots__ = ("_by_kind", "_table", "failure", "states")

    def __init__(self, table: FoldTable) -> None:
        self._table = table
        self._by_kind = table.by_kind
        self.states: dict[int, object] = {
            table.keys[id(one)]: one.initial for one in table.middlewares
        }
        self.failure: MiddlewareError | None = None

    @property
    def view(self) -> Mapping[int, object]:
        """The states by the identity of their middleware."""
        return self.states

    def apply(self, event: Event) -> None:
        """Take one fact."""
        kind = type(event)
        if kind is TurnOpened:
            for middleware in self._table.of_turns:
                self.states[id(middleware)] = middleware.initial
        if (rows := self._by_kind.get(kind)) is None:
            return
        states = self.states
        for key, fold in rows:
            try:
                states[key] = fold(states[key], event)
            except Exception as error:  # noqa: BLE001  # REASON: a fold is the user's code
                self._record_failure(key, error)

    def rewind_states(self, states: Mapping[int, object]) -> None:
        """Take states of an earlier moment again, for those middlewares that go back.

        Args:
            states: by the identity of their middleware.
        """
        back = (id(one) for one in self._table.middlewares if one.rewinds)
        self.states.update((key, states[key]) for key in back)

    def _record_failure(self, key: int, error: Exception) -> None:
        (owner,) = (one.name for one in self._table.middlewares if id(one) == key)
        name = type(error).__name__
        problem = str(error) if isinstance(error, ImpureFoldError) else f"raised {name}"
        self.failure = MiddlewareError(owner, "fold", problem, private=redact(f"{name}: {error}"))
        self.failure.__cause__ = error


class ImpureFoldError(Exception):
    """A fold did more than to compute, or not the same twice."""


@contextmanager
def folding_twice() -> Iterator[None]:
    """Check the folds of the agents that are made in here: each folds twice. For tests."""
    token = _twice.set(True)
    try:
        yield
    finally:
        _twice.reset(token)


def _with_purity_check(fold: Fold) -> Fold:
    """The fold; where folds are checked, one that raises ImpureFoldError if it is not pure."""
    if not _twice.get():
        return fold

    def twice(state: object, event: Event) -> object:
        _check_pure(fold, state, event)
        return fold(state, event)

    return twice


def _check_pure(fold: Fold, state: object, event: Event) -> None:
    one, two = copy.deepcopy(state), copy.deepcopy(state)
    first, second = fold(one, event), fold(two, event)
    if one != state and _is_comparable(state):
        raise ImpureFoldError(f"changes its state in place at {type(event).__name__}")
    if first != second and _is_comparable(first):
        raise ImpureFoldError(f"is not the same twice at {type(event).__name__}")


def _is_comparable(state: object) -> bool:
    return type(state).__eq__ is not object.__eq__
