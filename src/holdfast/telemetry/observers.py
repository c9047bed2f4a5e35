"""Observers: functions that receive every event and notice of all runs of an agent.

An observer cannot change a run. An exception that it raises is logged, and the run and the other
observers continue. A run must never wait for an observer, and an agent without observers has no
extra cost.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.core.argument_checks import check_value, is_async
from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.core.notices import FromAgent, Notice
from holdfast.core.turn_options import Metadata

_log = logging.getLogger("holdfast")
_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta, RefusalDelta)


class Observation(Struct, frozen=True):
    """One event or notice of a run of an agent.

    Args:
        agent: the agent's name.
        run_id: the id of the run, or the name of the session.
        item: the event or notice.
        metadata: the value of `agent.run(metadata=...)` for this turn.
    """

    agent: str
    run_id: str
    item: Event | Notice
    metadata: Metadata = {}


@runtime_checkable
class EventObserver(Protocol):
    """An object that receives events and notices.

    An observer with an attribute `reads_deltas` that is False gets no pieces of text, such as `TextDelta`. A reply
    is then not read piece by piece for its sake.
    """

    def on_event(self, seen: Observation, /) -> None:
        """Called for each item, in order and within the run, so it must be fast."""
        ...


Observer: TypeAlias = Callable[[Observation], None] | EventObserver
"""A function, or an object with a method `on_event`, that receives the items of all runs of an agent."""
Publish: TypeAlias = Callable[[Event | Notice], None]
Ready: TypeAlias = Callable[[], Awaitable[None]]


class CheckedObserver(Struct, frozen=True):
    """The function of an observer, and whether it reads pieces of text."""

    call: Callable[[Observation], None]
    reads_deltas: bool


def check_observers(observers: Iterable[Observer]) -> tuple[CheckedObserver, ...]:
    """Return the functions to call. Raises ConfigurationError that names a wrong observer."""
    check_value("observers", observers, Iterable[object])
    return tuple(_check_observer(index, observer) for index, observer in enumerate(observers))


def _check_observer(index: int, observer: Observer) -> CheckedObserver:
    argument = f"observers[{index}]"
    if isinstance(observer, type):
        raise ConfigurationError(
            argument, f"is the class {observer.__name__}", fix=f"Write {observer.__name__}()"
        )
    check_value(argument, observer, Observer)
    call = observer.on_event if isinstance(observer, EventObserver) else observer
    if is_async(call):
        raise ConfigurationError(
            argument,
            "is async, but a run does not wait for observers",
            fix="Write `def`, and pass slow work to a queue",
        )
    reads_deltas = getattr(observer, "reads_deltas", True)
    check_value(f"{argument}.reads_deltas", reads_deltas, bool)
    return CheckedObserver(call, reads_deltas)


def make_emitter(
    observers: tuple[CheckedObserver, ...],
    who: tuple[str, str, Metadata],
    publish: Publish | None,
) -> Publish | None:
    """Return the function that passes an item to the reader of a run and to the observers.

    Args:
        observers: the observers of the agent.
        who: the agent's name, the run id, and the metadata of the turn.
        publish: passes an item to the reader; None without a reader.

    Returns:
        The function, or None when there is neither a reader nor an observer.
    """
    if not observers:
        return publish
    agent, run_id, metadata = who
    readers = tuple(observer for observer in observers if observer.reads_deltas)

    def emit(item: Event | Notice) -> None:
        if publish is not None:
            publish(item)
        is_delta = isinstance(item.item if isinstance(item, FromAgent) else item, _DELTAS)
        listeners = readers if is_delta else observers
        if not listeners:
            return
        seen = Observation(agent, run_id, item, metadata)
        for observer in listeners:
            try:
                observer.call(seen)
            except Exception as error:  # noqa: BLE001  # REASON: observers are the user's code
                name = getattr(observer.call, "__qualname__", type(observer.call).__name__)
                _log.warning(
                    "the observer %s failed on %s",
                    name,
                    type(item).__name__,
                    exc_info=detach_for_log(error),
                )

    return emit


def find_watch(
    observers: tuple[CheckedObserver, ...], watch: Callable[[], bool] | None
) -> Callable[[], bool] | None:
    """Return the function that says whether somebody reads deltas as they arrive; None if somebody always does.

    Args:
        observers: the observers of the agent.
        watch: whether the reader of the run does; None without a reader.
    """
    if any(observer.reads_deltas for observer in observers):
        return None
    return watch or _is_unwatched


def _is_unwatched() -> bool:
    return False


async def wait_for_nobody() -> None:
    """Return at once: there is no reader to wait for."""
