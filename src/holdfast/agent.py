"""Agent: the immutable description of an agent, and the ways to run it.

An agent holds no state of a run, so one object serves any number of runs at once. This module defines
what a user can configure and call, and passes it to the engine. It must never decide what a run does,
and must not import the engine before the first agent is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack, cast, overload

from typing_extensions import TypeVar

from holdfast.core.argument_checks import name_wrong_keywords

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterable, Sequence

    from holdfast.codecs.endpoint_profile import ProfileChanges
    from holdfast.core.client_tools import ClientTool
    from holdfast.core.events import OnWait
    from holdfast.core.hosted_tools import HostedTool
    from holdfast.core.limits import Limits
    from holdfast.core.model_request import ModelSettings
    from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, Question
    from holdfast.core.turn_options import InterruptedRun
    from holdfast.journal.port import Journal, RunEntry
    from holdfast.journal.retention import Retention
    from holdfast.middleware.chain import AnyMiddleware
    from holdfast.models.http_model import Model
    from holdfast.models.prices import Prices
    from holdfast.models.resolve import ModelAt
    from holdfast.output.structured_output import OutputKind, StructuredOutput, WantedOutput
    from holdfast.resilience.clock import Clock, Rng
    from holdfast.resilience.defaults import Resilience
    from holdfast.resilience.retry.options import RetryOptions
    from holdfast.runtime.arguments.run_keywords import (
        RecoverKeywords,
        ResumeKeywords,
        RunKeywords,
        SubmitKeywords,
    )
    from holdfast.runtime.batch_run import BatchOptions, BatchRun, OnItemError
    from holdfast.runtime.compile import AgentKeywords
    from holdfast.runtime.engine import Engine
    from holdfast.runtime.instructions import Instructions
    from holdfast.runtime.open_runs.recovery import RecoveredRun
    from holdfast.runtime.questions.open_question import Receipt
    from holdfast.runtime.questions.question_checks import OnQuestion
    from holdfast.runtime.queued_runs.queued_run import QueuedRun
    from holdfast.runtime.result import Result
    from holdfast.runtime.sessions.session_pool import OnBusy
    from holdfast.runtime.streams.run_stream import RunStream
    from holdfast.runtime.turn_state.turn_input import Prompt
    from holdfast.sessions.sessions import Sessions
    from holdfast.telemetry.observers import Observer
    from holdfast.tools.tool import Tool
    from holdfast.tools.toolset import Toolset
    from holdfast.transport.port import Timeouts, Transport

T = TypeVar("T", default=str)
D_contra = TypeVar("D_contra", default=None, contravariant=True)
A = TypeVar("A")
ItemT = TypeVar("ItemT")
U = TypeVar("U")


def _explain_wrong_keyword(given: Collection[str], known: Collection[str]) -> None:
    from holdfast.runtime.arguments.run_keywords import check_names  # only for the error

    check_names("Agent", given, known)


class AgentQuestions(Generic[T]):
    """The methods of `Agent` about the questions of its runs."""

    __slots__ = ()

    _engine: Engine[Any]

    async def questions(self, run_id: str) -> tuple[AnyQuestion, ...]:
        """Return the open questions of a run or session, in the order in which they were asked.

        Raises:
            ConfigurationError: the journal has no such run.
        """
        return await self._engine.answering.questions(run_id)

    @overload
    async def answer(self, run_id: str, to: Answer[A], /) -> Receipt: ...
    @overload
    async def answer(self, run_id: str, to: Question[A], value: A, /) -> Receipt: ...
    async def answer(
        self, run_id: str, to: AnyAnswer | AnyQuestion, value: object = None, /
    ) -> Receipt:
        """Answer a question of a run, whether the run is in progress or not.

        A run that waits in this process receives the answer and continues. For any other run, the
        answer is in the journal when this method returns, and `resume` uses it.

        An answer belongs to one question. It is refused when the question belongs to another run, to
        an earlier session of the same name, or shows something else.

        Args:
            run_id: the id of the run, or the name of the session.
            to: an answer, such as `question.approve(by="ann")`; or the question.
            value: the answer, when `to` is a question.

        Returns:
            A true value when the answer was accepted, otherwise a false one with the reason.

        Raises:
            AnswerTypeError: the question asks for another type; it stays open.
            ConfigurationError: the journal has no such run, this process does not know the class of
                the question, or the edited arguments do not fit the tool.
        """
        from holdfast.runtime.questions.open_question import address_answer

        return await self._engine.answering.answer(run_id, address_answer(to, value))

    async def abandon(self, run_id: str, *, by: str = "") -> Result[T]:
        """Give up a turn that waits for an answer, or that a crash interrupted.

        The turn is closed as cancelled, and so are the open turns of agents in its tools. Its history
        says what was attempted, and the session accepts the next message. A turn that has ended
        stays as it is. The journal also saves `by`: who gives the turn up.

        Raises:
            ConfigurationError: the journal has no such run or session.
        """
        return cast("Result[T]", await self._engine.answering.abandon(run_id, by))


class Agent(AgentQuestions[T], Generic[T, D_contra]):
    """A model with instructions, tools and settings; runs turns.

    Args:
        model: `"provider:model"`, such as "openai:gpt-5.2" or "ollama:llama3.2"; a ModelAt with an
            address of its own; or a Model.
        name: names the agent in logs and events.
        instructions: the system prompt: a text, a function that returns one, or a list of these. A
            function is called for each new turn, with or without an `InstructionsContext`.
        tools: functions, `@tool`s, a `ClientTool` of the caller, the provider's `WebSearch()`.
        toolsets: named groups of tools, such as a `Toolset` or `Skills`.
        output: the type of the output: `str`, a pydantic model, a dataclass, a TypedDict, ...; a
            function, which is called with the output as its arguments, and whose return value is
            the output; a list of these, of which the output is one; or a StructuredOutput.
        deps_type: the type of `run(deps=...)`, which tools, hooks and functions of the instructions
            read from their context; with it, every run must pass such an object.
        deps: the `deps` of runs that are passed none, such as those of a service or a worker; or a
            function of an `InterruptedRun`, sync or async, that returns them.
        settings: temperature, output limit and other settings of the model.
        limits: the iterations, seconds and tokens of one turn.
        retry: which failures are retried, how often and after which wait; see `RetryOptions`.
        resilience: circuit breaker, rate limiter, retry budget, hedging, cache; see `Resilience`.
        fallback: models to call, in this order, when the first one fails; a ModelAt has an address
            and an API key of its own.
        middleware: your own middlewares and built-in ones, such as `error_handling_middlewares()`.
        observers: functions, or objects with `on_event`, that receive every event and notice of all
            runs as an `Observation`. They must be fast. An exception that they raise is only logged.
        parallel_tools: how many tools of one reply may run at once.
        tool_timeout: seconds for one attempt of a tool without a timeout of its own; None gives it
            what its turn has left less 60 s, or less a fifth if that is less.
        detailed_errors: whether the model reads the message of an exception that a tool raised, with
            secrets redacted. By default the model reads only which tool failed.
        base_url: another address of the provider.
        api_key: the API key; by default the provider's environment variable is read.
        profile: fields of the provider's `EndpointProfile` that this server has otherwise; see
            `ModelAt`.
        timeouts: connect, first byte, between chunks and total, in seconds.
        on_question: an async function that answers the questions of a run, or returns None to leave
            one to the reader of the stream. Without a function and a reader, every question is
            denied at once.
        on_wait: what a run does when nobody answers its question at once. "hold" keeps it in progress
            until there is an answer or its time is over. "suspend" ends it with the status
            "waiting", to be resumed once there is an answer; this requires a journal.
        on_busy: what happens to a message for a session whose turn is in progress, here or in another
            process. "queue" makes it wait, "refuse" raises SessionBusyError. "interrupt" stops a turn that
            this object runs: the call of the model or the tools in progress are finished, what was done
            stays in the history, and the message begins the next turn. A turn that waits for an answer,
            or that runs elsewhere, is waited for.
        session_cache: bytes of memory for open sessions that no turn uses; others are read again.
        journal: where events are saved, or its address: "sqlite:///talk.db",
            "postgresql://user@host/database". By default events stay in memory.
        retention: how long sessions stay in the journal. Older ones are deleted beside the turns, at
            most once an hour; see `holdfast.journal.Retention`. By default all stay.
        prices: the prices of tokens, such as `Prices.known()`; with them each attempt of a model has a cost,
            which is saved with its event. Without them, nothing is computed.
        transport: the HTTP client; by default aiohttp with a shared connection pool.
        clock: the source of time, for tests.
        rng: the source of randomness, for tests.

    Raises:
        ConfigurationError: an argument is wrong; the message names the argument and the fix.
    """

    __slots__ = ("_engine",)

    @name_wrong_keywords(_explain_wrong_keyword)
    def __init__(
        self,
        model: str | ModelAt | Model,
        *,
        name: str = "agent",
        instructions: Instructions[D_contra] = "",
        tools: Iterable[Callable[..., object] | Tool | HostedTool | ClientTool] = (),
        toolsets: Sequence[Toolset] = (),
        output: OutputKind[T] | Sequence[OutputKind[T]] | StructuredOutput[T] = str,  # type: ignore[assignment]  # the default of T is str
        deps_type: type[D_contra] | None = None,
        deps: D_contra | Callable[[InterruptedRun], D_contra | Awaitable[D_contra]] | None = None,
        settings: ModelSettings | None = None,
        limits: Limits | None = None,
        retry: RetryOptions | None = None,
        resilience: Resilience | None = None,
        fallback: Sequence[str | ModelAt | Model] = (),
        middleware: Sequence[AnyMiddleware] = (),
        observers: Iterable[Observer] = (),
        parallel_tools: int = 16,
        tool_timeout: float | None = None,
        detailed_errors: bool = False,
        base_url: str | None = None,
        api_key: str | None = None,
        profile: ProfileChanges | None = None,
        timeouts: Timeouts | None = None,
        on_question: OnQuestion | None = None,
        on_wait: OnWait = "hold",
        on_busy: OnBusy = "queue",
        session_cache: int = 64 * 2**20,
        journal: Journal | str | None = None,
        retention: Retention | None = None,
        prices: Prices | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        keywords = {name: value for name, value in locals().items() if name != "self"}
        from holdfast.runtime.engine import Engine  # here, so that `import holdfast` stays cheap

        self._engine: Engine[T] = Engine(cast("AgentKeywords", keywords))

    @overload
    async def run(
        self, prompt: Prompt, *, output: WantedOutput[U], **keywords: Unpack[RunKeywords[D_contra]]
    ) -> Result[U]: ...
    @overload
    async def run(self, prompt: Prompt, **keywords: Unpack[RunKeywords[D_contra]]) -> Result[T]: ...
    async def run(
        self, prompt: Prompt, *, output: Any = None, **keywords: Unpack[RunKeywords[D_contra]]
    ) -> Result[Any]:
        """Run one turn to its end.

        The arguments are for this turn only. A turn that continues finds those that JSON can express in the
        journal, also a `ClientTool` and a `JsonSchema`; the rest must be passed again.

        Args:
            prompt: the user's message.
            session: the name of a session; `history` are the messages before its first turn.
            deps: an object of the agent's `deps_type`; tools read it as `ToolContext.deps`.
            request: an idempotency key of yours, for a message that may be sent twice. If the
                journal has a turn with this key, that turn is finished if it was interrupted, and
                its result is returned or its error raised. This requires a journal.
            model: the model to call first, instead of the agent's; as for `Agent`.
            settings: model settings that replace those of the agent, field by field.
            output: the type of the output, instead of the agent's; so are `limits`.
            tools: tools besides those of the agent; `toolsets` are added in the same way.
            instructions: text after the instructions of the agent.
            metadata: JSON values by name for hooks, tools, observers and the result. They are saved in
                the journal, so they must not hold secrets; so is `by`: who sends the message.
            trace: the `traceparent` of the caller, to which the spans of the turn belong. One that is
                malformed is ignored.

        Raises:
            ConfigurationError: an argument is wrong, or the request belongs to another session.
            HoldfastError: the turn did not complete; `.result` has its messages, usage and status.
        """
        return await self._engine.run(self._engine.make_turn(prompt, output, keywords))

    @overload
    def stream(
        self, prompt: Prompt, *, output: WantedOutput[U], **keywords: Unpack[RunKeywords[D_contra]]
    ) -> RunStream[U]: ...
    @overload
    def stream(self, prompt: Prompt, **keywords: Unpack[RunKeywords[D_contra]]) -> RunStream[T]: ...
    def stream(
        self, prompt: Prompt, *, output: Any = None, **keywords: Unpack[RunKeywords[D_contra]]
    ) -> RunStream[Any]:
        """Run one turn and stream it: `async with agent.stream(...) as run: async for item in run`."""
        return self._engine.stream(self._engine.make_turn(prompt, output, keywords))

    @overload
    def run_sync(
        self, prompt: Prompt, *, output: WantedOutput[U], **keywords: Unpack[RunKeywords[D_contra]]
    ) -> Result[U]: ...
    @overload
    def run_sync(self, prompt: Prompt, **keywords: Unpack[RunKeywords[D_contra]]) -> Result[T]: ...
    def run_sync(
        self, prompt: Prompt, *, output: Any = None, **keywords: Unpack[RunKeywords[D_contra]]
    ) -> Result[Any]:
        """Call `run` from synchronous code; this works in scripts, threads and notebooks."""
        from holdfast.runtime.sync_bridge import run_blocking  # most programs are asynchronous

        return run_blocking(self._engine.run(self._engine.make_turn(prompt, output, keywords)))

    async def submit(self, prompt: Prompt, **keywords: Unpack[SubmitKeywords]) -> QueuedRun[T]:
        """Put a turn into the inbox of the journal, for a worker to drive; return when it is saved.

        The turns of a session are done one after another. Only arguments that JSON can express are submitted.

        Args:
            prompt: the user's message.
            keywords: `session`, without which the turn has one of its own; `request`, an idempotency
                key of yours: the same submission again returns the same run; `tenant`, that of the
                journal by default; `priority`, of which a greater number goes before a smaller one of
                the tenant; `not_before`, in seconds since the epoch. As for `run`: `history`, the
                name of a `model`, `settings`, `limits`, `metadata`, `instructions`, `by`, `trace`, an `output`
                that is a `JsonSchema`, and `tools` that are `ClientTool`s.

        Raises:
            ConfigurationError: this agent has no journal, or an argument is wrong.
            SubmissionError: another turn was submitted with this request.
            QueueFullError: the queue is full; `.info.retry_after` says when to try again.
            QuotaReachedError: the tenant has used up its turns or tokens of this day.
            JournalError: the journal cannot be written.
        """
        from holdfast.runtime.queued_runs.submit_turn import submit_turn

        return await submit_turn(self._engine, prompt, keywords)

    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        *,
        prompt: Callable[[ItemT], Prompt] | None = None,
        parallel: int = 8,
        journal: Journal | str | None = None,
        on_error: OnItemError = "continue",
        deps: D_contra = None,  # type: ignore[assignment]  # absent deps are None
        **options: Unpack[BatchOptions[ItemT]],
    ) -> BatchRun[ItemT, T]:
        """Run one turn for each item: `await agent.map(...)`, or `async for item in agent.map(...)`.

        With `journal`, `name` or `key`, the batch is saved: the same call after a crash reads the
        items that are done, continues those in progress and tries those that failed again.

        Args:
            items: a list or a generator, sync or async; items are taken when they can begin.
            prompt: returns the prompt of an item; by default the items are prompts.
            parallel: how many items are in progress at once.
            journal: where this batch is saved; by default in the journal of the agent.
            on_error: "continue" gives each item its own outcome; "stop" raises the first error and
                cancels the others.
            deps: as for `run`.
            options: `name` of the batch in the journal; `key`, a function that returns a text that
                identifies an item (by default its position and its prompt); `retries` of an item
                whose failure may pass; `limits` of each turn; `tokens`, after which no other item
                starts; `progress`, True for a bar or
                a function that is called with a `BatchProgress`.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        from holdfast.runtime.batch_run import BatchPlan, BatchRun

        plan = BatchPlan(prompt, parallel, journal, on_error=on_error, deps=deps, options=options)
        return BatchRun(items, self._engine, plan)

    @overload
    async def resume(
        self, run_id: str, *, output: WantedOutput[U], **keywords: Unpack[ResumeKeywords[D_contra]]
    ) -> Result[U]: ...
    @overload
    async def resume(
        self, run_id: str, **keywords: Unpack[ResumeKeywords[D_contra]]
    ) -> Result[T]: ...
    async def resume(
        self, run_id: str, *, output: Any = None, **keywords: Unpack[ResumeKeywords[D_contra]]
    ) -> Result[Any]:
        """Continue a run that a crash interrupted, that waited for an answer, or that failed.

        A turn that failed, was cancelled or reached a limit is tried again where it failed, unless
        the message itself was refused: then its error is raised again. For a turn that completed,
        its result is returned.

        Effects with an outcome in the journal are not repeated. A tool that had begun and has no
        outcome runs again only if it is declared "read" or "idempotent". For any other tool, the
        model reads that the outcome is unknown.

        Args:
            run_id: the id of the run, or the name of the session.
            deps: as for `run`; or a function, sync or async, that takes an `InterruptedRun` and
                returns them.
            output: as when the turn began; so are `tools`, `toolsets` and a `model` that is an
                object. A model by name is found again.

        Raises:
            ConfigurationError: this agent has no journal, or the journal has no such run, or the
                turn began with something that is not passed now.
            HoldfastError: the turn did not complete.
        """
        turn = self._engine.continue_turn("Agent.resume", run_id, output, keywords)
        return await self._engine.resume(turn)

    @overload
    def resume_stream(
        self, run_id: str, *, output: WantedOutput[U], **keywords: Unpack[ResumeKeywords[D_contra]]
    ) -> RunStream[U]: ...
    @overload
    def resume_stream(
        self, run_id: str, **keywords: Unpack[ResumeKeywords[D_contra]]
    ) -> RunStream[T]: ...
    def resume_stream(
        self, run_id: str, *, output: Any = None, **keywords: Unpack[ResumeKeywords[D_contra]]
    ) -> RunStream[Any]:
        """Continue a run and stream it: `async with agent.resume_stream("ada") as run`.

        Saved events are not streamed again, except a question that is still open. Leaving the block
        early cancels the turn. The arguments are those of `resume`.
        """
        turn = self._engine.continue_turn("Agent.resume_stream", run_id, output, keywords)
        return self._engine.resume_stream(turn)

    async def open_runs(self) -> list[RunEntry]:
        """List the runs of this agent whose last turn has not ended and is in progress nowhere.

        They were interrupted, or wait for an answer.

        Raises:
            ConfigurationError: this agent has no journal.
            JournalError: the journal could not list its runs.
        """
        return await self._engine.open_runs()

    @overload
    async def recover(
        self, *, output: WantedOutput[U], **keywords: Unpack[RecoverKeywords[D_contra]]
    ) -> list[RecoveredRun[T | U]]: ...
    @overload
    async def recover(
        self, **keywords: Unpack[RecoverKeywords[D_contra]]
    ) -> list[RecoveredRun[T]]: ...
    async def recover(
        self, *, output: Any = None, **keywords: Unpack[RecoverKeywords[D_contra]]
    ) -> list[RecoveredRun[Any]]:
        """Continue every run of this agent that a crash interrupted, as `resume` does with one.

        A turn is closed only by its own end: its final reply, one of its limits, or a request that
        the provider refuses. An outage, a wrong API key, an error in the agent's code, the end of
        `seconds` and a cancellation of this call leave it open, and a later call continues it.

        Skipped are runs of agents with another name, that still wait for an answer or are in progress,
        and those whose turn was submitted: the inbox alone continues them.

        Args:
            runs: the ids of the runs to continue, such as some of `open_runs`; None continues all.
            deps: as for `resume`; a function is called for each run.
            output: as for `resume`, and so are `model`, `tools` and `toolsets`; each run gets only
                what it began with.
            parallel: how many runs continue at once.
            seconds: the time for all of them. Runs that are in progress then are stopped and left
                open. The default is the default limit of one turn. None sets no limit.

        Returns:
            One outcome for each run.

        Raises:
            ConfigurationError: this agent has no journal, or an argument is wrong.
            JournalError: the journal could not list its runs.
        """
        return await self._engine.recover(output, keywords)

    @property
    def sessions(self) -> Sessions:
        """The sessions of this agent's journal: list, search, fork, rewind, compact or delete them.

        A change waits for a turn in progress. The model of this agent writes the summaries.
        """
        from holdfast.runtime.sessions.agent_sessions import sessions_of

        return sessions_of(self._engine.plan, self._engine.session_pool)

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        limits: Limits | None = None,
        own_budget: bool = False,
    ) -> Tool:
        """Return this agent as a tool of another agent: it takes a task and returns its final text.

        Each call is a separate conversation. With a journal, it is saved beside the calling run as
        `{run id}/{key of the call}`, and resumes with that run. The time limit, the cancellation and
        the question handler of the calling agent apply to it. Its events and notices appear in the
        stream of the calling run as `FromAgent`. Its failures are tool errors, of which the calling
        model reads the safe text. Its tokens count for the calling agent, whose limit of tokens
        applies to both together.

        Args:
            name: the name of the tool; the agent's name by default.
            description: the description of the tool for the calling model: the purpose of the agent.
                By default it has the agent's name and the first sentence of its instructions.
            limits: the limits of one call; the agent's own by default.
            own_budget: whether its tokens are separate: they do not count for the calling agent, and
                that agent's limit of tokens does not apply.

        Raises:
            ConfigurationError: providers do not accept the name, or `limits` is not a Limits.
        """
        return self._engine.as_tool(name, description, limits, own_budget=own_budget)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Agent[object, Any]:
        """Make the agent that a TOML file describes. Raises ConfigurationError with file and line.

        The keys are the keywords of `Agent`, with tables for `settings`, `limits`, `timeouts`,
        `retry` and `resilience`. `tools`, `middleware`, `observers`, `output`,
        `on_question` and hooks are written "module:name"; `[permissions]` and `[continuation]` have
        the arguments of `ToolPermission` and `ContinuationPermission`; `journal` is an address;
        `instructions_file` is a path relative to the file; `api_key_env` names the environment
        variable that holds the API key, which must not be in the file.

        Args:
            path: the file.
        """
        from holdfast.agent_file.load_agent import load_agent

        # Only the file knows the types of the output and of the deps.
        return load_agent(path, cast("Callable[..., Agent[object, Any]]", cls))

    async def __aenter__(self) -> Self:
        """Keep the connections and other resources of this agent's toolsets open for many turns."""
        return await self._engine.resources.enter(self._engine.plan.lifespans, self)

    async def __aexit__(self, *_error: object) -> None:
        """Close the resources that no turn in progress needs any more."""
        await self._engine.resources.leave()

    def describe(self) -> str:
        """Return the pipeline of a run as text, outermost first, with its settings."""
        return self._engine.plan.describe()

    if not TYPE_CHECKING:  # so that a type checker refuses a name that does not exist

        def __getattr__(self, name: str) -> object:
            from holdfast.core.argument_checks import explain_attribute  # only for the error

            raise AttributeError(explain_attribute("Agent", name), name=name, obj=self)

    def __copy__(self) -> Self:
        return self  # an agent never changes

    def __deepcopy__(self, _memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Agent cannot be pickled: it holds functions, connections and locks. Build it in each "
            "process, for example with Agent.from_file(...) or in a function that the process calls"
        )

    def __repr__(self) -> str:
        if not hasattr(self, "_engine"):
            return "Agent(not constructed)"  # in a debugger, or in the error of a wrong argument
        return f"Agent({self._engine.plan.model.name!r}, name={self._engine.plan.name!r})"
