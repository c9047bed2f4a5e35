"""An agent as a tool of another agent: a conversation of its own for each call.

Where the calling run is kept, this one is kept beside it and goes on with it: after a crash, or
when somebody has answered, no answer of the model is paid twice and no tool is run twice.

The agent that calls is in charge: its time is the most there is, its cancellation ends both, its
people are asked, and its stream shows what the other one does. Failures reach the calling model as
tool errors in their safe form; they must never be retried there, since each agent retries its own
calls. What the other agent spends counts for the calling one as well, and its limit of tokens holds
for all that work for it, together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.effects import nested_run_id
from holdfast.core.errors import (
    ConfigurationError,
    ConflictError,
    HoldfastError,
    UnansweredError,
)
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.notices import FromAgent
from holdfast.core.questions import AnyQuestion, Question
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.port import Journal
from holdfast.runtime.channel import Channel, Item
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker, TurnAsker
from holdfast.runtime.questions.open_question import Suspended
from holdfast.runtime.questions.question_checks import OnQuestion
from holdfast.runtime.result import Result
from holdfast.runtime.turn_state.leaving_open import Recovery
from holdfast.runtime.turn_state.turn_input import TurnInput, to_message
from holdfast.tools.context import EventSink, ToolContext
from holdfast.tools.tool import Tool, ToolEffect, tool
from holdfast.tools.tool_failures import ToolError

T = TypeVar("T")

MOST_DEEP = 8
"""How many agents may stand inside each other; more is a loop of agents that call each other."""

_at_work: ContextVar[tuple[AgentPlan, ...]] = ContextVar("holdfast-agents-at-work", default=())


class ChildRun(Struct, frozen=True):
    """Where a turn within another run is kept.

    Args:
        journal: that of the calling run.
        run_id: made from the calling run's and the key of the call.
        recovery: what drives the calling run, when that is recovered: this one is then left open
            where that one would be.
    """

    journal: Journal
    run_id: str
    recovery: Recovery | None = None


@dataclass(frozen=True, kw_only=True)
class Subagent(Generic[T]):
    """An agent that other agents may call.

    Args:
        plan: the agent, compiled.
        turn: runs one turn of it.
        on_question: its own handler of questions, asked before those of the calling agent.
        limits: of one call; None takes the agent's own.
        own_budget: what it spends is its own, and does not count for the calling agent.
    """

    plan: AgentPlan
    turn: Callable[
        [TurnInput, Channel | None, QuestionBroker, ChildRun | None], Awaitable[Result[T]]
    ]
    on_question: OnQuestion | None
    limits: Limits | None
    own_budget: bool = False


def subagent_tool(agent: Subagent[T], name: str | None, description: str | None) -> Tool:
    """The tool that gives the agent a task and returns its answer.

    Args:
        agent: the agent.
        name: as the calling model sees it; the agent's own name when absent.
        description: as the calling model sees it.

    Raises:
        ConfigurationError: the name is none that providers take, or the limits are no Limits.
    """
    if agent.limits is not None and not isinstance(agent.limits, Limits):
        raise ConfigurationError("limits", f"must be Limits, got {type(agent.limits).__name__}")
    shown = agent.plan.name if name is None else name
    if description is None:
        description = f"Give a task to the agent '{shown}', and get its answer."
    work = _AgentFunction(agent, shown)
    return tool(name=shown, description=description, effect=_choose_effect(agent.plan))(work)


class _AgentFunction(Generic[T]):
    """What such a tool does.

    Args:
        agent: the agent.
        name: of the tool.
    """

    __slots__ = ("_name", "agent")

    def __init__(self, agent: Subagent[T], name: str) -> None:
        self.agent = agent
        self._name = name

    async def __call__(self, task: str, context: ToolContext) -> object:
        """Give a task to the agent, and get its answer.

        Args:
            task: all that the agent needs to know; it sees nothing of this conversation.
            context: of the call.
        """
        with _enter_agent(self.agent.plan, self._name):
            return await _run_agent(self.agent, self._name, task, context)


def agent_of(candidate: Tool | None) -> Subagent[object] | None:
    """The agent that is this tool; None when it is none."""
    work = candidate.function if candidate is not None else None
    return work.agent if isinstance(work, _AgentFunction) else None


def _choose_effect(plan: AgentPlan) -> ToolEffect:
    """An agent whose tools only read changes nothing; any other goes on where its journal ends."""
    return "read" if all(one.effect == "read" for one in plan.registry) else "idempotent"


@contextmanager
def _enter_agent(plan: AgentPlan, name: str) -> Iterator[None]:
    """The agents at work in this task, outermost first. Raises ToolError for a loop."""
    chain = _at_work.get()
    if plan in chain or len(chain) >= MOST_DEEP:
        names = " > ".join([*(one.name for one in chain), plan.name])
        raise ToolError(f"Agent '{name}' was not run: agents call each other in a loop ({names}).")
    token = _at_work.set((*chain, plan))
    try:
        yield
    finally:
        _at_work.reset(token)


async def _run_agent(agent: Subagent[T], name: str, task: str, context: ToolContext) -> T:
    try:
        message = to_message(task)
    except ConfigurationError as error:
        raise ToolError(f"Agent '{name}' was not run: its task is empty.") from error
    turn = TurnInput(
        message=message,
        session=None,
        history=(),
        limits=_cap_limits(agent.limits or agent.plan.limits, context.remaining),
        deps=context.deps,
        parent_meter=None if agent.own_budget else context.usage_sink,
    )
    channel = make_child_channel(context.event_sink, context.key, name)
    caller = context.asker if isinstance(context.asker, TurnAsker) else None
    left: set[str] = set()
    on_wait = caller.questions.on_wait if caller is not None else "hold"
    questions = QuestionBroker(
        _build_handler(agent, context, left), on_wait=on_wait, is_nested=True
    )
    beside = _make_child_run(caller, context)
    try:
        result = await agent.turn(turn, channel, questions, beside)
    except HoldfastError as error:
        if caller and beside and isinstance(error, JournalError | ConflictError):
            # Or the run of the child would stay open when its caller goes on without it.
            caller.run.log.error = error
        raise ToolError(f"Agent '{name}' failed: {error.info.safe}") from error
    if result.status is Status.WAITING:
        raise Suspended(frozenset(left))
    if result.status is not Status.COMPLETED:
        raise ToolError(f"Agent '{name}' was stopped: {result.text or result.stop_reason}")
    return result.output


def _make_child_run(caller: TurnAsker | None, context: ToolContext) -> ChildRun | None:
    run = caller.run if caller is not None else None
    if run is None or run.context.child_journal is None:
        return None
    recovery = run.recovery.recovery if run.recovery is not None else None
    return ChildRun(run.context.child_journal, nested_run_id(context.run_id, context.key), recovery)


def _cap_limits(own: Limits, remaining: float | None) -> Limits:
    """Its own limits, within the time that the calling agent has left."""
    if remaining is None or (own.seconds is not None and own.seconds <= remaining):
        return own
    if remaining <= 0:
        raise ToolError("There is no time left.")
    return msgspec.structs.replace(own, seconds=remaining)


def _build_handler(
    agent: Subagent[T], context: ToolContext, suspended_keys: set[str]
) -> OnQuestion:
    """Asks the agent's own handler, and then whoever the calling agent would ask.

    Args:
        agent: the agent.
        context: of the call.
        suspended_keys: takes the keys of questions that the calling run is suspended for.
    """

    async def ask(request: AnyQuestion) -> object:
        if agent.on_question is not None:
            given = await agent.on_question(request)
            if given is not None:
                return given
        if context.asker is None:
            return None
        try:
            # The agent's own timeout of this question cancels the asking.
            return await context.ask(msgspec.structs.replace(request, key=""), timeout=None)
        except UnansweredError:
            return None
        except Suspended as suspended:
            suspended_keys.update(suspended.keys)
            raise

    return ask


def make_child_channel(event_sink: EventSink | None, key: str, name: str) -> Channel | None:
    """Where an agent shows things to whoever watches its caller; None when nobody does.

    Args:
        event_sink: of the caller.
        key: of the call.
        name: of the tool.
    """
    return _ChildChannel(event_sink, key, name) if event_sink is not None else None


class _ChildChannel(Channel):
    """A channel without a reader: what is published goes on to the stream of the caller."""

    __slots__ = ("_event_sink", "_key", "_name", "live")

    def __init__(self, event_sink: EventSink, key: str, name: str) -> None:
        super().__init__()
        self._event_sink = event_sink
        self.live = event_sink.live
        self._key = key
        self._name = name

    def publish(self, item: Item) -> None:
        """Show it as coming from this agent; questions are asked by the caller itself."""
        if isinstance(item, Question):
            return
        if isinstance(item, FromAgent):
            shown = FromAgent(self._key, (self._name, *item.chain), item.item)
        else:
            shown = FromAgent(self._key, (self._name,), item)
        self._event_sink.publish(shown)

    async def ready(self) -> None:
        """Wait while the caller's reader is far behind."""
        await self._event_sink.ready()
