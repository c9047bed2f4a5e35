"""What a hook sees: one frozen record for each moment, with the fields that exist at that moment.

A moment must never give a way to change the run: a hook changes it by the decision that it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorInfo
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, Reply, ToolCall, ToolResult, Usage
from holdfast.core.model_request import ModelSettings, ToolSpec
from holdfast.core.notices import Notice
from holdfast.core.questions import AnyQuestion, Question, Timeout

S_co = TypeVar("S_co", covariant=True)
S = TypeVar("S")
A = TypeVar("A")
Ask: TypeAlias = Callable[[str, AnyQuestion, Timeout], Awaitable[object]]
"""Puts a question: the key of what asks, the request, and seconds to wait."""


class Folding(Protocol[S_co]):
    """What has a state: a middleware."""

    @property
    def initial(self) -> S_co:
        """The state before the first event."""
        ...


class RunFacts(Struct, frozen=True):
    """What all moments of one turn have in common.

    Args:
        agent: the agent's name.
        run_id: names the run in its journal.
        session: the session's name, or None.
        deps: the object that was given to `agent.run(deps=...)`.
        turn: the number of the turn, from 1.
        states: the folds of the middlewares; read them with `moment.state_of(self)`.
        clock: seconds on a clock that never goes back.
        now: seconds since the epoch.
        emit: shows a notice to whoever watches the run.
        ask: puts a question to somebody outside.
        pausable_timeout: makes a time limit stand still while somebody is asked.
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

    def __repr__(self) -> str:
        # Without `deps`: they hold clients and keys.
        return f"RunFacts(agent={self.agent!r}, run_id={self.run_id!r}, turn={self.turn})"


class HookContext(Struct, frozen=True):
    """The parent of all moments; `key` names what the hook stands at, such as `t1.i0.model`."""

    facts: RunFacts
    key: str

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.facts.agent

    @property
    def run_id(self) -> str:
        """Names the run in its journal."""
        return self.facts.run_id

    @property
    def session(self) -> str | None:
        """The session's name, or None."""
        return self.facts.session

    @property
    def deps(self) -> object:
        """The object that was given to `agent.run(deps=...)`."""
        return self.facts.deps

    @property
    def turn(self) -> int:
        """The number of the turn in its session, from 1."""
        return self.facts.turn

    def state_of(self, middleware: Folding[S]) -> S:
        """What `middleware` folded out of the events of this turn, or of this session."""
        state: Any = self.facts.states[id(middleware)]
        return state  # type: ignore[no-any-return]  # REASON: a cast would be a call for each hook

    def emit(self, notice: Notice) -> None:
        """Show a notice to whoever watches the run."""
        self.facts.emit(notice)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.facts.now()

    async def ask(self, question: Question[A], *, timeout: Timeout = "default") -> A:
        """Ask somebody outside, and wait; possible in before hooks of iterations and tools.

        Args:
            question: the question.
            timeout: seconds to wait for an answer; None waits for ever, "default" as long as the
                kind of request says. No answer means no.
        """
        return cast("A", await self.facts.ask(self.key, question, timeout))

    def clock(self) -> float:
        """Seconds on a clock that never goes back, for measuring and for expiry."""
        return self.facts.clock()


class BeforeTurn(HookContext, frozen=True):
    """Somebody said something; nothing of it is kept yet."""

    message: Message
    messages: Sequence[Message]
    instructions: str


class AfterTurn(HookContext, frozen=True):
    """The turn is over. `error` is what is known of a failure, `exception` the object itself."""

    status: Status
    text: str
    usage: Usage
    iterations: int
    error: ErrorInfo | None = None
    exception: BaseException | None = None
    stop_reason: str = ""


class BeforeIteration(HookContext, frozen=True):
    """The model is about to be asked. `reply` is what an earlier hook put in place of it."""

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


class ModelCall(BeforeIteration, frozen=True):
    """The model call itself, with all its attempts: what `wrap_model` passes to `call_next`."""


class AfterReply(HookContext, frozen=True):
    """The model answered, or failed for good; no tool has run yet.

    `replaced` says that a hook gave the reply. `exception` is the failure as an object.
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
        return self.exception is None and self.reply is not None

    @property
    def is_final_iteration(self) -> bool:
        """Whether there is a reply that asks for no tool."""
        return self.exception is None and self.reply is not None and not self.reply.calls


class AfterIteration(HookContext, frozen=True):
    """One model call and the tools that it asked for are done, well or badly.

    `calls` are as the model wrote them.
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
        """Whether the turn has its answer."""
        return self.exception is None and self.reply is not None and not self.calls


class BeforeTools(HookContext, frozen=True):
    """The model asked for tools, and none has run.

    `calls` are the calls with their validated arguments, in the order of the reply. Those of
    `invalid`, by their numbers in it, stand as the model wrote them: they will not be run.
    """

    iteration: int
    reply: Reply
    calls: tuple[ToolCall, ...]
    invalid: frozenset[int] = frozenset()


class BeforeTool(HookContext, frozen=True):
    """One tool is about to run. `result` is what an earlier hook put in place of running it.

    `call` has the validated arguments: what the tool gets, by the names of its parameters, with
    defaults. `written_call` is the call as the model wrote it, or the hook that `edited` it: such a call
    is validated again, and shown to these hooks again.
    """

    iteration: int
    index: int
    call: ToolCall
    result: ToolResult | None = None
    written_call: ToolCall | None = None
    edited: bool = False

    @property
    def tool(self) -> str:
        """The tool's name; "Unknown" when the model named none."""
        return self.call.name or "Unknown"

    @property
    def arguments(self) -> Mapping[str, object] | None:
        """The validated arguments. Of a tool that does not exist: as written, None when malformed."""
        return arguments_of(self.call)


class ToolUse(BeforeTool, frozen=True):
    """The run of one tool, with all its attempts: what `wrap_tool` passes to `call_next`."""


class AfterTool(HookContext, frozen=True):
    """One call has its result. `exception` is the full object that the model never sees.

    `call` has the arguments that the tool got. `valid` is false when they were refused, so that the
    tool was not run; then `call` is as the model wrote it.
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


class OnError(HookContext, frozen=True):
    """A model call or a tool failed for good; `call` is None for a model call."""

    iteration: int
    exception: BaseException
    info: ErrorInfo
    call: ToolCall | None = None


def arguments_of(call: ToolCall) -> Mapping[str, object] | None:
    """The arguments of a call; None when they are no JSON object.

    >>> arguments_of(ToolCall("1", "f", '{"a": 1}'))
    {'a': 1}
    """
    try:
        found = msgspec.json.decode(call.arguments.encode() or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
