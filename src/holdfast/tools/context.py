"""The context of a tool call, as a frozen record.

A tool receives it in a parameter with the annotation `ToolContext`; the model does not see this
parameter. The context gives a tool no way to change its run. For code anywhere below the tool, the context of
the current call is a context variable, so it is correct in threads, nested tasks and concurrent calls. Calls of an
agent that works as a tool are nested: when they end, the outer call is current again. Holdfast's own code passes the
context explicitly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.core.context_objects import OuterCall, share_object, turn_number
from holdfast.core.cost import Cost
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Usage
from holdfast.core.notices import CustomNotice, Notice, add_origin
from holdfast.core.questions import AnyQuestion, Question, Timeout

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    A = TypeVar("A")
    T = TypeVar("T")
    Q = TypeVar("Q", bound=AnyQuestion)
    D_co = TypeVar("D_co", covariant=True, default=object)
else:
    # The default of a type variable is for type checkers; Python has it from 3.13.
    from typing import TypeVar

    A = TypeVar("A")
    T = TypeVar("T")
    Q = TypeVar("Q", bound=AnyQuestion)
    D_co = TypeVar("D_co", covariant=True)

Asker: TypeAlias = Callable[[str, int, AnyQuestion, Timeout], Awaitable[object]]
"""Asks a question for the effect with this key and attempt, and waits until the timeout."""


class UsageSink(Protocol):
    """Counts the tokens that a call uses, and their cost."""

    def add(self, usage: Usage, cost: Cost | None = None) -> None:
        """Add the tokens of one model call, and their cost if it is known."""
        ...

    def take_over(self, run_id: str, usage: Usage, cost: Cost | None = None) -> None:
        """Add the tokens of a run inside this one, unless they are already counted."""
        ...

    def remaining_tokens(self) -> int | None:
        """Return the number of tokens that may still be used; None without a limit."""
        ...


class EventSink(Struct, frozen=True):
    """Publishes notices of a tool on the stream of its run.

    Args:
        publish: publishes one notice.
        emit: publishes a notice of the tool's own code, from any thread.
        ready: waits until a slow reader has caught up.
        is_watched: says whether somebody reads deltas as they arrive.
        live: whether the stream has a reader, and not only observers.
    """

    publish: Callable[[Notice], None]
    emit: Callable[[Notice], None]
    ready: Callable[[], Awaitable[None]]
    is_watched: Callable[[], bool]
    live: bool = True


class ToolContext(Struct, Generic[D_co], frozen=True, kw_only=True):
    """The tool call that is running.

    Args:
        run_id: the run's id.
        key: the effect's key in the run, such as `t1.i0.tool.2`.
        call_id: the provider's id of the call; it may be empty or repeated.
        tool: the tool's name.
        attempt: the number of the attempt, from 1.
        session: the session's name, or None.
        turn_opened_at: the saved time at which the turn was opened, in seconds since the epoch.
        deps: the object that was passed to `agent.run(deps=...)`.
        arguments_json: the validated arguments, as JSON text; `arguments` has them as a dictionary.
        remaining: seconds until the run's deadline when the attempt began, or None.
        asker: the function behind `ask`; the run sets it.
        event_sink: publishes notices; None without a reader or observer.
        usage_sink: counts the tokens that the call uses; the run sets it.
        shared_objects: the objects that hooks and tools share; get them with `shared(...)`.
        metadata: the values that were passed as `agent.run(metadata=...)`.
        outer_calls: the calls that the agent of this call works for, the outermost first; empty for an
            agent that is not used as a tool. `outer_calls[0]` has the session and turn of the person.

    >>> context = ToolContext(run_id="r1", key="t1.i0.tool.0", tool="pay", turn_opened_at=1.5)
    >>> context.idempotency_key
    'r1:t1.i0.tool.0:1500000'
    """

    run_id: str
    key: str
    call_id: str = ""
    tool: str = ""
    attempt: int = 1
    session: str | None = None
    turn_opened_at: float = 0.0
    deps: D_co = None  # type: ignore[assignment]  # REASON: absent deps are None for any D_co
    arguments_json: str = "{}"
    remaining: float | None = None
    asker: Asker | None = None
    event_sink: EventSink | None = None
    usage_sink: UsageSink | None = None
    shared_objects: dict[type, object] = {}
    metadata: Mapping[str, object] = {}
    outer_calls: tuple[OuterCall, ...] = ()

    @property
    def turn(self) -> int:
        """The number of the turn in its session, from 1.

        >>> ToolContext(run_id="r1", key="t3.i0.tool.0").turn
        3
        """
        return turn_number(self.key)

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt of this call, even after a crash, and unique to it.

        It contains the time at which the turn was opened, in microseconds. So a call of another session
        that later has the same name has another key.
        """
        return f"{self.run_id}:{self.key}:{self.turn_opened_at * 1e6:.0f}"

    @property
    def arguments(self) -> Mapping[str, object]:
        """The validated arguments of the call, by the names of its parameters, with defaults."""
        arguments: dict[str, object] = msgspec.json.decode(self.arguments_json)
        return arguments

    async def ask(self, question: Question[A], *, timeout: Timeout = "default") -> A:
        """Ask a person or another program, and wait for the answer; timeouts are paused meanwhile.

        With `on_wait="suspend"`, a question without an immediate answer ends the run as "waiting".
        When the answer comes, the tool runs again from its beginning, including the code before
        `ask`, and `ask` returns the answer. A sync tool calls `asyncio.run(context.ask(...))`.

        Args:
            question: the question; your own kind of question is a frozen `Question[...]`.
            timeout: seconds to wait for an answer; None waits forever. The default is 5 minutes
                (2 for a continuation) while the run waits, and forever once it is suspended.

        Raises:
            UnansweredError: there was no answer, and this kind of question has no default answer.
            ConfigurationError: this context was not created by a run.
        """
        if self.asker is None:
            raise ConfigurationError(
                "ToolContext.asker",
                "is not set, so no question can be asked",
                fix="Let an agent run the tool, or create the context with asker=...",
            )
        return cast("A", await self.asker(self.key, self.attempt, question, timeout))

    def asked_before(self, kind: type[Q]) -> list[Q]:
        """Return the questions of a class that this call asked before it was suspended or interrupted, in order.

        To `ask` one of them again returns its answer, or waits for it. So a tool whose question depends on what it
        did before can go on from there, instead of from its beginning.

        Args:
            kind: the class of the questions.
        """
        find: Callable[[str], Iterable[AnyQuestion]] | None = getattr(
            self.asker, "find_asked", None
        )
        return [] if find is None else [one for one in find(self.key) if isinstance(one, kind)]

    def emit(self, notice: CustomNotice) -> None:
        """Stream a notice of your own to the reader and the observers of the run.

        It may be called from any thread, never waits, and does nothing if nobody listens. A notice is
        not saved in the journal. While a reader is very far behind, notices are dropped.

        Args:
            notice: the notice, an object of a subclass of `CustomNotice`.

        Raises:
            ConfigurationError: the object is not a notice.
        """
        placed = add_origin(notice, self.run_id, self.key)
        if self.event_sink is not None:
            self.event_sink.emit(placed)

    def shared(self, kind: type[T]) -> T:
        """Return the object of class `kind` that the hooks and tools of this turn share.

        The first caller makes it, as `kind()`; it lives until the turn ends in this process. A turn
        that is resumed begins without it. Tools of one reply run at the same time, so lock data that
        sync tools change in their threads.

        Args:
            kind: the class, which can be called without arguments.

        Raises:
            ConfigurationError: `kind` is not a class, or it needs arguments.

        >>> context = ToolContext(run_id="r1", key="t1.i0.tool.0")
        >>> context.shared(list).append("a")
        >>> context.shared(list)
        ['a']
        """
        return share_object(self.shared_objects, kind)

    def add_usage(self, usage: Usage, cost: Cost | None = None) -> None:
        """Add the tokens of a model call that the tool made itself, and their cost.

        They are part of `result.usage` and `result.cost`, and count for `Limits(tokens=...)` and
        `UsageLimits`. Without `cost`, the cost of the turn is not known.
        """
        if self.usage_sink is not None:
            self.usage_sink.add(usage, cost)

    def __repr__(self) -> str:
        # `deps` are left out, because they may hold clients and API keys.
        return (
            f"ToolContext(run_id={self.run_id!r}, key={self.key!r}, tool={self.tool!r}, "
            f"attempt={self.attempt})"
        )


_current: ContextVar[ToolContext[object] | None] = ContextVar("holdfast-tool-call", default=None)


def current_tool_call() -> ToolContext[object] | None:
    """Return the context of the tool call that this code is part of; None outside of a call.

    It is for code deep below a tool that has no `ToolContext` parameter: a client that sends an
    idempotency key, or a logger. A task or thread that outlives the tool still sees its call.

    >>> current_tool_call() is None
    True
    """
    return _current.get()


class tool_call_scope(Struct, eq=False):  # noqa: N801 - used like a function; twice as fast as a generator
    """Makes this call the current one for a block and for the tasks and threads that the block starts."""

    context: ToolContext[object]
    _token: Token[ToolContext[object] | None] | None = None

    def __enter__(self) -> None:
        self._token = _current.set(self.context)

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
