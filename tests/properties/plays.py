"""One conversation of an agent, watched from all sides: its model, its tools, its hooks, its readers.

What each of them does depends on the case and on where it stands, and never on when it is called:
the same case says the same on every journal. What is seen that must never be is noted in `wrong`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.properties.cranked_journal import CrankedJournal

from holdfast import Agent, Limits, Middleware, RetryOptions, SqliteJournal, tool
from holdfast.codecs.pairing import check_pairs
from holdfast.core.effects import begun_key, nested_run_id
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.events import (
    Event,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    Status,
)
from holdfast.core.messages import Message, Reply, ReplyKind, Text, ToolCall, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import FromAgent
from holdfast.core.questions import AnyQuestion, Approved, PermissionQuestion, Question
from holdfast.journal.port import Journal
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.middleware.decisions import Deny, Patch, Replace, Stop, UseReply
from holdfast.middleware.hook_contexts import HookContext
from holdfast.output.structured_output import OutputContext, StructuredOutput
from holdfast.resilience.pipeline import CallContext, Done, Outcome, failed_outcome
from holdfast.runtime.result import Result
from holdfast.telemetry.observers import Observation
from holdfast.testing import FakeClock
from holdfast.tools.context import ToolContext
from holdfast.tools.tool import Tool, ToolEffect

RUN = "s"
_ASKING = (QuestionAsked, QuestionAnswered, QuestionUnanswered)
Line: TypeAlias = str | tuple[str, ...]
"""A word for a reply without tools, or the names of the tools that it asks for."""
Decided: TypeAlias = Mapping[tuple[str, int], str]
"""What a hook does in an iteration, beside looking."""

TOOL_HOOKS = ("before_tool", "wrap_tool", "after_tool")
HOOKS = (
    *("before_turn", "before_iteration", "wrap_model", "live", "on_context_window", "after_reply"),
    *("after_iteration", "before_tools", *TOOL_HOOKS, "after_turn", "on_error"),
)


@dataclass(frozen=True)
class Case:
    """An agent, what its model says, and who is there."""

    lines: tuple[Line, ...]
    within: tuple[Line, ...] = ()
    """What the model of the agent that is a tool says."""
    hooks: frozenset[str] = frozenset()
    decided: Decided = field(default_factory=dict)
    limits: Limits | None = None
    parallel: int = 16
    typed: bool = False
    suspends: bool = False
    handler: str = ""
    """ "" for none, "yes", or "none" for one that leaves it to others."""
    reader: str = ""
    """ "" for nobody, "yes" for one who answers, or "looks" for one who does not."""
    observed: bool = True


class PatientClock(FakeClock):
    """A clock that stands still while the journal has something to do: no disk takes minutes."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._acts: list[WriterJob[Any]] = []
        if isinstance(journal, SqliteJournal):
            self._submit = journal._writer.submit
            journal._writer.submit = self._noted  # type: ignore[method-assign]  # REASON: to see them

    def _noted(self, act: WriterJob[Any]) -> WriterJob[Any]:
        self._acts.append(act)
        return self._submit(act)

    def _wake_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._acts = [act for act in self._acts if not act._is_over and not act._waiter.cancelled()]
        if self._acts:
            self._passes = 0
        super()._wake_when_idle(loop)


class Player:
    """A model that follows the lines."""

    account = "nobody"

    def __init__(self, play: Play, name: str, lines: tuple[Line, ...]) -> None:
        self.name = self.model = name
        self._play = play
        self._lines = lines

    def describe(self) -> Mapping[str, object]:
        return {"model": self.name}

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        messages = tuple(call.payload.messages)
        self._play.at_model(call.key, messages)
        await asyncio.sleep(0)
        _, iteration = numbers_of(call.key)
        lines = () if self._play.last else self._lines
        line = lines[iteration] if iteration < len(lines) else "text"
        if line == "window" and call.payload.instructions == "Less.":
            line = "text"
        answer = self._answer(line, call.key)
        return failed_outcome(answer) if isinstance(answer, HoldfastError) else Done(answer)

    def _answer(self, line: Line, key: str) -> Reply | HoldfastError:
        usage = Usage(10, 5)
        if line in ("refused", "window"):
            window = line == "window"
            kind = ErrorCategory.CONTEXT_WINDOW if window else ErrorCategory.AUTH_ERROR
            return ProviderError("no", info=ErrorInfo(category=kind, safe="no"))
        if line == "paused":
            return Reply((Text("Hm."),), ReplyKind.PAUSED, usage=usage)
        if isinstance(line, str):
            good = "7" if self._play.case.typed and self.name == "outer" else f"Done {key}."
            return Reply((Text("bad" if line == "bad" else good),), usage=usage)
        cut = line[0] == "cut"
        names = line[1:] if cut else line
        calls = [_call(key, n, name) for n, name in enumerate(names)]
        return Reply(tuple(calls), ReplyKind.TRUNCATED if cut else ReplyKind.COMPLETE, usage=usage)


def _call(key: str, index: int, name: str) -> ToolCall:
    """The task of an agent that is a tool is the key of its call, so that it is known again."""
    task = f"{key.removesuffix('model')}tool.{index}"
    said = f'{{"task": "{task}"}}' if name in ("helper", "scout") else "{}"
    return ToolCall(f"c.{index}.{key}".replace(".", "_"), name, said)


def numbers_of(key: str) -> tuple[int, int]:
    """Turn and iteration of the key of an effect."""
    turn, _, rest = key.partition(".i")
    return int(turn.removeprefix("t")), int(rest.partition(".")[0])


class Play:
    """One case on one journal."""

    def __init__(self, case: Case, journal: Journal) -> None:
        self.case = case
        self.journal = journal
        self.cranked = journal if isinstance(journal, CrankedJournal) else None
        self.clock = PatientClock(journal)
        self.wrong: list[str] = []
        self.shown: dict[str, list[Event]] = defaultdict(list)
        self.streamed: dict[str, list[Event]] = defaultdict(list)
        self.paid: dict[str, int] = defaultdict(int)
        self.last = False
        """Whether it is the last turn, in which nothing special happens."""
        self.agent = self.new_agent()

    def new_agent(self) -> Agent[Any]:
        """What another process would make."""
        case = self.case
        observers = [self._observe] if case.observed else []
        watch = (self._watch(case.decided),) if case.hooks else ()
        options: dict[str, Any] = {
            "retry": RetryOptions(max_retries=0),
            "observers": observers,
            "clock": self.clock,
            "rng": lambda: 0.5,
        }
        tools = self._tools()
        helpers = [
            Agent(
                Player(self, name, case.within),
                name=name,
                tools=own,
                middleware=(self._watch({}),) if case.hooks else (),
                **options,
            ).as_tool()
            for name, own in (("helper", tools), ("scout", [tools[0], tools[4]]))
        ]
        handlers: dict[str, Any] = {"yes": _says_yes, "none": _says_nothing, "": None}
        return Agent(
            Player(self, "outer", case.lines),
            tools=[*tools, *helpers],
            middleware=watch,
            limits=case.limits,
            parallel_tools=case.parallel,
            output=StructuredOutput(int, validators=[self.at_check]) if case.typed else str,
            journal=self.journal,
            on_wait="suspend" if case.suspends else "hold",
            on_question=handlers[case.handler],
            **options,
        )

    async def turn(self, said: str) -> Result[Any]:
        """A turn as its user has it."""
        if not self.case.reader:
            return await self.agent.run(said, session=RUN)
        async with self.agent.stream(said, session=RUN) as stream:
            self.stream = stream
            async for item in stream:
                if isinstance(item, FromAgent):
                    if isinstance(item.item, Event):  # type: ignore[misc,arg-type]
                        self.streamed[nested_run_id(RUN, item.key)].append(item.item)  # type: ignore[arg-type]
                elif isinstance(item, Event):  # type: ignore[misc,arg-type]
                    self.streamed[RUN].append(item)  # type: ignore[arg-type]
                elif isinstance(item, Question) and self.case.reader == "yes":
                    stream.answer(item, Approved())
            return stream.result

    def streams(self) -> bool:
        """Whether there is a stream to cancel by now."""
        return hasattr(self, "stream")

    def _observe(self, seen: Observation) -> None:
        if isinstance(seen.item, Event):  # type: ignore[misc,arg-type]
            self.shown[seen.run_id].append(seen.item)  # type: ignore[arg-type]

    def at_check(self, _: int, context: OutputContext) -> None:
        """No answer is checked that is not kept."""
        if self.cranked is not None and self.cranked.on_the_way(context.run_id):
            self.wrong.append(f"{context.key} is checked while a record is on its way")

    def at_model(self, key: str, messages: tuple[Message, ...]) -> None:
        """The model is not asked before all that was done is saved; somebody may answer meanwhile."""
        try:
            check_pairs(messages)
        except HoldfastError as error:
            self.wrong.append(f"the model is asked at {key} with a history that fits none: {error}")
        if self.cranked is not None:
            said = messages[0].text
            for one in self.cranked.on_the_way(
                nested_run_id(RUN, said) if ".tool." in said else RUN
            ):
                if not isinstance(one.event, _ASKING):
                    self.wrong.append(f"the model is asked at {key} while {one.key} is being saved")

    def at_tool(self, context: ToolContext[Any], effect: ToolEffect) -> None:
        """No tool begins before its marker is saved."""
        if self.cranked is None:
            return
        marker = begun_key(*numbers_of(context.key))
        if marker not in {event.key for event in self.cranked.kept()[context.run_id]}:
            self.wrong.append(f"{context.run_id} {context.key} runs, and {marker} is not kept")

    def paid_for(self, context: ToolContext[Any]) -> None:
        """No write happens twice."""
        name = f"{context.run_id} {context.key}"
        self.paid[name] += 1
        if self.paid[name] > 1:
            self.wrong.append(f"{name} wrote {self.paid[name]} times")

    def at_hook(self, hook: str, moment: HookContext) -> None:
        """No hook is called before what it sees is kept.

        Hooks of a tool run beside the other tools of the same reply, whose results, questions and
        answers they do not see: only those may be on their way.
        """
        if self.cranked is None:
            return
        of_tool = hook in TOOL_HOOKS or (hook == "on_error" and ".tool." in moment.key)
        for one in self.cranked.on_the_way(moment.run_id):
            scope = moment.key.rpartition(".tool.")[0]
            beside = one.key.startswith(f"{scope}.tool.") and not _within(one.key, moment.key)
            if not (of_tool and beside):
                self.wrong.append(f"{hook} at {moment.key} is called while {one.key} is on its way")

    def _tools(self) -> list[Any]:
        return [
            self._tool("look", "read"),
            self._tool("put", "idempotent", passes=2),
            self._tool("pay", "write", passes=1),
            self._tool("fail", "read", fails=True),
            self._tool("peek", "read", asks=True),
            self._tool("buy", "write", asks=True),
        ]

    def _tool(
        self,
        name: str,
        effect: ToolEffect,
        *,
        passes: int = 0,
        asks: bool = False,
        fails: bool = False,
    ) -> Tool:
        async def work(context: ToolContext[Any]) -> str:
            """Work."""
            self.at_tool(context, effect)
            if asks and not isinstance(await context.ask(PermissionQuestion(tool=name)), Approved):
                return "denied"
            if fails:
                raise RuntimeError("broken")
            if effect == "write":
                self.paid_for(context)
            for _ in range(passes):
                await asyncio.sleep(0)
            return f"did {context.key}"

        return tool(name=name, effect=effect)(work)

    def _watch(self, decided: Decided) -> Middleware[None]:
        """A middleware with the hooks of the case and no others, since one that is missing counts."""
        made: Middleware[None] = type(
            "Watch", (Middleware,), {name: self._hook(name, decided) for name in self.case.hooks}
        )()
        return made

    def _hook(self, name: str, decided: Decided) -> Any:
        async def one(_: Any, moment: HookContext) -> Any:
            return await self._hooked(name, moment, decided)

        async def wrap(_: Any, moment: HookContext, call_next: Any) -> Any:
            await self._hooked(name, moment, decided)
            answer = await call_next(moment)
            await self._hooked(name, moment, decided)
            return answer

        def live(_: Any, moment: HookContext) -> None:
            self.at_hook("live", moment)

        return live if name == "live" else wrap if name.startswith("wrap") else one

    async def _hooked(self, hook: str, moment: HookContext, decided: Decided) -> Any:
        self.at_hook(hook, moment)
        iteration = getattr(moment, "iteration", 0)
        what = "" if self.last else decided.get((hook, iteration), "")
        if what == "waits":
            await asyncio.sleep(0)
            self.at_hook(hook, moment)
        elif what == "raises":
            raise RuntimeError("a hook")
        elif what == "asks":
            answer = await moment.ask(PermissionQuestion(tool=hook))
            return None if isinstance(answer, Approved) else Stop("denied", "No.")
        return _DECISIONS.get((hook, what)) or _DECISIONS.get((hook, ""))


_DECISIONS: dict[tuple[str, str], Any] = {
    ("on_context_window", ""): Patch(instructions="Less."),
    **{
        (hook, "stops"): Stop("enough", "That is all.")
        for hook in HOOKS
        if hook not in ("on_context_window", "live", "after_turn", "wrap_model", "wrap_tool")
    },
    ("before_iteration", "replies"): UseReply("7"),
    ("after_reply", "replies"): UseReply("7"),
    ("before_tools", "denies"): Deny("Not now."),
    ("before_tool", "denies"): Deny("Not that."),
    ("before_tool", "replaces"): Replace("made up"),
    ("after_tool", "replaces"): Replace("made up"),
}


async def _says_yes(request: AnyQuestion) -> object:
    await asyncio.sleep(0)
    return Approved()


async def _says_nothing(request: AnyQuestion) -> object:
    return None


def _within(key: str, effect: str) -> bool:
    return key == effect or key.startswith(f"{effect}.")


def waits(outcome: object) -> bool:
    return isinstance(outcome, Result) and outcome.status is Status.WAITING
