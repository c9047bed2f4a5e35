"""Runs that ask people are suspended at each question, killed at each append, and continued in another process."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.tool_results import results_in_history

from holdfast import Agent, tool
from holdfast.core.batch import IN_DOUBT_TEXT
from holdfast.core.events import ModelReplied, QuestionAnswered, Status, ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.core.questions import (
    AnyQuestion,
    Approved,
    ClarificationQuestion,
    ContinuationQuestion,
    Continued,
    PermissionQuestion,
)
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.middleware.continuation_permission import ContinuationPermission
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.runtime.result import Result
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext

Effect = Literal["write", "idempotent"]


class World:
    """The operations of the tools of all processes, by idempotency key, and the model calls."""

    def __init__(self, effect: Effect) -> None:
        self.effect = effect
        self.done: list[str] = []
        self.asked = 0

    def model(self, *replies: Any) -> ScriptedModel:
        def reply(request: Any) -> Any:
            self.asked += 1
            return replies[sum(message.role == "assistant" for message in request.messages)]

        return ScriptedModel(*[reply] * 50)

    def tools(self) -> list[Any]:
        return _tools(self.effect)


@cache
def _tools(effect: Effect) -> list[Any]:
    """Return the tools, made once; `deps` has the world."""

    @tool(effect=effect)
    async def book(ctx: ToolContext[World], city: str) -> str:
        """Ask twice, and book."""
        chosen = await ctx.ask(ClarificationQuestion(question=f"Class to {city}?"))
        seat = await ctx.ask(ClarificationQuestion(question=f"Seat in {chosen}?"))
        ctx.deps.done.append(ctx.idempotency_key)
        return f"{city}: {chosen}, {seat}"

    @tool(effect=effect)
    async def pay(ctx: ToolContext[World], euros: int) -> str:
        """Pay."""
        ctx.deps.done.append(ctx.idempotency_key)
        return f"paid {euros}"

    return [book, pay]


def call(name: str, call_id: str, arguments: str) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def book(city: str, call_id: str = "a") -> ToolCall:
    return call("book", call_id, f'{{"city": "{city}"}}')


def pay(euros: int, call_id: str = "a") -> ToolCall:
    return call("pay", call_id, f'{{"euros": {euros}}}')


def parallel(world: World, **given: Any) -> Agent[str]:
    replies = ((book("Porto"), pay(5, "b"), book("Faro", "c")), pay(7), "done")
    return Agent(world.model(*replies), tools=world.tools(), **given)


def nested(world: World, **given: Any) -> Agent[str]:
    clerk_model = world.model((pay(1), book("Porto", "b")), pay(2), "All is booked.")
    clerk = Agent(clerk_model, name="clerk", tools=world.tools(), clock=given["clock"])
    task = call("clerk", "a", '{"task": "Book it."}')
    return Agent(
        world.model((task, pay(9, "b")), "done"), tools=[clerk.as_tool(), *world.tools()], **given
    )


def continued(world: World, **given: Any) -> Agent[str]:
    replies = (pay(1), pay(2), pay(3), "done")
    asks = [ContinuationPermission(1, extension=1)]
    return Agent(world.model(*replies), tools=world.tools(), middleware=asks, **given)


def permitted(world: World, **given: Any) -> Agent[str]:
    replies = ((pay(1), pay(2, "b")), pay(3), "done")
    asks = [ToolPermission(ask=["pay"])]
    return Agent(world.model(*replies), tools=world.tools(), middleware=asks, **given)


SCRIPTS: list[Callable[..., Agent[str]]] = [parallel, nested, continued, permitted]


def answer_to(request: AnyQuestion) -> object:
    """Return the answer to a question; it does not depend on the process or the time."""
    if isinstance(request, PermissionQuestion):
        return Approved()
    if isinstance(request, ContinuationQuestion):
        return Continued()
    assert isinstance(request, ClarificationQuestion)
    return f"<{request.question}>"


async def at_once(request: AnyQuestion) -> object:
    return answer_to(request)


async def live(script: Callable[..., Agent[str]], path: Path) -> tuple[Result[str], World]:
    """Return the end of the run when its questions are answered at once."""
    world = World("write")
    with SqliteJournal(path) as journal:
        agent = script(world, journal=journal, on_question=at_once, clock=FakeClock(auto=False))
        return await agent.run("go", session="s", deps=world), world


async def process(
    script: Callable[..., Agent[str]], world: World, journal: Any, most: int
) -> Result[str] | None:
    """Run one process, which starts or answers at most so many questions; return None if it waits."""
    agent = script(world, journal=journal, on_wait="suspend", clock=FakeClock(auto=False))
    if not await journal.read("s"):
        result = await agent.run("go", session="s", deps=world)
    else:
        for request in (await agent.questions("s"))[:most]:
            assert await agent.answer("s", request, answer_to(request))
        result = await agent.resume("s", deps=world)
    return None if result.status is Status.WAITING else result


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("most", [1, 9], ids=["one-by-one", "all-at-once"])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_run_suspended_at_each_question_ends_as_one_answered_at_once(
    script: Callable[..., Agent[str]], most: int, tmp_path: Path
) -> None:
    expected, before = await live(script, tmp_path / "live.db")
    world, result, processes = World("write"), None, 0
    while result is None:
        with SqliteJournal(tmp_path / "later.db") as journal:
            result = await process(script, world, journal, most)
        processes += 1
        assert processes < 20
    assert processes > 2
    assert result.messages == expected.messages
    assert world.asked == before.asked
    assert sorted(world.done) == sorted(before.done)
    assert set(Counter(world.done).values()) == {1}


Place = Callable[[], AbstractContextManager[Any]]
"""Opens the journal that all processes share, one after another."""


def place(effect: Effect, path: Path) -> Place:
    """Return a journal in a file, or in memory for half of the tests, since disks can be slow."""
    if effect == "idempotent":
        return lambda: SqliteJournal(path)
    kept = MemoryJournal()
    return lambda: nullcontext(kept)


async def killed(
    script: Callable[..., Agent[str]], world: World, opened: Place, moment: int, before: bool
) -> tuple[Result[str], bool]:
    """Run processes until the end; the first ones share a journal that fails at its n-th append."""
    left, died = moment, False
    for _ in range(30):
        with opened() as journal:
            dying = None if died else CrashAt(journal, left, before=before)
            try:
                result = await process(script, world, dying or journal, 1)
            except SimulatedCrash:
                died = True
                continue
            if dying is not None:
                left = dying._left
            if result is not None:
                return result, died
    raise AssertionError("it never ends")


# In a file, a case takes a second and more.
@pytest.mark.parametrize("effect", [pytest.param("idempotent", marks=pytest.mark.slow), "write"])
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_kill_at_each_append_loses_nothing_and_repeats_no_write(
    script: Callable[..., Agent[str]], before: bool, effect: Effect, tmp_path: Path
) -> None:
    expected, _ = await live(script, tmp_path / "live.db")
    moment, died = 0, True
    while died:
        moment += 1
        world, opened = World(effect), place(effect, tmp_path / f"{moment}.db")
        result, died = await killed(script, world, opened, moment, before)
        await _check(result, expected, world, opened)
    assert moment > 15


async def _check(result: Result[str], expected: Result[str], world: World, opened: Place) -> None:
    with opened() as journal:
        records = [
            record.event for run in await journal.runs() for record in await journal.read(run.run)
        ]
    assert result.output == "done"
    finished = [event for event in records if isinstance(event, ToolFinished)]
    answered = [event for event in records if isinstance(event, QuestionAnswered)]
    replies = [event for event in records if isinstance(event, ModelReplied)]
    if world.effect == "idempotent":
        assert result.messages == expected.messages
        # Saved once; the model is asked again only when its reply was not saved.
        assert world.asked - len(replies) in (0, 1)
        assert answered
    else:
        assert set(Counter(world.done).values()) <= {1}, "a write was repeated"
        for got, wanted in zip(
            results_in_history(result), results_in_history(expected), strict=True
        ):
            assert got == wanted or got.startswith(IN_DOUBT_TEXT[:15])
    assert finished


def started(folder: Path, what: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.question_process", str(folder / "ask.db"), what],
        cwd=Path(__file__).parents[2],
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow  # starts processes
def test_three_processes_ask_answer_and_continue(tmp_path: Path) -> None:
    assert started(tmp_path, "run") == "waiting for Budget of 'trip'"
    assert started(tmp_path, "answer") == "taken"
    assert started(tmp_path, "answer") == "answered"
    assert started(tmp_path, "resume") == "a trip for 500 euros"
    assert started(tmp_path, "resume") == "a trip for 500 euros"
