"""Agent: the frozen description of an agent, and the ways to run it.

An agent holds no state of any run, so one object serves any number of runs at once. This module
must never decide what a run does: it checks what the user gave, compiles it into a plan, and hands
it to the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    OutputError,
    StoppedError,
    exception_for,
)
from holdfast.core.events import Status
from holdfast.core.limits import Limits
from holdfast.core.machine import Phase, RunMachine
from holdfast.core.messages import Message
from holdfast.core.request import ModelSettings
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal
from holdfast.middleware.chain import AnyMiddleware, limits_with
from holdfast.resilience.clock import Clock, Dice
from holdfast.resilience.defaults import Resilience
from holdfast.resilience.handling import ErrorHandling
from holdfast.runtime.bridge import run_blocking
from holdfast.runtime.clock import SystemClock, new_run_id, system_dice
from holdfast.runtime.compile import Settings, compile_plan
from holdfast.runtime.conversations import Conversations
from holdfast.runtime.driver import drive, settle
from holdfast.runtime.hooked_turn import go_on, run_turn
from holdfast.runtime.models import Model
from holdfast.runtime.notices import Channel
from holdfast.runtime.questions import OnQuestion, Questions, checked_handler
from holdfast.runtime.resolve import Access
from holdfast.runtime.result import Result
from holdfast.runtime.run import Run
from holdfast.runtime.stream import RunStream
from holdfast.runtime.subagent import Subagent, subagent_tool
from holdfast.runtime.turn import Prompt, Turn, message_of
from holdfast.tools.tool import Tool
from holdfast.transport.port import Timeouts, Transport

T = TypeVar("T", default=str)


class Agent(Generic[T]):
    """A model, its instructions and its tools, with everything that keeps them working.

    Args:
        model: `"provider:model"`, such as "openai:gpt-5.2" or "ollama:llama3.2", or a Model.
        name: names the agent in logs and events.
        instructions: the system prompt.
        tools: functions, or tools made by `@tool`.
        output: the type of the answer: `str`, a pydantic model, a dataclass, a TypedDict, ...
        settings: temperature, output limit and the like.
        limits: iterations, seconds, tokens of one turn.
        error_handling: retries, waits, and what the model sees of errors.
        resilience: breaker, limiter, retry budget, hedge, cache; see `Resilience`.
        fallback: models to ask when the first one cannot answer, in this order.
        middleware: hooks of yours and ready ones, such as `error_handling_middlewares()`.
        parallel_tools: how many tools of one reply may run at once.
        base_url: another address of the provider.
        api_key: the key; without it, the provider's environment variable is read.
        timeouts: connect, first byte, between chunks, total, in seconds.
        on_question: an async function that answers what a run asks, or returns None to leave it to
            whoever watches the stream. Without both, every question is denied at once.
        journal: where events are kept; without one, in memory.
        transport: how HTTP is done; without one, aiohttp with a shared pool.
        clock: time, for tests.
        dice: chance, for tests.

    Raises:
        ConfigurationError: something of this is wrong; it names the argument and the fix.
    """

    __slots__ = ("_conversations", "_journal", "_on_question", "_plan")

    def __init__(
        self,
        model: str | Model,
        *,
        name: str = "agent",
        instructions: str = "",
        tools: Iterable[Callable[..., Any] | Tool] = (),
        output: type[T] = str,  # type: ignore[assignment]  # the default of T is str
        settings: ModelSettings | None = None,
        limits: Limits | None = None,
        error_handling: ErrorHandling | None = None,
        resilience: Resilience | None = None,
        fallback: Sequence[str | Model] = (),
        middleware: Sequence[AnyMiddleware] = (),
        parallel_tools: int = 16,
        base_url: str | None = None,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        on_question: OnQuestion | None = None,
        journal: Journal | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        dice: Dice | None = None,
    ) -> None:
        access = Access(base_url=base_url, api_key=api_key, timeouts=timeouts or Timeouts())
        self._plan = compile_plan(
            Settings(
                model=model,
                name=name,
                instructions=instructions,
                tools=tools,
                output=output,
                settings=settings or ModelSettings(),
                limits=limits,
                handling=error_handling or ErrorHandling(),
                resilience=resilience or Resilience(),
                fallback=fallback,
                parallel_tools=parallel_tools,
                middleware=middleware,
                access=access,
                transport=transport,
                clock=clock or SystemClock(),
                dice=dice or system_dice,
            )
        )
        self._on_question = checked_handler(on_question)
        self._journal = journal
        self._conversations = Conversations(
            journal or MemoryJournal(), self._plan.output, self._plan.chain
        )

    async def run(
        self,
        prompt: Prompt,
        *,
        session: str | None = None,
        history: Sequence[Message] = (),
        limits: Limits | None = None,
        deps: object = None,
    ) -> Result[T]:
        """Run one turn to its end.

        Args:
            prompt: what the user says.
            session: continue the conversation of this name.
            history: continue this conversation instead.
            limits: other limits for this turn.
            deps: an object of yours that tools find as `ToolContext.deps`.

        Raises:
            HoldfastError: the turn did not complete; `.result` has what there is.
        """
        turn = Turn(
            message=message_of(prompt), session=session, history=history, limits=limits, deps=deps
        )
        return await self._turn(turn, None, Questions(self._on_question))

    def stream(
        self,
        prompt: Prompt,
        *,
        session: str | None = None,
        history: Sequence[Message] = (),
        limits: Limits | None = None,
        deps: object = None,
    ) -> RunStream[T]:
        """Run one turn and watch it: `async with agent.stream(...) as run: async for item in run`.

        The arguments are those of `run`.
        """
        turn = Turn(
            message=message_of(prompt), session=session, history=history, limits=limits, deps=deps
        )
        questions = Questions(self._on_question, watched=True)
        return RunStream(lambda channel: self._turn(turn, channel, questions), questions)

    def run_sync(
        self,
        prompt: Prompt,
        *,
        session: str | None = None,
        history: Sequence[Message] = (),
        limits: Limits | None = None,
        deps: object = None,
    ) -> Result[T]:
        """`run` for synchronous code; works in scripts, threads and notebooks."""
        turn = Turn(
            message=message_of(prompt), session=session, history=history, limits=limits, deps=deps
        )
        return run_blocking(self._turn(turn, None, Questions(self._on_question)))

    async def resume(self, run_id: str, *, deps: object = None) -> Result[T]:
        """Go on with a run that a crash cut short; the same path as a fresh run.

        What its journal holds is not done again. A tool that had begun and has no outcome is run
        again only if it is declared "read" or "idempotent"; of any other the model is told that
        the outcome is unknown.

        Args:
            run_id: the run, or the name of the session.
            deps: as for `run`.

        Raises:
            ConfigurationError: this agent has no journal, or the journal knows no such run.
            HoldfastError: the turn did not complete.
        """
        if self._journal is None:
            raise ConfigurationError(
                "journal", "there is none to resume from", fix="Pass journal= to the Agent"
            )
        async with self._conversations.turn(run_id) as entry:
            if not entry.machine.turn:
                raise ConfigurationError("run_id", f"the journal knows no run {run_id!r}")
            run = Run(self._plan, run_id, entry.machine, self._journal)
            run.folds, run.session, run.deps = entry.folds, run_id, deps
            run.questions = Questions(self._on_question)
            if entry.machine.begun:
                run.in_doubt = frozenset(effect.key for effect in entry.machine.pending())
            run.limits = entry.machine.limits
            return await self._go_on(run)

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        limits: Limits | None = None,
    ) -> Tool:
        """This agent as a tool of another one: a task in, its answer out.

        Each call is a conversation of its own. The calling agent's time, cancellation, people and
        stream reach into it; what it shows arrives there as `FromAgent`. Its failures are tool
        errors that the calling model reads in their safe form. What it spends does not count for
        the calling agent.

        Args:
            name: as the calling model sees it; the agent's own name when absent.
            description: as the calling model sees it: what the agent is for.
            limits: of one call; without them, the agent's own.

        Raises:
            ConfigurationError: no provider takes that name, or the limits are no Limits.
        """
        agent = Subagent(
            plan=self._plan, turn=self._turn, on_question=self._on_question, limits=limits
        )
        return subagent_tool(agent, name, description)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Agent[Any]:
        """The agent that a TOML file describes. Raises ConfigurationError with file and line.

        The keys are the keywords of `Agent`, with tables for `settings`, `limits`, `timeouts`,
        `error_handling` and `resilience`. `tools`, `output` and hooks are written
        "module:name"; `instructions_file` names a file beside it; `api_key_env` names the
        environment variable that holds the key, which has no place in the file.

        Args:
            path: the file.
        """
        from holdfast.agent_file import load  # most agents are made in code

        return load(path, cls)

    def describe(self) -> str:
        """The pipeline that will run, outermost first, with its settings."""
        return self._plan.describe()

    def __repr__(self) -> str:
        return f"Agent({self._plan.model.name!r}, name={self._plan.name!r})"

    async def _turn(self, turn: Turn, channel: Channel | None, questions: Questions) -> Result[T]:
        if turn.session is not None:
            async with self._conversations.turn(turn.session) as entry:
                journal = self._conversations.journal
                run = Run(self._plan, turn.session, entry.machine, journal, channel)
                run.folds = entry.folds
                run.questions = questions
                return await self._drive(run, turn)
        machine = RunMachine(turn.history, self._plan.output)
        journal = self._journal or MemoryJournal()
        run = Run(self._plan, new_run_id(), machine, journal, channel)
        run.folds = self._plan.chain.new_folds() if self._plan.chain is not None else None
        run.questions = questions
        return await self._drive(run, turn)

    async def _drive(self, run: Run, turn: Turn) -> Result[T]:
        run.session, run.deps = turn.session, turn.deps
        if turn.limits is not None:
            run.limits = limits_with(self._plan.middlewares, turn.limits)
        if run.machine.phase is not Phase.IDLE:
            # Another process, or a failing journal, left this turn: what had begun is in doubt.
            if run.machine.begun:
                run.started.update(effect.key for effect in run.machine.pending())
            await settle(run, "cancelled")
        if self._plan.chain is None or run.folds is None:
            await run.open(turn.message)
            await drive(run)
        else:
            await run_turn(run, turn.message, self._plan.chain, run.folds)
        return self._ended(run)

    async def _go_on(self, run: Run) -> Result[T]:
        if self._plan.chain is None or run.folds is None:
            await drive(run)
        else:
            await go_on(run, self._plan.chain, run.folds)
        return self._ended(run)

    def _ended(self, run: Run) -> Result[T]:
        result: Result[T] = run.result()  # type: ignore[assignment]  # the plan's output type is T
        stopped = result.status is Status.STOPPED and self._plan.output is None
        if stopped or result.status is Status.COMPLETED:
            return result
        raise _failure(run, result)


def _failure(run: Run, result: Result[T]) -> HoldfastError:
    """The exception of a turn that did not complete, with its result and its cause."""
    cause = run.error
    if result.status is Status.STOPPED:
        stopped = StoppedError(result.text, reason=result.stop_reason)
        stopped.result = result
        return stopped
    info = result.error or ErrorInfo(category=ErrorCategory.UNKNOWN, safe="The turn failed.")
    if isinstance(cause, HoldfastError) and info.category is cause.info.category:
        error = cause
    else:
        error = exception_for(info, run.machine.partial)
        error.__cause__ = cause
    if isinstance(error, OutputError):
        error.raw, error.problems = result.text, run.machine.problems
        error.partial = run.machine.partial
    error.result = result
    return error
