"""How strategies compose: each wraps an act, and the outcome travels between them as a value.

A strategy receives an act and returns an act of the same shape. The wrapping happens once, when
the pipeline is made, so a strategy that is not there costs nothing. An act must never raise for a
failure of the outside world: it returns `Failed`. Cancellation is never an outcome; it passes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from holdfast.core.errors import ErrorInfo, HoldfastError
from holdfast.core.messages import Reply
from holdfast.core.notices import Notice
from holdfast.resilience.clock import Clock, Dice

P = TypeVar("P")
T = TypeVar("T")


class Done(Struct, Generic[T], frozen=True):
    """The act gave a value, at attempt number `attempts`."""

    value: T
    attempts: int = 1


class Failed(Struct, frozen=True):
    """The act failed: the exception as an object, and what is known about it.

    `may_repeat` is False when the act may have taken effect and must not be done twice.
    """

    error: BaseException
    info: ErrorInfo
    attempts: int = 1
    may_repeat: bool = True


def failed(error: HoldfastError) -> Failed:
    """The outcome for one of our own exceptions."""
    return Failed(error, error.info)


Outcome: TypeAlias = Done[T] | Failed


class Env(Struct, frozen=True):
    """What the acts of one run share: time, chance, and where notices go.

    `publish` and `ready` are None when nobody listens; `ready` waits until the listener has caught
    up, so that a slow reader slows the socket and not the memory. `keep_partial` is given what a
    reply had when its attempt was cancelled.
    """

    clock: Clock
    dice: Dice
    publish: Callable[[Notice], None] | None = None
    ready: Callable[[], Awaitable[None]] | None = None
    keep_partial: Callable[[Reply], None] | None = None

    def tell(self, notice: Notice) -> None:
        """Publish, if somebody listens."""
        if self.publish is not None:
            self.publish(notice)


class Call(Struct, Generic[P], frozen=True):
    """One effect on its way through a pipeline.

    Args:
        key: the effect's key.
        payload: what the innermost act needs.
        env: time, chance and notices.
        deadline: on the monotonic clock; None when the run has no time limit.
        attempt: counted from 1 by the retry strategy.
    """

    key: str
    payload: P
    env: Env
    deadline: float | None = None
    attempt: int = 1


Act: TypeAlias = Callable[[Call[P]], Awaitable[Outcome[T]]]


class Strategy(Protocol):
    """One kind of safety around one effect."""

    @property
    def name(self) -> str:
        """A word for `describe()`."""
        ...

    def describe(self) -> Mapping[str, object]:
        """The settings, as plain values."""
        ...

    def wrap(self, act: Act[P, T]) -> Act[P, T]:
        """The act, made safer."""
        ...


class Pipeline(Struct, frozen=True):
    """Strategies in order, the first one outermost."""

    strategies: tuple[Strategy, ...] = ()

    def around(self, act: Act[P, T]) -> Act[P, T]:
        """Compose once: `first(second(...(act)))`."""
        for strategy in reversed(self.strategies):
            act = strategy.wrap(act)
        return act

    def describe(self) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """The names and settings, outermost first."""
        return tuple((strategy.name, strategy.describe()) for strategy in self.strategies)
