"""Agent: the frozen description of an agent, and the ways to run it.

An agent holds no state of any run, so one object serves any number of runs at once. This module
must never decide what a run does, nor import what runs it before the first agent is made: it says
what a user can give and ask, and hands it to the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, cast, overload

from typing_extensions import TypeVar

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.events import OnWait
    from holdfast.core.limits import Limits
    from holdfast.core.messages import Message
    from holdfast.core.model_request import ModelSettings
    from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, Question
    from holdfast.journal.port import Journal
    from holdfast.middleware.chain import AnyMiddleware
    from holdfast.models.http_model import Model
    from holdfast.models.resolve import ModelAt
    from holdfast.resilience.clock import Clock, Rng
    from holdfast.resilience.defaults import Resilience
    from holdfast.resilience.retry.options import RetryOptions
    from holdfast.runtime.output.structured_output import StructuredOutput
    from holdfast.runtime.questions.open_question import Receipt
    from holdfast.runtime.questions.question_checks import OnQuestion
    from holdfast.runtime.recovery import RecoveredRun
    from holdfast.runtime.result import Result
    from holdfast.runtime.run_stream import RunStream
    from holdfast.runtime.sessions.session_pool import OnBusy
    from holdfast.runtime.turn_input import Prompt
    from holdfast.sessions.sessions import Sessions
    from holdfast.telemetry.observers import Observer
    from holdfast.tools.tool import Tool
    from holdfast.transport.port import Timeouts, Transport

T = TypeVar("T", default=str)
A = TypeVar("A")


class Agent(Generic[T]):
    """A model with instructions, tools and settings; runs turns.

    Args:
        model: `"provider:model"`, such as "openai:gpt-5.2" or "ollama:llama3.2"; a ModelAt, with an
            address of its own; or a Model.
        name: names the agent in logs and events.
        instructions: the system prompt.
        tools: functions, or tools made by `@tool`.
        output: the type of the answer: `str`, a pydantic model, a dataclass, a TypedDict, ...; a
            list of types of which it has one; or a StructuredOutput.
        settings: temperature, output limit and the like.
        limits: iterations, seconds, tokens of one turn.
        retry: which failures are tried again, how often and after which wait; see `RetryOptions`.
        resilience: breaker, limiter, retry budget, hedge, cache; see `Resilience`.
        fallback: models to ask when the first one cannot answer, in this order; a ModelAt has an
            address and a key of its own.
        middleware: hooks of yours and ready ones, such as `error_handling_middlewares()`.
        observers: functions, or objects with `on_event`, that are shown every event and notice of
            all runs as an `Observation`. They must be quick; what they raise is logged and no more.
        parallel_tools: how many tools of one reply may run at once.
        tool_timeout: seconds for one attempt of a tool that names no timeout; None sets no limit.
        detailed_errors: show the model the message of an exception that a tool raised, with secrets
            redacted; without it, the model reads only which tool failed.
        base_url: another address of the provider.
        api_key: the key; without it, the provider's environment variable is read.
        timeouts: connect, first byte, between chunks, total, in seconds.
        on_question: an async function that answers what a run asks, or returns None to leave it to
            whoever watches the stream. Without both, every question is denied at once.
        on_wait: what becomes of a run that asks while nobody answers at once. "hold" keeps it going
            until there is an answer or its time is over. "suspend" ends it with the status
            "waiting", to be resumed when there is one; it needs a journal.
        on_busy: what becomes of a message to a session whose turn is under way, here or in another
            process. "queue" lets it wait, "refuse" raises SessionBusyError.
        journal: where events are kept, or the address of it: "sqlite:///talk.db",
            "postgresql://user@host/database"; without one, in memory.
        transport: how HTTP is done; without one, aiohttp with a shared pool.
        clock: time, for tests.
        rng: chance, for tests.

    Raises:
        ConfigurationError: something of this is wrong; it names the argument and the fix.
    """

    __slots__ = ("_engine",)

    def __init__(
        self,
        model: str | ModelAt | Model,
        *,
        name: str = "agent",
        instructions: str = "",
        tools: Iterable[Callable[..., object] | Tool] = (),
        output: type[T] | Sequence[type[T]] | StructuredOutput[T] = str,  # type: ignore[assignment]  # the default of T is str
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
        timeouts: Timeouts | None = None,
        on_question: OnQuestion | None = None,
        on_wait: OnWait = "hold",
        on_busy: OnBusy = "queue",
        journal: Journal | str | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        from holdfast.runtime.compile import AgentOptions  # only who makes an agent pays for it
        from holdfast.runtime.engine import Engine

        options = AgentOptions(
            model=model,
            name=name,
            instructions=instructions,
            tools=tools,
            output=output,
            settings=settings,
            limits=limits,
            retry=retry,
            resilience=resilience,
            fallback=fallback,
            middleware=middleware,
            observers=observers,
            parallel_tools=parallel_tools,
            tool_timeout=tool_timeout,
            detailed_errors=detailed_errors,
            base_url=base_url,
            api_key=api_key,
            timeouts=timeouts,
            on_question=on_question,
            on_wait=on_wait,
            on_busy=on_busy,
            journal=journal,
            transport=transport,
            clock=clock,
            rng=rng,
        )
        self._engine: Engine[T] = Engine(options)

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
        return await self._engine.run(
            self._engine.make_turn(prompt, session, history, limits, deps)
        )

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
        return self._engine.stream(self._engine.make_turn(prompt, session, history, limits, deps))

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
        from holdfast.runtime.sync_bridge import run_blocking

        return run_blocking(
            self._engine.run(self._engine.make_turn(prompt, session, history, limits, deps))
        )

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
        return await self._engine.resume(run_id, deps)

    def resume_stream(self, run_id: str, *, deps: object = None) -> RunStream[T]:
        """Go on with a run and watch it: `async with agent.resume_stream("ada") as run`.

        What its journal holds is not shown again, except a question that is still open: it is put
        to whoever reads the stream. Of a turn that is over already nothing is shown. Leaving the
        block early cancels the turn.

        The arguments are those of `resume`; its errors come with `.result`, as those of `stream`.
        """
        return self._engine.resume_stream(run_id, deps)

    async def recover(
        self, *, deps: object = None, parallel: int = 8, seconds: float | None = 300.0
    ) -> list[RecoveredRun[T]]:
        """Go on with every run of this agent that a crash cut short, as `resume` does with one.

        A turn is closed only by what happens in it: its answer, a limit of its own, a request that
        the provider refuses. An outage, a wrong key, an error in the agent's code, the end of the
        time and a cancellation of this call leave it open, and a later call goes on with it.

        Left alone are runs of agents of another name, runs that wait for an answer, and, in a
        journal that processes share, runs whose process lives. A journal that belongs to one
        process cannot tell that: there, call this before anything else runs.

        Args:
            deps: as for `run`.
            parallel: how many runs at once.
            seconds: the time for all of them; what is under way then is stopped and left open.
                The default is the default limit of one turn. None sets no limit.

        Returns:
            One outcome for each, with its status, and its result or its error.

        Raises:
            ConfigurationError: this agent has no journal, or an argument is wrong.
            JournalError: the journal could not list its runs.
        """
        return await self._engine.recover(deps, parallel, seconds)

    async def questions(self, run_id: str) -> tuple[AnyQuestion, ...]:
        """What a run waits for, as the journal tells it, in the order of asking.

        Args:
            run_id: the run, or the name of the session.

        Raises:
            ConfigurationError: the journal knows no such run.
        """
        return await self._engine.answering.questions(run_id)

    @overload
    async def answer(self, run_id: str, to: Answer[A], /) -> Receipt: ...
    @overload
    async def answer(self, run_id: str, to: Question[A], value: A, /) -> Receipt: ...
    @overload
    async def answer(self, run_id: str, to: str, value: object, /) -> Receipt: ...
    async def answer(
        self, run_id: str, to: AnyAnswer | AnyQuestion | str, value: object = None, /
    ) -> Receipt:
        """Answer what a run asks, whether it is under way or not.

        A run that waits in this process is handed the answer, and goes on. For any other the
        answer is kept in the journal when this returns, and found by `resume`.

        Args:
            run_id: the run, or the name of the session.
            to: an addressed answer, such as `request.approve()`; or the request, or its key.
            value: the answer, when `to` is a request or a key.

        Returns:
            Something true when the answer was taken, and otherwise the reason why it was not.

        Raises:
            AnswerTypeError: the question asks for another type; it stays open.
            ConfigurationError: the journal knows no such run, or this process does not know the
                class of the question.
        """
        from holdfast.runtime.questions.open_question import address_answer

        return await self._engine.answering.answer(run_id, address_answer(to, value))

    async def abandon(self, run_id: str) -> Result[T]:
        """Give up a turn that waits for an answer, or that a crash cut short.

        It is closed as cancelled, and so is what agents in its tools left open; its history says
        what was attempted, and the session takes the next message. A turn that is over already is
        left as it is.

        Args:
            run_id: the run, or the name of the session.

        Raises:
            ConfigurationError: the journal knows no such run.
        """
        return await self._engine.abandon(run_id)

    @property
    def sessions(self) -> Sessions:
        """The sessions of this agent's journal: to list, search, fork, rewind, compact, delete.

        A change waits for the turn of the session that is under way, and the model of this agent
        makes the summaries.
        """
        from holdfast.runtime.sessions.agent_sessions import sessions_of  # most agents only talk

        return sessions_of(self._engine.plan, self._engine.session_pool)

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        limits: Limits | None = None,
        own_budget: bool = False,
    ) -> Tool:
        """This agent as a tool of another one: a task in, its answer out.

        Each call is a conversation of its own. With a journal it is kept beside the calling run,
        as `{run id}/{key of the call}`, and goes on with it. The calling agent's time,
        cancellation, people and stream reach into it; what it shows arrives there as `FromAgent`.
        Its failures are tool errors that the calling model reads in their safe form. What it spends
        is in the usage of the calling agent, whose limit of tokens holds for both together.

        Args:
            name: as the calling model sees it; the agent's own name when absent.
            description: as the calling model sees it: what the agent is for.
            limits: of one call; without them, the agent's own.
            own_budget: what it spends is its own: it neither counts for the calling agent nor is
                bounded by that one's limit of tokens.

        Raises:
            ConfigurationError: no provider takes that name, or the limits are no Limits.
        """
        return self._engine.as_tool(name, description, limits, own_budget=own_budget)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Agent[object]:
        """The agent that a TOML file describes. Raises ConfigurationError with file and line.

        The keys are the keywords of `Agent`, with tables for `settings`, `limits`, `timeouts`,
        `retry` and `resilience`. `tools`, `middleware`, `observers`, `output`,
        `on_question` and hooks are written "module:name"; `[permissions]` and `[continuation]` have
        the arguments of `ToolPermission` and `ContinuationPermission`; `journal` is an address;
        `instructions_file` names a file beside it; `api_key_env` names the environment variable
        that holds the key, which has no place in the file.

        Args:
            path: the file.
        """
        from holdfast.agent_file import load_agent  # most agents are made in code

        # Of what type the answers are, only the file knows.
        return load_agent(path, cast("Callable[..., Agent[object]]", cls))

    def describe(self) -> str:
        """The pipeline that will run, outermost first, with its settings."""
        return self._engine.plan.describe()

    def __repr__(self) -> str:
        return f"Agent({self._engine.plan.model.name!r}, name={self._engine.plan.name!r})"
