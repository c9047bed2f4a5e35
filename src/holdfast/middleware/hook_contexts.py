"""Hook contexts: the view that a hook has of a run, one frozen record for each kind of hook.

A context must never offer a way to change the run: a hook changes it by the decision that it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from holdfast.core.context_objects import OuterCall, share_object
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, Reply, ToolCall, ToolResult, Usage
from holdfast.core.model_request import ModelSettings, ToolSpec
from holdfast.core.notices import Notice, add_origin
from holdfast.core.questions import AnyQuestion, Question, Timeout

S_co = TypeVar("S_co", covariant=True)
S = TypeVar("S")
A = TypeVar("A")
D_co = TypeVar("D_co", covariant=True, default=object)
"""The type of the `deps` of a run: the `deps_type` of the agent."""

Ask: TypeAlias = Callable[[str, AnyQuestion, Timeout], Awaitable[object]]
"""Asks a question: takes the key of the effect that asks, the question, and the timeout."""


class Folding(Protocol[S_co]):
    """An object with a state: a middleware."""

    @property
    def initial(self) -> S_co:
        """The state before the first event."""
        ...


class RunFacts(Struct, frozen=True):
    """The facts that all hook contexts of one turn have in common.

    Args:
        agent: the agent's name.
        run_id: the id of the run in its journal.
        session: the session's name, or None.
        deps: the object that was passed as `agent.run(deps=...)`.
        turn: the number of the turn, from 1.
        iteration: the number of the iteration, from 0. It is 0 in `before_turn`, and that of the last
            model call in `after_turn`.
        states: the states of the middlewares; read them with `state_of(self)`.
        clock: returns seconds of a monotonic clock.
        now: returns seconds since the epoch.
        emit: streams a notice to the reader and the observers of the run.
        ask: asks a person.
        pausable_timeout: pauses a timeout while a question is open.
        shared_objects: the objects that hooks and tools share; get them with `shared(...)`.
        metadata: the values that were passed as `agent.run(metadata=...)`.
        outer_calls: the calls that this agent works for, the outermost first.
    """

    agent: str
    run_id: str
    session: str | None
    deps: object
    turn: int
    states: Mapping[int, object]
    clock: Callable[[], float]
    now: Callable[[], float]
    emit: Callable[[Notice], None]
    ask: Ask
    pausable_timeout: Callable[[asyncio.Timeout], AbstractContextManager[object]]
    shared_objects: dict[type, object]
    iteration: int = 0
    metadata: Mapping[str, object] = {}
    outer_calls: tuple[OuterCall, ...] = ()

    def state_of(self, middleware: Folding[S]) -> S:
        """Return the state of `middleware`: its fold over the events of this turn or session."""
        state: Any = self.states[id(middleware)]
        return state  # type: ignore[no-any-return]  # REASON: a cast would be a call for each hook

    def shared(self, kind: type[S]) -> S:
        """Return the object of class `kind` that the hooks and tools of this turn share."""
        return share_object(self.shared_objects, kind)

    def __repr__(self) -> str:
        # Without `deps`, which may hold clients and keys.
        return f"RunFacts(agent={self.agent!r}, run_id={self.run_id!r}, turn={self.turn})"


class HookContext(Struct, Generic[D_co], frozen=True):
    """The base of all hook contexts; `key` names the effect or turn, such as `t1.i0.model`."""

    facts: RunFacts
    key: str

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.facts.agent

    @property
    def run_id(self) -> str:
        """The id of the run in its journal."""
        return self.facts.run_id

    @property
    def session(self) -> str | None:
        """The session's name, or None."""
        return self.facts.session

    @property
    def deps(self) -> D_co:
        """The object that was passed as `agent.run(deps=...)`."""
        deps: Any = self.facts.deps
        return deps  # type: ignore[no-any-return]  # REASON: as in `state_of`

    @property
    def metadata(self) -> Mapping[str, object]:
        """The values that were passed as `agent.run(metadata=...)`; they are the same when the turn is resumed."""
        return self.facts.metadata

    @property
    def turn(self) -> int:
        """The number of the turn in its session, from 1."""
        return self.facts.turn

    @property
    def outer_calls(self) -> tuple[OuterCall, ...]:
        """The calls that this agent works for, the outermost first; empty unless it is used as a tool."""
        return self.facts.outer_calls

    def state_of(self, middleware: Folding[S]) -> S:
        """Return the state of `middleware`: its fold over the events of this turn or session."""
        state: Any = self.facts.states[id(middleware)]
        return state  # type: ignore[no-any-return]  # REASON: a cast would be a call for each hook

    def shared(self, kind: type[S]) -> S:
        """Return the object of class `kind` that the hooks and tools of this turn share.

        The first caller makes it, as `kind()`; it lives until the turn ends in this process. A turn
        that is resumed begins without it, so a state that must survive a crash is a fold.

        Args:
            kind: the class, which can be called without arguments.

        Raises:
            ConfigurationError: `kind` is not a class, or it needs arguments.
        """
        return share_object(self.facts.shared_objects, kind)

    def emit(self, notice: Notice) -> None:
        """Stream a notice, such as a `CustomNotice` of your own, to the reader and the observers.

        It may be called from any thread, never waits, and does nothing if nobody listens. A notice is
        not saved in the journal.

        Args:
            notice: the notice.

        Raises:
            ConfigurationError: the object is not a notice.
        """
        self.facts.emit(add_origin(notice, self.facts.run_id, self.key))

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self.facts.now()

    async def ask(self, question: Question[A], *, timeout: Timeout = "default") -> A:
        """Ask a person, and wait for the answer. Only `after_turn` and `live` cannot ask.

        If the run is suspended, the hook is called again when there is an answer. A hook before a turn
        is called again in any case, as the turn is opened for its question.

        Args:
            question: the question.
            timeout: seconds to wait for an answer. None waits without limit; "default" takes the
                `default_timeout` of the question. No answer means no.
        """
        return cast("A", await self.facts.ask(self.key, question, timeout))

    def clock(self) -> float:
        """Return seconds of a monotonic clock, for measuring and for expiry."""
        return self.facts.clock()


class InstructionsContext(HookContext[D_co], Generic[D_co], frozen=True):
    """A turn is about to begin: the facts that a function in `Agent(instructions=...)` gets about it."""

    message: Message
    messages: Sequence[Message]


class ToolsetContext(HookContext[D_co], Generic[D_co], frozen=True):
    """The model is about to be called: the facts that a function of a `Toolset` gets about the turn.

    `resource` is the object that the `lifespan` of the toolset has yielded. `has_tool_search` says whether
    each model of the agent is of a provider that searches deferred tools itself.
    """

    iteration: int
    messages: Sequence[Message]
    resource: object = None
    has_tool_search: bool = False
    reopen_resource: Callable[[], None] | None = None

    def reopen(self) -> None:
        """Mark `resource` as dead: the next model call of any turn opens the lifespan of the toolset anew.

        A tool may call it too, on the context with which it was listed. The lifespan that is marked is left
        when no turn in progress has its tools any more. Without effect if it was opened anew already.
        """
        if self.reopen_resource is not None:
            self.reopen_resource()


class BeforeTurn(HookContext[D_co], Generic[D_co], frozen=True):
    """A user message arrived; nothing of it is saved yet."""

    message: Message
    messages: Sequence[Message]
    instructions: str


class AfterTurn(HookContext[D_co], Generic[D_co], frozen=True):
    """The turn is over. `error` has the details of a failure, `exception` is the object itself."""

    status: Status
    text: str
    usage: Usage
    iterations: int
    error: ErrorInfo | None = None
    exception: BaseException | None = None
    stop_reason: str = ""


class BeforeIteration(HookContext[D_co], Generic[D_co], frozen=True):
    """The model is about to be called. `reply` is the reply that an earlier hook gave instead."""

    iteration: int
    messages: Sequence[Message]
    instructions: str
    settings: ModelSettings
    tools: tuple[ToolSpec, ...]
    usage: Usage
    limits: Limits
    reply: Reply | None = None

    @property
    def is_first_iteration(self) -> bool:
        """Whether this is the first model call of the turn."""
        return self.iteration == 0


class ModelCall(BeforeIteration[D_co], Generic[D_co], frozen=True):
    """A model call with all its attempts: `wrap_model` passes it to `call_next`."""


class AfterReply(HookContext[D_co], Generic[D_co], frozen=True):
    """The model call succeeded, or its last attempt failed; no tool has run yet.

    There is either a `reply` or an `exception`. `replaced` means that a hook gave the reply.
    """

    iteration: int
    messages: Sequence[Message]
    instructions: str
    settings: ModelSettings
    reply: Reply | None
    exception: BaseException | None
    seconds: float
    replaced: bool = False

    @property
    def is_success(self) -> bool:
        """Whether there is a reply."""
        return self.reply is not None

    @property
    def is_final_iteration(self) -> bool:
        """Whether there is a reply that asks for no tool."""
        return self.reply is not None and not self.reply.calls


class AfterIteration(HookContext[D_co], Generic[D_co], frozen=True):
    """A model call and the tools that it asked for have ended, with or without errors.

    `calls` are the calls as the model wrote them, or the call of an output function.
    """

    iteration: int
    reply: Reply | None
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    exception: BaseException | None
    usage: Usage
    seconds: float

    @property
    def is_final_iteration(self) -> bool:
        """Whether the turn has its final reply."""
        return self.exception is None and self.reply is not None and not self.reply.calls


class BeforeTools(HookContext[D_co], Generic[D_co], frozen=True):
    """The model asked for tools, and none of them has run.

    `calls` are the calls with their validated arguments, in the order of the reply. `invalid` has the
    indexes of the calls whose arguments were refused: they are as the model wrote them and do not run.
    `duplicates` has the indexes of the calls that the reply has twice: they do not run a second time,
    and get the result of the first one.
    """

    iteration: int
    reply: Reply
    calls: tuple[ToolCall, ...]
    invalid: frozenset[int] = frozenset()
    duplicates: frozenset[int] = frozenset()


class BeforeTool(HookContext[D_co], Generic[D_co], frozen=True):
    """One tool is about to run. `result` is the result that an earlier hook gave instead.

    `call` has the validated arguments: those that the tool receives, by the names of its parameters, with
    defaults. `written_call` is the call as the model wrote it, or as a hook changed it if `edited` is
    true. A changed call is validated again and passed to these hooks again. `unknown` is the text that
    the model reads when there is no tool of this name; such a call runs only in a wrap hook.
    `by_code` says that a hook made the call, by `CallTools`, and not the model. `server` is the MCP server that
    offers the tool, and `tool_digest` changes with the tool's description and schema there; both are empty for a
    tool of this program.
    """

    iteration: int
    index: int
    call: ToolCall
    result: ToolResult | None = None
    written_call: ToolCall | None = None
    edited: bool = False
    unknown: str = ""
    by_code: bool = False
    server: str = ""
    tool_digest: str = ""

    @property
    def tool(self) -> str:
        """The tool's name; "Unknown" when the model named none."""
        return self.call.name or "Unknown"

    @property
    def arguments(self) -> Mapping[str, object] | None:
        """The validated arguments. If the tool does not exist: as written, or None when malformed."""
        return arguments_of(self.call)


class ToolUse(BeforeTool[D_co], Generic[D_co], frozen=True):
    """The call of one tool with all its attempts: `wrap_tool` passes it to `call_next`.

    `attempt` is the number of the attempt that `wrap_attempt` is called for.
    """

    attempt: int = 1


class AfterTool(HookContext[D_co], Generic[D_co], frozen=True):
    """One call has its result. `exception` is the complete object, which the model never sees.

    For a tool that does not exist it is a `ToolNotFoundError`.

    `call` has the arguments that the tool received. `valid` is false when they were refused and the
    tool did not run; then `call` is as the model wrote it.
    """

    iteration: int
    index: int
    call: ToolCall
    result: ToolResult
    exception: BaseException | None
    seconds: float
    denied: bool = False
    replaced: bool = False
    valid: bool = True

    @property
    def tool(self) -> str:
        """The tool's name; "Unknown" when the model named none."""
        return self.call.name or "Unknown"

    @property
    def arguments(self) -> Mapping[str, object] | None:
        """The validated arguments; None when they were refused."""
        return arguments_of(self.call) if self.valid else None


class OnError(HookContext[D_co], Generic[D_co], frozen=True):
    """A model call or a tool failed after all attempts; `call` is None for a model call."""

    iteration: int
    exception: BaseException
    info: ErrorInfo
    call: ToolCall | None = None


def arguments_of(call: ToolCall) -> Mapping[str, object] | None:
    """Return the arguments of a call; None when they are not a JSON object.

    >>> arguments_of(ToolCall("1", "f", '{"a": 1}'))
    {'a': 1}
    """
    try:
        arguments = msgspec.json.decode(call.arguments.encode() or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None
