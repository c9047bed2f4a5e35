"""Observers: see every event and every notice of all runs of an agent, without a stream.

They look and nothing more: what one raises is logged, and neither the run nor another observer
learns of it. A run must never wait for one, and an agent without observers pays nothing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.core.notices import Notice

_log = logging.getLogger("holdfast")


class Observation(Struct, frozen=True):
    """One event or notice of a run of an agent.

    Args:
        agent: the agent's name.
        run_id: the run, or the name of the session.
        item: what happened.
    """

    agent: str
    run_id: str
    item: Event | Notice


@runtime_checkable
class EventObserver(Protocol):
    """An object that is told what happens."""

    def on_event(self, seen: Observation, /) -> None:
        """Called in the order of happening, within the run: it should be quick."""
        ...


Observer: TypeAlias = Callable[[Observation], None] | EventObserver
Publish: TypeAlias = Callable[[Event | Notice], None]
Ready: TypeAlias = Callable[[], Awaitable[None]]


def check_observers(observers: object) -> tuple[Callable[[Observation], None], ...]:
    """What is to be called. Raises ConfigurationError that names the observer."""
    if isinstance(observers, str) or not isinstance(observers, Iterable):
        raise ConfigurationError("observers", "must be a list", fix="Write observers=[print]")
    return tuple(_check_observer(index, one) for index, one in enumerate(observers))


def _check_observer(index: int, one: object) -> Callable[[Observation], None]:
    argument = f"observers[{index}]"
    if isinstance(one, type):
        raise ConfigurationError(
            argument, f"is the class {one.__name__}", fix=f"Write {one.__name__}()"
        )
    call = one.on_event if isinstance(one, EventObserver) else one
    if not callable(call):
        raise ConfigurationError(
            argument,
            f"must be a function or have on_event, got {type(one).__name__}",
            fix="Write a function of what is seen",
        )
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        raise ConfigurationError(
            argument,
            "is async, and a run waits for no observer",
            fix="Write `def`, and hand over to a queue what takes time",
        )
    return call


def make_emitter(
    observers: tuple[Callable[[Observation], None], ...],
    who: tuple[str, str],
    publish: Publish | None,
) -> Publish | None:
    """How a run shows what happens: to its reader and to the observers.

    Args:
        observers: of the agent.
        who: the agent's name and the run's.
        publish: how the reader is told; None without one.

    Returns:
        None when nobody looks.
    """
    if not observers:
        return publish
    agent, run_id = who

    def tell(item: Event | Notice) -> None:
        if publish is not None:
            publish(item)
        seen = Observation(agent, run_id, item)
        for observer in observers:
            try:
                observer(seen)
            except Exception:  # noqa: BLE001  # REASON: observers are the user's code
                name = getattr(observer, "__qualname__", type(observer).__name__)
                _log.warning(
                    "the observer %s failed on %s", name, type(item).__name__, exc_info=True
                )

    return tell


async def wait_for_nobody() -> None:
    """Waits for no reader: there is none."""
