"""A subagent: an agent as a tool of another agent, with a conversation of its own for each call.

If the run of the caller is saved in a journal, the run of the subagent is saved beside it and
resumed with it. After a crash or an answer, no saved reply is requested again and no finished tool
runs again.

The caller controls the subagent. Its deadline limits both and its cancellation ends both. It is
asked the questions that the subagent's own handler does not answer, and its stream includes the
events of the subagent. Failures reach the calling model as those of any tool do: with their text
only if the caller has `detailed_errors`. The caller must never retry them, because each agent retries
its own calls. The usage of a subagent also counts for the caller, and the token limit of the caller
covers all of its subagents together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.context_objects import OuterCall
from holdfast.core.effects import nested_run_id
from holdfast.core.errors import (
    ConfigurationError,
    ConflictError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    LimitError,
    UnansweredError,
)
from holdfast.core.events import Event, Status
from holdfast.core.limits import Limits
from holdfast.core.notices import FromAgent, Notice
from holdfast.core.questions import Answer, AnyQuestion, Question
from holdfast.core.turn_options import TurnOptions
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.port import Journal
from holdfast.middleware.chain import compile_chain
from holdfast.resilience.timeout.pausable_timeout import find_share
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker, QuestionRelay, TurnAsker
from holdfast.runtime.questions.open_question import Suspended
from holdfast.runtime.questions.question_checks import OnQuestion
from holdfast.runtime.result import Result
from holdfast.runtime.turn_state.channel import Channel, Item
from holdfast.runtime.turn_state.leaving_open import Recovery
from holdfast.runtime.turn_state.turn_input import ParentCall, TurnInput, to_message
from holdfast.telemetry.observers import add_followers
from holdfast.tools.context import EventSink, ToolContext
from holdfast.tools.tool import Tool, ToolEffect, tool
from holdfast.tools.tool_failures import ToolError

_SHORTEST_TIMEOUT = 0.001  # seconds

T = TypeVar("T")

MOST_DEEP = 8
"""The maximum depth of nested agents; a deeper nesting is treated as a loop."""

_at_work: ContextVar[tuple[AgentPlan, ...]] = ContextVar("holdfast-agents-at-work", default=())


class ChildRun(Struct, frozen=True):
    """Where the run of a subagent is saved.

    Args:
        journal: the journal of the calling run.
        run_id: derived from the id of the calling run and the key of the call.
        recovery: the recovery that drives the calling run, if any. The run of the subagent is left
            open under the same conditions as the calling run.
    """

    journal: Journal
    run_id: str
    recovery: Recovery | None = None


@dataclass(frozen=True, kw_only=True)
class Subagent(Generic[T]):
    """An agent that other agents can call.

    Args:
        plan: the compiled agent.
        turn: runs one turn of the agent.
        on_question: the agent's own handler of questions, called before that of the caller.
        limits: the limits of one call; None uses the agent's own limits.
        own_budget: whether the usage of the agent does not count for the caller.
    """

    plan: AgentPlan
    turn: Callable[
        [AgentPlan, TurnInput, Channel | None, QuestionBroker, ChildRun | None],
        Awaitable[Result[T]],
    ]
    on_question: OnQuestion | None
    limits: Limits | None
    own_budget: bool = False


def subagent_tool(agent: Subagent[T], name: str | None, description: str | None) -> Tool:
    """Make the tool that gives the agent a task and returns its output.

    Args:
        agent: the agent.
        name: the name for the calling model; None uses the agent's own name.
        description: the description for the calling model; None uses the first sentence of the
            agent's instructions.

    Raises:
        ConfigurationError: providers do not accept the name, or `limits` is not a `Limits` object.
    """
    check_value("limits", agent.limits, Limits | None)
    shown = agent.plan.name if name is None else name
    if description is None:
        purpose = agent.plan.instructions.find_first_sentence()
        description = f"Give a task to the agent '{shown}', and get its answer. {purpose}".rstrip()
    work = _AgentFunction(agent, shown)
    return tool(name=shown, description=description, effect=_choose_effect(agent.plan))(work)


class _AgentFunction(Generic[T]):
    """The function of a subagent tool.

    Args:
        agent: the agent.
        name: the name of the tool.
    """

    __slots__ = ("_last_plan", "_name", "agent")

    ends_itself = True  # its own tools are ended, and then its turn is closed in the journal

    def __init__(self, agent: Subagent[T], name: str) -> None:
        self.agent = agent
        self._name = name
        self._last_plan: tuple[AgentPlan, AgentPlan] | None = None

    async def __call__(self, task: str, context: ToolContext) -> object:
        """Give a task to the agent, and get its answer.

        Args:
            task: all that the agent needs to know; it sees nothing of this conversation.
            context: of the call.
        """
        with _enter_agent(self.agent.plan, self._name):
            return await _run_agent(self.agent, self._name, task, context, self._plan_for(context))

    def _plan_for(self, context: ToolContext) -> AgentPlan:
        """Return the plan of the agent with the rules of this caller; the last one is cached."""
        caller = context.asker.run.plan if isinstance(context.asker, TurnAsker) else None
        if caller is None or not (caller.middlewares or caller.observers):
            return self.agent.plan
        last = self._last_plan
        if last is None or last[0] is not caller:
            self._last_plan = last = (caller, _add_caller_rules(self.agent.plan, caller))
        return last[1]


def _add_caller_rules(plan: AgentPlan, caller: AgentPlan) -> AgentPlan:
    """Return the plan of a subagent with the rules of its caller, and with the observers that follow it."""
    observers = add_followers(plan.observers, caller.observers)
    if observers is not plan.observers:
        plan = replace(plan, observers=observers)
    if not caller.middlewares:
        return plan
    from holdfast.middleware.tool_permission import inherit_rules  # only with middlewares

    inherited = inherit_rules(caller.middlewares, plan.middlewares)
    if not inherited:
        return plan
    return replace(plan, chain=compile_chain([*inherited, *plan.middlewares]))


def agent_of(candidate: Tool | None) -> Subagent[object] | None:
    """Return the agent behind a tool; None when the tool is not a subagent."""
    work = candidate.function if candidate is not None else None
    return work.agent if isinstance(work, _AgentFunction) else None


def _choose_effect(plan: AgentPlan) -> ToolEffect:
    """Choose `read` if all tools only read; any other agent resumes from its journal."""
    only_reads = not plan.toolsets and all(one.effect == "read" for one in plan.registry)
    return "read" if only_reads else "idempotent"


@contextmanager
def _enter_agent(plan: AgentPlan, name: str) -> Iterator[None]:
    """Add an agent to those that are active in this task. Raises ToolError for a loop."""
    chain = _at_work.get()
    if plan in chain or len(chain) >= MOST_DEEP:
        names = " > ".join([*(one.name for one in chain), plan.name])
        raise ToolError(f"Agent '{name}' was not run: agents call each other in a loop ({names}).")
    token = _at_work.set((*chain, plan))
    try:
        yield
    finally:
        _at_work.reset(token)


async def _run_agent(
    agent: Subagent[T], name: str, task: str, context: ToolContext, plan: AgentPlan
) -> T:
    try:
        message = to_message(task)
    except ConfigurationError as error:
        raise ToolError(f"Agent '{name}' was not run: its task is empty.") from error
    caller = context.asker if isinstance(context.asker, TurnAsker) else None
    name_of_caller = caller.run.plan.name if caller is not None else ""
    this = OuterCall(name_of_caller, context.run_id, context.key, context.session)
    turn = TurnInput(
        message=message,
        session=None,
        history=(),
        limits=_cap_limits(agent.limits or agent.plan.limits, context.remaining),
        deps=context.deps,
        parent=ParentCall(
            (*context.outer_calls, this), None if agent.own_budget else context.usage_sink
        ),
        options=TurnOptions(metadata=context.metadata) if context.metadata else None,
    )
    channel = make_child_channel(context.event_sink, context.key, name)
    if channel is not None and caller is not None:
        channel.shutdown = caller.run.shutdown
    left: set[str] = set()
    on_wait = caller.questions.on_wait if caller is not None else "hold"
    questions = QuestionBroker(on_wait=on_wait, relay=_build_relay(agent, context, left))
    beside = _make_child_run(caller, context)
    try:
        result = await agent.turn(plan, turn, channel, questions, beside)
    except HoldfastError as error:
        if caller and beside and isinstance(error, JournalError | ConflictError):
            # Fail the caller too; otherwise it would continue while the child run stays open.
            caller.run.log.error = error
        raise _to_tool_error(name, error) from error
    if result.status is Status.WAITING:
        raise Suspended(frozenset(left))
    if result.status is not Status.COMPLETED:
        raise ToolError(f"Agent '{name}' was stopped: {result.text or result.stop_reason}")
    return result.output


def _to_tool_error(name: str, error: HoldfastError) -> Exception:
    """Return the error of the tool; it is not retried.

    The words of a provider reach the calling model only with `detailed_errors`, as those of any
    other tool do. The words about a limit are Holdfast's own.
    """
    if isinstance(error, LimitError):
        return ToolError(f"Agent '{name}' failed: {error.info.safe}")
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR,
        safe=f"Agent '{name}' failed with {type(error).__name__}.",
        private=error.info.private or error.info.safe,
        code=type(error).__name__,
    )
    return HoldfastError(error.info.safe, info=info)


def _make_child_run(caller: TurnAsker | None, context: ToolContext) -> ChildRun | None:
    run = caller.run if caller is not None else None
    if run is None or run.context.child_journal is None:
        return None
    recovery = run.recovery.recovery if run.recovery is not None else None
    return ChildRun(run.context.child_journal, nested_run_id(context.run_id, context.key), recovery)


def _cap_limits(own: Limits, remaining: float | None) -> Limits:
    """Return the limits, reduced to a share of the remaining time of the caller.

    So the caller can still act when the agent was stopped.
    """
    if remaining is None:
        return own
    if remaining <= 0:
        raise ToolError("There is no time left.")
    share = find_share(remaining)
    if own.seconds is not None and own.seconds <= share:
        return own
    return msgspec.structs.replace(own, seconds=share)


def _build_relay(
    agent: Subagent[T], context: ToolContext, suspended_keys: set[str]
) -> QuestionRelay:
    """Build a relay that asks the agent's own handler first and then the caller.

    Args:
        agent: the agent.
        context: the tool context of the call.
        suspended_keys: collects the keys of questions for which the calling run is suspended.
    """

    async def ask(request: AnyQuestion, /, *, until: float | None) -> object:
        if agent.on_question is not None:
            given = await agent.on_question(request)
            if given is not None:
                return given
        if context.asker is None:
            return None
        try:
            value = await context.ask(request, timeout=_find_timeout(context, until))
            return _readdress_answer(context, request, value)
        except UnansweredError:
            return None
        except Suspended as suspended:
            suspended_keys.update(suspended.keys)
            raise

    return ask


def _find_timeout(context: ToolContext, until: float | None) -> float | None:
    """Return how many seconds the caller may wait; None if only the agent itself ends the question.

    While both run, the agent's own timeout of the question cancels the call. A caller that is
    suspended has to know when to continue.
    """
    asker = context.asker
    if until is None or not isinstance(asker, TurnAsker):
        return None
    return max(until - asker.run.plan.clock.now(), _SHORTEST_TIMEOUT)


def _readdress_answer(context: ToolContext, question: AnyQuestion, value: object) -> object:
    """Return an answer to the caller as an answer to the agent: who gave it, and until when."""
    asker = context.asker
    log = asker.run.machine.questions if isinstance(asker, TurnAsker) else None
    outcome = log.find_passed_on(question.binding) if log is not None else None
    if outcome is None or outcome.why is not None:
        return value
    return Answer(question.key, value, question.binding, outcome.by, outcome.expires_at)


def make_child_channel(event_sink: EventSink | None, key: str, name: str) -> Channel | None:
    """Make the channel from an agent to the stream of its caller; None without a stream.

    Args:
        event_sink: the event sink of the caller.
        key: the key of the call.
        name: the name of the tool.
    """
    return _ChildChannel(event_sink, key, name) if event_sink is not None else None


class _ChildChannel(Channel):
    """A channel without a reader of its own: it forwards items to the stream of the caller."""

    __slots__ = ("_event_sink", "_key", "_name", "live")

    def __init__(self, event_sink: EventSink, key: str, name: str) -> None:
        super().__init__()
        self._event_sink = event_sink
        self.live = event_sink.live
        self._key = key
        self._name = name

    def publish(self, item: Item) -> None:
        """Forward an item with the name of this agent. The caller emits questions itself."""
        if not isinstance(item, Question):
            self._event_sink.publish(self._add_name(item))

    def offer(self, item: Item) -> None:
        """Forward an item whose writer cannot wait."""
        if not isinstance(item, Question):
            self._event_sink.emit(self._add_name(item))

    def _add_name(self, item: Event | Notice) -> FromAgent:
        if isinstance(item, FromAgent):
            return FromAgent(self._key, (self._name, *item.chain), item.item)
        return FromAgent(self._key, (self._name,), item)

    def is_watched(self) -> bool:
        """Whether the reader of the caller needs deltas as they arrive."""
        return self._event_sink.is_watched()

    async def ready(self) -> None:
        """Wait while the reader of the caller is far behind."""
        await self._event_sink.ready()
