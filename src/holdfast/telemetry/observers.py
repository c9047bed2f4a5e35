"""Observers: functions that receive every event and notice of all runs of an agent.

An observer may also enter a context manager around a drive of a turn, an attempt of a model and an
attempt of a tool, so that what happens inside finds it in its context variables. An observer cannot
change a run. An exception that it raises is logged, and the run and the other observers continue. A run
must never wait for an observer, and an agent without observers has no extra cost.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.argument_checks import check_value, is_async
from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import FromAgent, Notice
from holdfast.core.turn_options import Metadata, is_traceparent
from holdfast.resilience.pipeline import CallContext, Failed, Operation, Outcome

_log = logging.getLogger("holdfast")
_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta, RefusalDelta)
_CHOSEN = (*_DELTAS, FromAgent)
"""Items that an observer may decline."""


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


SUBMITTED_AT: ContextVar[float] = ContextVar("holdfast-submitted-at", default=0.0)
"""When the turn that begins now was put into a queue; a worker sets it."""

CALLER_TRACE: ContextVar[str] = ContextVar("holdfast-caller-trace", default="")
"""The header `traceparent` of the request that a service answers."""

CURRENT_TRACE: ContextVar[str] = ContextVar("holdfast-current-trace", default="")
"""The `traceparent` that tools of HTTP APIs send; an observer sets it around an attempt of a tool."""

IGNORED_TRACES = Counter[str]()
"""How many `traceparent`s of callers were malformed, under the key "malformed"."""


def read_trace(text: str) -> str:
    """Return a `traceparent` of a caller; "" for a malformed one, which is counted.

    Args:
        text: the text that the caller sent.

    >>> read_trace("garbage")
    ''
    """
    text = text.strip()
    if is_traceparent(text):
        return text
    IGNORED_TRACES["malformed"] += 1
    return ""


class ObservedTurn(Struct, eq=False, kw_only=True):
    """A drive of a turn: the work of one process on it, from its beginning or from where it is continued.

    Args:
        agent: the agent's name.
        run_id: the id of the run, or the name of the session.
        key: the key of the turn, such as `t1`.
        session: the name of the session; None without one.
        metadata: the value of `agent.run(metadata=...)` for this turn.
        trace: the `traceparent` that the turn has from its caller, or had when it was begun; "" without
            one. Of a turn that begins, an observer may set it, and it is saved with the turn.
        drive: the `traceparent` of the last drive that saved something of the turn; "" of a turn that begins.
        own: the `traceparent` of this drive, which an observer may set, and which is saved with the turn.
        is_continued: whether the turn was begun by another drive.
        is_nested: whether the turn works for a tool call of another agent.
        submitted_at: when the turn was put into a queue, in seconds since the epoch; 0.0 if it was not.
    """

    agent: str
    run_id: str
    key: str
    session: str | None = None
    metadata: Metadata = {}
    trace: str = ""
    drive: str = ""
    own: str = ""
    is_continued: bool = False
    is_nested: bool = False
    submitted_at: float = 0.0


class ObservedTarget(Struct, frozen=True):
    """A model that is asked: its name in results, its provider, and the address of its server."""

    name: str
    provider: str = ""
    address: str = ""


class ObservedAttempt(Struct, eq=False, kw_only=True):
    """An attempt of a model call: one request.

    Args:
        run_id: the id of the run.
        key: the key of the model call.
        attempt: its number, from 1; a hedge has that of the attempt beside it.
        target: the model.
        request: the request.
        began_at: when it began, in seconds since the epoch.
        first_content_at: when the first content of a streamed reply came; None if nobody reads the stream.
        outcome: how it ended; None before its end, or if it was cancelled.
    """

    run_id: str
    key: str
    attempt: int
    target: ObservedTarget
    request: ModelRequest
    began_at: float
    first_content_at: float | None = None
    outcome: Outcome[Reply] | None = None


class ObservedTool(Struct, eq=False, kw_only=True):
    """An attempt of a tool.

    Args:
        run_id: the id of the run.
        key: the key of the tool call.
        name: the name of the tool.
        call_id: the provider's id of the call.
        arguments: the arguments, as JSON text.
        attempt: its number, from 1.
        failure: how it failed; None before its end, or without a failure.
    """

    run_id: str
    key: str
    name: str
    call_id: str
    arguments: str
    attempt: int = 1
    failure: Failed | None = None


ObservedCall: TypeAlias = ObservedTurn | ObservedAttempt | ObservedTool
"""A part of a run around which an observer may enter a context manager."""


@runtime_checkable
class EventObserver(Protocol):
    """An object that receives events and notices.

    These attributes are optional. An observer whose `reads_deltas` is False gets no pieces of text, such as
    `TextDelta`. A reply is then not read piece by piece for its sake. An observer whose `follows_agents` is True
    also observes the agents that work as tools of its own, each under its name and its run id, and gets no
    `FromAgent`. An observer with a method `around(call)` returns a context manager, which is entered around each
    drive of a turn (`ObservedTurn`), each attempt of a model (`ObservedAttempt`) and each attempt of a tool
    (`ObservedTool`), in the task of the run. A method `find_trace()` returns the `traceparent` of the code that
    runs, which is saved with a turn that is put into a queue; "" if there is none.
    """

    def on_event(self, seen: Observation, /) -> None:
        """Called for each item, in order and within the run, so it must be fast."""
        ...


Observer: TypeAlias = Callable[[Observation], None] | EventObserver
"""A function, or an object with a method `on_event`, that receives the items of all runs of an agent."""
Publish: TypeAlias = Callable[[Event | Notice], None]
Ready: TypeAlias = Callable[[], Awaitable[None]]


EnterAround: TypeAlias = Callable[[ObservedCall], AbstractContextManager[object]]


class CheckedObserver(Struct, frozen=True):
    """The function of an observer, and which items it wants."""

    call: Callable[[Observation], None]
    reads_deltas: bool = True
    follows_agents: bool = False
    around: EnterAround | None = None
    find_trace: Callable[[], str] | None = None

    def wants_item(self, item: Event | Notice) -> bool:
        """Whether the observer gets an item."""
        if type(item) is FromAgent:
            return not self.follows_agents and (
                self.reads_deltas or not isinstance(item.item, _DELTAS)
            )
        return self.reads_deltas or not isinstance(item, _DELTAS)


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
    wants = {"reads_deltas": True, "follows_agents": False}
    for name, default in wants.items():
        wants[name] = getattr(observer, name, default)
        check_value(f"{argument}.{name}", wants[name], bool)
    around: object = getattr(observer, "around", None)
    if around is not None and (not callable(around) or is_async(around)):
        raise ConfigurationError(
            f"{argument}.around", "must be a method that returns a context manager"
        )
    find_trace: object = getattr(observer, "find_trace", None)
    if find_trace is not None and (not callable(find_trace) or is_async(find_trace)):
        raise ConfigurationError(f"{argument}.find_trace", "must be a method that returns a text")
    return CheckedObserver(call, **wants, around=around, find_trace=find_trace)


def find_current_trace(observers: tuple[CheckedObserver, ...]) -> str:
    """Return the `traceparent` of the code that runs, as an observer knows it; "" if none does.

    Args:
        observers: the observers of an agent.
    """
    for observer in observers:
        if observer.find_trace is None:
            continue
        try:
            found: object = observer.find_trace()
        except Exception as error:  # noqa: BLE001  # REASON: observers are the user's code
            _log_failure(observer.find_trace, "a submission", error)
            continue
        if isinstance(found, str) and is_traceparent(found):
            return found
    return ""


def join_observers(
    own: tuple[CheckedObserver, ...], more: tuple[CheckedObserver, ...]
) -> tuple[CheckedObserver, ...]:
    """Return the observers of an agent with others, each once.

    Args:
        own: the observers of the agent.
        more: the others.
    """
    known = [one.call for one in own]
    added = [one for one in more if one.call not in known]
    return (*own, *added) if added else own


def add_followers(
    own: tuple[CheckedObserver, ...], caller: tuple[CheckedObserver, ...]
) -> tuple[CheckedObserver, ...]:
    """Return the observers of an agent that works as a tool, with those of its caller that follow it there.

    Args:
        own: the observers of the agent.
        caller: the observers of its caller.
    """
    return join_observers(own, tuple([one for one in caller if one.follows_agents]))


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
    wants_all = all(one.reads_deltas and not one.follows_agents for one in observers)

    def emit(item: Event | Notice) -> None:
        if publish is not None:
            publish(item)
        listeners = observers
        if not wants_all and isinstance(item, _CHOSEN):
            listeners = tuple([one for one in observers if one.wants_item(item)])
            if not listeners:
                return
        seen = Observation(agent, run_id, item, metadata)
        for observer in listeners:
            try:
                observer.call(seen)
            except Exception as error:  # noqa: BLE001  # REASON: observers are the user's code
                _log_failure(observer.call, type(item).__name__, error)

    return emit


def _log_failure(function: Callable[..., object], what: str, error: Exception) -> None:
    name = getattr(function, "__qualname__", type(function).__name__)
    _log.warning("the observer %s failed on %s", name, what, exc_info=detach_for_log(error))


class RunScopes(Struct, frozen=True):
    """The context managers of observers around the parts of one run.

    Args:
        run_id: the id of the run.
        functions: the methods `around` of the observers.
    """

    run_id: str
    functions: tuple[EnterAround, ...]

    def enter(self, call: ObservedCall) -> AbstractContextManager[None]:
        """Return the context managers around one part of a run as one; those that fail are logged.

        Args:
            call: the part of the run.
        """
        return _EnteredScopes(self.functions, call)


class _EnteredScopes(AbstractContextManager[None]):
    """The context managers of all observers around one part of a run."""

    __slots__ = ("_call", "_entered", "_functions")

    def __init__(self, functions: tuple[EnterAround, ...], call: ObservedCall) -> None:
        self._functions = functions
        self._call = call
        self._entered: list[tuple[EnterAround, AbstractContextManager[object]]] = []

    def __enter__(self) -> None:
        for function in self._functions:
            try:
                manager = function(self._call)
                manager.__enter__()
            except Exception as error:  # noqa: BLE001  # REASON: observers are the user's code
                _log_failure(function, type(self._call).__name__, error)
            else:
                self._entered.append((function, manager))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for function, manager in reversed(self._entered):
            try:
                manager.__exit__(kind, raised, trace)
            except Exception as error:  # noqa: BLE001  # REASON: as above
                _log_failure(function, type(self._call).__name__, error)


def make_scopes(observers: tuple[CheckedObserver, ...], run_id: str) -> RunScopes | None:
    """Return the context managers around the parts of a run; None if no observer has any.

    Args:
        observers: the observers of the agent.
        run_id: the id of the run.
    """
    if not observers:
        return None
    functions = tuple([one.around for one in observers if one.around is not None])
    return RunScopes(run_id, functions) if functions else None


def observe_attempts(
    target: ObservedTarget, attempt: Operation[ModelRequest, Reply]
) -> Operation[ModelRequest, Reply]:
    """Return the operation of one attempt of a model, with the context managers of observers around it.

    Args:
        target: the model.
        attempt: makes the attempt.
    """

    async def make_attempt(call: CallContext[ModelRequest]) -> Outcome[Reply]:
        execution = call.execution
        scopes, now = execution.scopes, execution.clock.now
        if not isinstance(scopes, RunScopes):
            return await attempt(call)
        seen = ObservedAttempt(
            run_id=scopes.run_id,
            key=call.key,
            attempt=call.attempt,
            target=target,
            request=call.payload,
            began_at=now(),
        )

        def note_content() -> None:
            if seen.first_content_at is None:
                seen.first_content_at = now()

        with scopes.enter(seen):
            execution = replace(execution, note_content=note_content)
            seen.outcome = await attempt(replace(call, execution=execution))
            return seen.outcome

    return make_attempt


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
