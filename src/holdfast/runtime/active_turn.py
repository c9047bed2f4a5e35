"""The state of a running turn, shared by the driver and the functions that perform effects.

An `ActiveTurn` belongs to one task. The state of a turn must not be stored anywhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from weakref import ref

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core.cost import Cost, CostSum
from holdfast.core.effects import accepted_key, turn_key
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Status, TurnOpened, TurnStopped
from holdfast.core.limits import Limits
from holdfast.core.messages import NO_USAGE, Message, Reply, ToolResult, Usage
from holdfast.core.notices import Notice
from holdfast.core.output import ParseResult
from holdfast.core.output_retries import turn_flags
from holdfast.core.question_log import ask_key, restore_question
from holdfast.core.questions import AnyQuestion, Timeout
from holdfast.core.session_state import Phase
from holdfast.core.turn_options import NO_OPTIONS, TurnOptions
from holdfast.journal.port import Journal
from holdfast.middleware.chain import limits_with
from holdfast.middleware.hook_contexts import RunFacts
from holdfast.resilience.pipeline import ExecutionContext
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout
from holdfast.runtime.lifespans import NO_RESOURCES
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.open_question import Suspended
from holdfast.runtime.result import Result
from holdfast.runtime.sessions.session_pool import OpenSession
from holdfast.runtime.spending import (
    TurnMoney,
    UsageMeter,
    check_cost_limit,
    count_remaining,
)
from holdfast.runtime.turn_state.channel import Channel, NoticeEmitter
from holdfast.runtime.turn_state.effect_table import EffectTable
from holdfast.runtime.turn_state.leaving_open import Recovery, TurnRecovery
from holdfast.runtime.turn_state.turn_hooks import TurnHooks
from holdfast.runtime.turn_state.turn_input import ParentCall
from holdfast.runtime.turn_state.turn_log import TurnLog
from holdfast.telemetry.observers import (
    SUBMITTED_AT,
    ObservedTurn,
    find_watch,
    make_emitter,
    make_scopes,
    wait_for_nobody,
)
from holdfast.tools.context import UsageSink

# Access to enum members is slow, and these are needed for every turn.
_COMPLETED, _IDLE = Status.COMPLETED, Phase.IDLE


class PartialReply(Struct, eq=False):
    """The part of a reply that had arrived when its attempt was cancelled.

    This is a separate object because a reference from `env` to the turn would be a cycle, and only
    the garbage collector could free the turn.
    """

    reply: Reply | None = None

    def save(self, reply: Reply) -> None:
        """Save the partial reply; the attempt calls this."""
        self.reply = reply


async def _ask_for_hook(
    turn: ref[ActiveTurn], key: str, question: AnyQuestion, timeout: Timeout
) -> object:
    """Ask a question of a hook. The reference is weak, as otherwise the turn would be in a cycle."""
    run = turn()
    if run is None:
        raise RuntimeError("the turn is over, so its hooks cannot ask any more")
    if run.machine.phase is Phase.IDLE and key == accepted_key(run.machine.turn + 1):
        # A question belongs to an open turn: the hook is called again when the turn is open.
        raise Suspended(frozenset({ask_key(key, 0)}))
    return await run.questions.make_hook_asker(run)(key, 1, question, timeout)


class TurnContext(Struct, frozen=True, kw_only=True):
    """The context that a turn runs in.

    `channel` receives events and notices; None when there is no reader. `child_journal` saves the
    runs of subagents; None when they cannot be resumed. `history` holds the earlier messages if
    the journal of this run must save them. `limits` replace those of the agent for this turn.
    `parent` is the tool call of the calling agent, if this turn runs a subagent.
    `recovery` is the recovery that resumes the turn. `request` is the idempotency key of a new turn.
    `options` are those that the caller passed for this turn only.
    """

    channel: Channel | None = None
    questions: QuestionBroker = field(default_factory=QuestionBroker)
    session: str | None = None
    deps: object = None
    history: Sequence[Message] = ()
    limits: Limits | None = None
    parent: ParentCall | None = None
    child_journal: Journal | None = None
    recovery: Recovery | None = None
    request: str = ""
    options: TurnOptions = NO_OPTIONS

    @property
    def parent_meter(self) -> UsageSink | None:
        """Counts the tokens of this turn for the calling agent; None when there is none."""
        return self.parent.meter if self.parent is not None else None


class ActiveTurn:
    """The state of one turn outside the machine.

    Args:
        plan: the agent, compiled.
        run_id: names the run in its journal.
        opened: the session and the journal of its events; the turn is its next or its last one.
        context: the context that the turn runs in.
        make_log: creates the commit log of the turn.
    """

    __slots__ = (
        "__weakref__",
        "context",
        "deadline",
        "drive",
        "effects",
        "emit",
        "env",
        "error",
        "fixed_tools",
        "hooks",
        "last_parsed",
        "limits",
        "log",
        "loop",
        "machine",
        "money",
        "output_value",
        "partial_reply",
        "plan",
        "questions",
        "recovery",
        "resources",
        "run_id",
        "scopes",
        "shutdown",
        "usage_meters",
    )

    def __init__(
        self,
        plan: AgentPlan,
        run_id: str,
        opened: OpenSession,
        context: TurnContext,
        make_log: Callable[..., TurnLog] = TurnLog,
    ) -> None:
        channel, observers = context.channel, plan.observers
        publish = channel.publish if channel is not None else None
        ready = channel.ready if channel is not None else wait_for_nobody if observers else None
        self.plan = plan
        """The plan of the turn, with the tools of the iteration in progress."""
        self.fixed_tools = plan.registry
        self.resources = NO_RESOURCES
        self.run_id = run_id
        self.context = context
        self.loop = asyncio.get_running_loop()
        self.machine = opened.machine
        self.questions = context.questions
        self.limits: Limits = plan.limits
        if context.limits is not None:
            self.limits = plan.cap_limits(limits_with(plan.middlewares, context.limits))
        self.deadline: float | None = None
        whose = (plan.name, run_id, context.options.metadata)
        self.emit = make_emitter(observers, whose, publish)
        """Emits events and notices; None when there is no reader."""
        self.usage_meters: dict[str, UsageMeter] = {}
        """The usage meters of running tools, by the key of their call."""
        self.money = self._find_money()
        """The money of the turn; None without prices."""
        self.log = make_log(run_id, opened, self.emit, self.usage_meters, plan.clock)
        self.shutdown = channel.shutdown if channel is not None else None
        finish = self.shutdown.finish_call if self.shutdown is not None else None
        self.effects = EffectTable(on_finish=partial(finish, run_id) if finish else None)
        self.partial_reply = PartialReply()
        self.error: BaseException | None = None
        self.last_parsed: ParseResult | None = None
        """The result of the last output check in this process."""
        self.output_value: tuple[ToolResult, object] | None = None
        """The result of an output function that this process called, and the value it returned."""
        self.recovery = None if context.recovery is None else TurnRecovery(context.recovery)
        note_retry = None if self.recovery is None else self.recovery.note_retry
        self.scopes = make_scopes(observers, run_id)
        """The context managers of observers around the parts of the turn; None without any."""
        self.drive: ObservedTurn | None = None
        """This drive as observers see it; None before it begins, or without context managers."""
        self.env = ExecutionContext(
            clock=plan.clock,
            rng=plan.rng,
            publish=self.emit,
            ready=ready,
            keep_partial=self.partial_reply.save,
            note_retry=note_retry,
            is_watched=find_watch(observers, channel.is_watched if channel is not None else None),
            scopes=self.scopes,
        )
        written = plan.instructions.fixed or ""
        self.hooks = TurnHooks(plan.chain, opened.folds, self._collect_facts(), written)

    @contextmanager
    def enter_drive(self, *, is_continued: bool) -> Iterator[None]:
        """Enter the context managers of observers around a drive, and save its trace with a turn that begins.

        Args:
            is_continued: whether another drive has begun the turn.
        """
        options, machine, parent = self.context.options, self.machine, self.context.parent
        if is_continued:
            options = machine.options or options
        self.drive = drive = ObservedTurn(
            agent=self.plan.name,
            run_id=self.run_id,
            key=turn_key(machine.turn if is_continued else machine.turn + 1),
            session=self.context.session,
            metadata=options.metadata,
            trace=options.trace,
            drive=(is_continued and machine.drive) or options.drive,
            is_continued=is_continued,
            is_nested=parent is not None,
            submitted_at=0.0 if is_continued or parent is not None else SUBMITTED_AT.get(),
        )
        with nullcontext() if self.scopes is None else self.scopes.enter(drive):
            if is_continued:
                self.log.drive = drive.own
            elif (drive.trace, drive.own) != (options.trace, options.drive):
                options = replace(options, trace=drive.trace, drive=drive.own)
                self.context = replace(self.context, options=options)
            yield

    def _find_money(self) -> TurnMoney | None:
        """Return the money of the turn, at the prices of this agent or else of its caller."""
        prices, parent = self.plan.prices, self.context.parent_meter
        money = parent.money if isinstance(parent, UsageMeter) else None
        if prices is None:
            prices = money.prices if money is not None else None
        elif money is not None and money.prices.currency != prices.currency:
            problem = (
                f"are in {prices.currency}, and those of the caller in {money.prices.currency}"
            )
            raise ConfigurationError("prices", problem, fix="Give both agents one currency")
        if prices is None:
            return None
        return TurnMoney(prices, self.machine, self.usage_meters, parent, self.plan.clock)

    def _check_cost_limit(self) -> None:
        """Raise ConfigurationError if the limits of the turn have a cost that cannot be computed."""
        if self.limits.cost is not None:
            prices = self.money.prices if self.money is not None else None
            check_cost_limit(self.limits, prices, self.plan.models, self.plan.clock.now())

    def _collect_facts(self) -> RunFacts:
        """Collect the facts about the turn for its hooks."""
        clock, machine = self.plan.clock, self.machine
        return RunFacts(
            agent=self.plan.name,
            run_id=self.run_id,
            session=self.context.session,
            deps=self.context.deps,
            turn=machine.turn + 1 if machine.phase is _IDLE else machine.turn,
            states=self.log.folds.states,
            clock=clock.monotonic,
            now=clock.now,
            emit=self._make_emitter(),
            ask=partial(_ask_for_hook, ref(self)),
            pausable_timeout=PausableTimeout,
            shared_objects={},
            metadata=self.context.options.metadata,
            outer_calls=self.context.parent.outer_calls if self.context.parent is not None else (),
        )

    def _make_emitter(self) -> Callable[[Notice], None]:
        """Make the function by which hooks and tools publish their notices."""
        if self.emit is None:
            return self.env.emit  # nobody listens
        channel = self.context.channel
        if channel is None:
            return NoticeEmitter(self.emit, self.emit)
        who = (self.plan.name, self.run_id, self.context.options.metadata)
        offer = make_emitter(self.plan.observers, who, channel.offer) or channel.offer
        return NoticeEmitter(self.emit, offer)

    def open_turn(
        self,
        message: Message | None,
        instructions: str | None = None,
        *,
        end: TurnStopped | None = None,
        hooks_called: int | None = None,
    ) -> Awaitable[None]:
        """Begin the next turn; it has begun when the returned object was awaited.

        Args:
            message: the message of the user; None tries the last turn again, under its limits.
            instructions: the instructions of this turn, if they are not those of the agent.
            end: ends the turn at once; it is saved in the same transaction.
            hooks_called: the number of hooks before the turn that were called, if one of them asks.
        """
        if message is None:
            self.limits = self.machine.limits
        self._check_cost_limit()
        if self.limits.seconds is not None:
            self.deadline = self.plan.clock.monotonic() + self.limits.seconds
        key = turn_key(self.machine.turn + 1)
        at, agent = self.plan.clock.now(), self.plan.name
        flags = turn_flags(checked=self.plan.output is not None)
        options = self.context.options
        opened = TurnOpened(
            key=key,
            at=at,
            message=message,
            limits=self.limits,
            flags=flags,
            agent=agent,
            instructions=instructions,
            history=tuple(self.context.history),
            request=self.context.request,
            hooks_called=hooks_called,
            options=options if options is not NO_OPTIONS else None,
        )
        return self.log.commit(opened, marker=end)

    def take_over(self) -> None:
        """Continue a turn that no process drove. The time since its last event does not count."""
        machine, log, at = self.machine, self.machine.questions, self.plan.clock.now()
        self.limits = machine.limits
        if machine.phase in (Phase.IDLE, Phase.CLOSING):
            return  # the remaining work takes no time
        self._check_cost_limit()
        if machine.last_event is not None and not (
            log.open_questions or log.due_askers
        ):  # while a question is open, time does not count anyway
            self.log.idle_seconds = max(0.0, at - machine.last_event.at)
        if self.limits.seconds is not None:
            worked = machine.working_seconds(at) - self.log.idle_seconds
            self.deadline = self.plan.clock.monotonic() + self.limits.seconds - worked

    def time_left(self) -> float | None:
        """Return the seconds until the deadline of the turn, or None without a deadline."""
        return None if self.deadline is None else self.deadline - self.plan.clock.monotonic()

    def _get_output(self, reply: Reply | None) -> object:
        """Return the output of a completed turn, parsed again if another process checked it."""
        machine, wanted = self.machine, self.plan.output
        if isinstance(machine.output, ToolResult):
            return self._read_function_value(machine.output)
        if machine.output is not None or machine.parsed_by == "":
            return machine.output
        if reply is None or machine.parsed_by == "raw" or wanted is None:
            return reply.text if reply is not None else ""
        return wanted.get_value(reply, self.last_parsed)

    def _read_function_value(self, result: ToolResult) -> object:
        """Return the value of an output function, from the journal if another process called it."""
        known = self.output_value
        if known is not None and known[0] is result:
            return known[1]  # no hook has replaced the result
        return self.plan.output.read_function_value(result) if self.plan.output else result.text

    def sum_tool_usage(self) -> Usage:
        """Return the usage of running tools so far."""
        return sum((notes.usage for notes in self.usage_meters.values()), Usage())

    def sum_open_costs(self) -> Cost | None:
        """Return what the running tools and the model call under way cost so far; None without prices."""
        if self.money is None:
            return None
        costs = CostSum()
        for notes in self.usage_meters.values():
            costs.add(notes.cost, has_used=notes.usage.total > 0)
        call = self.money.end_call()
        if call is not None:
            costs.add(call.cost, has_used=False)
            if self.context.parent_meter is not None:
                self.context.parent_meter.add(NO_USAGE, call.cost)
        return costs.cost

    def meter_call(self, key: str) -> UsageMeter:
        """Return the meter of a running tool call."""
        meter = self.usage_meters.get(key)
        if meter is None:
            meter = UsageMeter(self.tokens_left, self.context.parent_meter, self.money)
            self.usage_meters[key] = meter
        return meter

    def tokens_left(self) -> int | None:
        """Return the remaining tokens under the limits of this turn and of its callers."""
        own = count_remaining(
            self.machine.limits.tokens, self.machine.usage, list(self.usage_meters.values())
        )
        parent = self.context.parent_meter
        above = parent.remaining_tokens() if parent is not None else None
        return above if own is None or (above is not None and above < own) else own

    def build_result(self) -> Result[object]:
        """Build the result of the turn."""
        machine = self.machine
        waiting, is_over = machine.questions.open_questions, machine.phase is _IDLE
        status = machine.status
        completed = is_over and status is _COMPLETED
        said = machine.reply if completed else machine.partial
        output = self._get_output(said) if completed else None
        if output is not None and output is machine.output:
            text = str(output)  # the text of the reply
        else:
            text = said.text if said is not None else ""
        stopped = machine.stop_event
        if stopped is not None and status is not Status.STOPPED:
            stopped = None
        if stopped is not None:
            text = stopped.text
            output = text if self.plan.output is None else None
        return Result(
            output=output,
            text=text,
            status=status if is_over else Status.WAITING,
            usage=machine.usage,
            cost=machine.cost,
            iterations=machine.model_calls,
            run_id=self.run_id,
            history=machine.transcript.fork(),
            error=machine.error,
            tried=machine.tried,
            stop_reason=stopped.reason if stopped is not None else "",
            parsed_by=machine.parsed_by if completed else "",
            metadata=self.context.options.metadata,
            questions=tuple([restore_question(asked, self.run_id) for asked in waiting]),
        )
