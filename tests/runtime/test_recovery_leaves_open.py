"""What a recovery does not end stays open: what is reported of it, and how the next one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.postgres_server import PostgresServer
from tests.runtime.slow_journal import BeforeToolsHook

from holdfast import (
    Agent,
    ConfigurationError,
    Limits,
    MemoryJournal,
    Middleware,
    OutputRejected,
    PostgresJournal,
    RecoveredRun,
    RecoveryStatus,
    RetryOptions,
    Status,
    StructuredOutput,
    tool,
)
from holdfast.core.error_info import ErrorCategory, ErrorInfo
from holdfast.core.errors import ProviderError
from holdfast.core.events import Event, ModelReplied, QuestionAsked, TurnClosed
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.core.questions import ClarificationQuestion
from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.journal.port import Journal
from holdfast.middleware.hook_contexts import AfterIteration, BeforeTools, ToolUse
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext

pytestmark = pytest.mark.anyio

OPENED, CALLED, BEGUN = 1, 2, 3
"""Appends of a turn: opened, replied, begun, looked, replied, closed."""
NO_RETRIES = RetryOptions(max_retries=0)
LEFT_OPEN, FAILED, RECOVERED = (
    RecoveryStatus.LEFT_OPEN,
    RecoveryStatus.FAILED,
    RecoveryStatus.RECOVERED,
)


def failing(category: ErrorCategory, code: str | None = None) -> Callable[[object], Reply]:
    def fail(_: object) -> Reply:
        raise ProviderError(
            "It fails.", info=ErrorInfo(category=category, safe="It fails.", code=code)
        )

    return fail


def calls(*names: str) -> Reply:
    given = (ToolCall(f"c{at}", name, '{"task": "look"}') for at, name in enumerate(names))
    return Reply(tuple(given))


@tool(effect="read")
async def look(task: str) -> str:
    """Look."""
    return "a wall"


def agent(journal: Journal, *answers: Any, **keywords: Any) -> Agent[Any]:
    # With the hook, a reply and the marker of its tools are two appends.
    hooks = [BeforeToolsHook(), *keywords.pop("middleware", ())]
    keywords = {
        "tools": [look],
        "retry": NO_RETRIES,
        "middleware": hooks,
        **keywords,
    }
    return Agent(ScriptedModel(*answers), journal=journal, **keywords)


async def interrupt(journal: Journal, session: str, at: int = CALLED, **keywords: Any) -> None:
    dying = agent(CrashAt(journal, at), calls("look"), "done", **keywords)
    with pytest.raises(SimulatedCrash):
        await dying.run("go", session=session)


async def events(journal: Journal, run: str = "s") -> list[Event]:
    return [record.event for record in await journal.read(run)]


def statuses(found: Sequence[RecoveredRun[Any]]) -> dict[str, RecoveryStatus]:
    return {one.run_id: one.status for one in found}


@pytest.mark.parametrize(
    ("category", "status"),
    [
        (ErrorCategory.TRANSIENT, LEFT_OPEN),
        (ErrorCategory.RATE_LIMIT_TERMINAL, LEFT_OPEN),
        (ErrorCategory.AUTH_ERROR, LEFT_OPEN),
        (ErrorCategory.MODEL_NOT_FOUND, LEFT_OPEN),
        (ErrorCategory.CONTENT_FILTERED, FAILED),
        (ErrorCategory.CLIENT_ERROR, FAILED),
    ],
)
async def test_the_category_decides(category: ErrorCategory, status: RecoveryStatus) -> None:
    journal = MemoryJournal()
    await interrupt(journal, "s")
    (found,) = await agent(journal, *[failing(category)] * 2).recover()
    assert found.status is status
    assert found.result is None
    assert found.reason == ErrorInfo(category=category, safe="It fails.")
    assert (await journal.runs(turn_open=True) == []) is (status is FAILED)
    again = await agent(journal, "done").recover()
    assert statuses(again) == ({"s": RECOVERED} if status is LEFT_OPEN else {})


async def test_resume_goes_on_as_well_and_closes_as_before() -> None:
    journal = MemoryJournal()
    await interrupt(journal, "s")
    await interrupt(journal, "t")
    await agent(journal, *[failing(ErrorCategory.TRANSIENT)] * 2).recover()
    assert (await agent(journal, "done").resume("s")).output == "done"
    with pytest.raises(ProviderError):
        await agent(journal, failing(ErrorCategory.TRANSIENT)).resume("t")
    assert await journal.runs(turn_open=True) == []


async def test_a_fallback_that_is_refused_does_not_hide_an_outage() -> None:
    journal = MemoryJournal()
    await interrupt(journal, "s")
    down, refusing = failing(ErrorCategory.SERVER_ERROR), failing(ErrorCategory.CLIENT_ERROR)
    (found,) = await agent(journal, down, fallback=[ScriptedModel(refusing, name="b")]).recover()
    assert found.status is LEFT_OPEN


async def test_a_missing_key_is_a_configuration() -> None:
    def no_key(_: object) -> Reply:
        raise ConfigurationError("api_key", "is missing")

    journal = MemoryJournal()
    await interrupt(journal, "s")
    (found,) = await agent(journal, no_key).recover()
    assert found.status is LEFT_OPEN
    assert isinstance(found.error, ConfigurationError)


class TestTheTime:
    async def test_what_is_under_way_is_stopped_and_the_rest_is_not_begun(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal, asked, loop = MemoryJournal(), [], asyncio.get_running_loop()
        real_time = loop.time

        async def hang(_: object) -> str:
            asked.append(1)
            if len(asked) == 2:  # both are under way, and the time is over
                monkeypatch.setattr(loop, "time", lambda: real_time() + 60)
            return await asyncio.Event().wait()  # type: ignore[return-value]

        for session in "abcd":
            await interrupt(journal, session)
        found = await agent(journal, hang, hang).recover(parallel=2, seconds=60)
        not_begun = RecoveryStatus.NOT_BEGUN
        assert statuses(found) == {"a": LEFT_OPEN, "b": LEFT_OPEN, "c": not_begun, "d": not_begun}
        assert {one.reason.code for one in found if one.reason} == {"recovery_time"}
        assert all("60 s" in str(one.error) for one in found)
        assert len(asked) == 2
        again = await agent(journal, *["done"] * 4).recover()
        assert statuses(again) == dict.fromkeys("abcd", RECOVERED)

    async def test_a_tool_that_was_stopped_is_in_doubt_if_it_writes(self) -> None:
        @tool(name="look", effect="write")
        async def write(task: str) -> str:
            """Look."""
            return await asyncio.Event().wait()  # type: ignore[return-value]

        journal = MemoryJournal()
        await interrupt(journal, "s", CALLED, tools=[write])
        (found,) = await agent(journal, tools=[write]).recover(seconds=0.1)
        assert found.status is LEFT_OPEN
        assert type((await events(journal))[-1]).__name__ == "ToolsBegun"
        (found,) = await agent(journal, "done", tools=[write]).recover()
        assert found.result is not None
        told = [
            part for m in found.result.messages for part in m.parts if isinstance(part, ToolResult)
        ]
        assert "Whether it took effect is unknown" in told[0].text

    async def test_what_does_not_stop_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.runtime.open_runs.recovery._LONGEST_RELEASE", 0.1)
        free = asyncio.Event()

        async def deaf(_: object) -> str:
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue
            return "done"

        journal = MemoryJournal()
        await interrupt(journal, "s")
        (found,) = await agent(journal, deaf).recover(seconds=0.1)
        assert found.status is RecoveryStatus.BUSY
        free.set()
        while await journal.runs(turn_open=True):
            await asyncio.sleep(0)

    async def test_a_journal_that_does_not_list_its_runs(self) -> None:
        class Silent(MemoryJournal):
            async def runs(self, *, turn_open: bool = False) -> Any:
                await asyncio.Event().wait()

        with pytest.raises(JournalUnreachableError, match=r"within 0\.1 s"):
            await agent(Silent()).recover(seconds=0.1)

    @pytest.mark.parametrize("seconds", [0, -1, "soon", float("inf")])
    async def test_a_wrong_number_is_told(self, seconds: Any) -> None:
        with pytest.raises(ConfigurationError, match="seconds"):
            await agent(MemoryJournal()).recover(seconds=seconds)

    async def test_the_limit_of_the_turn_closes_it_as_before(self) -> None:
        async def hang(_: object) -> str:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        journal, limits = MemoryJournal(), Limits(seconds=0.2)
        await interrupt(journal, "s", limits=limits)
        (found,) = await agent(journal, hang).recover()
        assert found.status is FAILED
        assert "time limit" in str(found.error)

    async def test_a_limit_that_was_spent_on_an_outage_does_not(self) -> None:
        async def hang(_: object) -> str:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        journal, limits = MemoryJournal(), Limits(seconds=0.2)
        await interrupt(journal, "s", limits=limits)
        retries = RetryOptions(max_retries=3, retry_delay=0.01)
        down = failing(ErrorCategory.SERVER_ERROR)
        (found,) = await agent(journal, down, hang, retry=retries).recover()
        assert found.status is LEFT_OPEN
        assert found.reason is not None
        assert found.reason.category is ErrorCategory.SERVER_ERROR


class TestACancellation:
    async def hung(self, journal: Journal) -> asyncio.Task[Any]:
        asked = asyncio.Event()

        async def hang(_: object) -> str:
            asked.set()
            return await asyncio.Event().wait()  # type: ignore[return-value]

        await interrupt(journal, "s")
        task = asyncio.create_task(agent(journal, hang).recover())
        await asked.wait()
        return task

    async def test_a_second_one_while_it_lets_go_is_safe(self) -> None:
        journal = MemoryJournal()
        task = await self.hung(journal)
        for _ in range(5):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        assert task.cancelled()
        assert statuses(await agent(journal, "done").recover()) == {"s": RECOVERED}

    async def test_a_turn_that_was_completed_meanwhile_has_its_result(self) -> None:
        class SlowAtTheEnd(MemoryJournal):
            async def append(
                self, run: str, event: Event, effect: Any = None, **named: Any
            ) -> None:
                await super().append(run, event, effect, **named)
                if isinstance(event, TurnClosed):
                    await asyncio.Event().wait()

        journal = SlowAtTheEnd()
        await interrupt(journal, "s")
        (found,) = await agent(journal, "done").recover(seconds=0.1)
        assert found.status is RECOVERED
        assert found.result is not None
        assert found.result.output == "done"

    async def test_by_a_limit_of_the_caller(self) -> None:
        journal = MemoryJournal()
        task = await self.hung(journal)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.05)
        assert statuses(await agent(journal, "done").recover()) == {"s": RECOVERED}

    async def test_where_processes_share_the_journal_the_lease_is_given_back(
        self, postgres: PostgresServer
    ) -> None:
        url = postgres.new_url()
        with PostgresJournal(url) as one, PostgresJournal(url) as other:
            task = await self.hung(one)
            task.cancel()
            await asyncio.wait([task])
            assert not any(entry.leased for entry in await other.runs())
            assert statuses(await agent(other, "done").recover()) == {"s": RECOVERED}

    async def test_so_it_is_when_all_tasks_are_cancelled_again_and_again(
        self, postgres: PostgresServer
    ) -> None:
        url = postgres.new_url()
        with PostgresJournal(url) as one, PostgresJournal(url) as other:
            before = asyncio.all_tasks()
            task = await self.hung(one)
            while not task.done():
                for each in asyncio.all_tasks() - before:
                    each.cancel()
                await asyncio.sleep(0)
            assert task.cancelled()
            # The release was on its way, and nobody could wait for it.
            async with asyncio.timeout(10.0):
                while any(entry.leased for entry in await other.runs()):
                    await asyncio.sleep(0.01)
            assert statuses(await agent(other, "done").recover()) == {"s": RECOVERED}


class TestWithin:
    """Agents that are tools of a recovered turn."""

    def boss(
        self, journal: Journal, clerk: Agent[str], *answers: Any, **keywords: Any
    ) -> Agent[Any]:
        keywords.setdefault("tools", [clerk.as_tool(name="clerk"), look])
        return agent(journal, *answers, name="boss", **keywords)

    def clerk(self, *answers: Any) -> Agent[str]:
        model = ScriptedModel(*answers)
        return Agent(model, name="clerk", tools=[look], retry=NO_RETRIES)

    async def test_one_that_cannot_go_on_stays_open_with_its_caller(self) -> None:
        journal, down = MemoryJournal(), failing(ErrorCategory.SERVER_ERROR)
        dying = self.boss(CrashAt(journal, CALLED), self.clerk(), calls("clerk", "look"))
        with pytest.raises(SimulatedCrash):
            await dying.run("go", session="s")
        clerk = self.clerk(calls("look"), down)
        (found,) = await self.boss(journal, clerk).recover()
        assert found.status is LEFT_OPEN
        assert found.reason is not None
        assert found.reason.category is ErrorCategory.SERVER_ERROR
        assert len(await journal.runs(turn_open=True)) == 2
        # The tool beside it has come to its end, and is not run again.
        assert [event.key for event in await events(journal)][-1] == "t1.i0.tool.1"
        (found,) = await self.boss(journal, self.clerk("seen"), "done").recover()
        assert found.result is not None
        assert found.result.output == "done"
        within = await events(journal, "s/t1.i0.tool.0")
        assert sum(isinstance(event, ModelReplied) for event in within) == 2
        assert await journal.runs(turn_open=True) == []

    @pytest.mark.parametrize("beside", [(), ("look",)], ids=["alone", "beside a tool"])
    async def test_the_time_of_its_caller_that_went_into_an_outage(
        self, beside: tuple[str, ...]
    ) -> None:
        async def hang(_: object) -> str:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        journal, limits = MemoryJournal(), Limits(seconds=0.3)
        dying = self.boss(
            CrashAt(journal, CALLED), self.clerk(), calls("clerk", *beside), limits=limits
        )
        with pytest.raises(SimulatedCrash):
            await dying.run("go", session="s")
        clerk = Agent(
            ScriptedModel(failing(ErrorCategory.SERVER_ERROR), hang),
            name="clerk",
            retry=RetryOptions(max_retries=2, retry_delay=0.01),
        )
        (found,) = await self.boss(journal, clerk).recover()
        assert found.status is LEFT_OPEN
        assert len(await journal.runs(turn_open=True)) == 2
        (found,) = await self.boss(journal, self.clerk("seen"), "done").recover()
        assert found.status is RECOVERED

    async def test_one_that_cannot_go_on_is_closed_with_a_turn_that_cancels_itself(self) -> None:
        failed = asyncio.Event()

        def down(_: object) -> Reply:
            failed.set()
            return failing(ErrorCategory.SERVER_ERROR)(_)

        class Stray(Middleware):
            tools = ("look",)

            async def before_tool(self, context: ToolUse) -> None:
                await failed.wait()
                for _ in range(20):
                    await asyncio.sleep(0)
                asyncio.current_task().cancel()  # type: ignore[union-attr]
                await asyncio.Event().wait()

        journal, clerk = MemoryJournal(), self.clerk(down)
        dying = self.boss(CrashAt(journal, CALLED), clerk, calls("clerk", "look"))
        with pytest.raises(SimulatedCrash):
            await dying.run("go", session="s")
        (found,) = await self.boss(journal, clerk, middleware=[Stray()]).recover()
        assert found.status is FAILED
        assert found.reason is not None
        assert found.reason.category is ErrorCategory.CANCELLED
        assert await journal.runs(turn_open=True) == []

    async def test_one_that_is_refused_is_a_failed_tool(self) -> None:
        journal, refused = MemoryJournal(), failing(ErrorCategory.CONTENT_FILTERED)
        dying = self.boss(CrashAt(journal, CALLED), self.clerk(), calls("clerk"))
        with pytest.raises(SimulatedCrash):
            await dying.run("go", session="s")
        (found,) = await self.boss(journal, self.clerk(refused), "done").recover()
        assert found.status is RECOVERED

    async def test_one_that_is_stopped_stays_open_with_its_caller(self) -> None:
        async def hang(_: object) -> str:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        journal = MemoryJournal()
        dying = self.boss(CrashAt(journal, CALLED), self.clerk(), calls("clerk"))
        with pytest.raises(SimulatedCrash):
            await dying.run("go", session="s")
        (found,) = await self.boss(journal, self.clerk(calls("look"), hang)).recover(seconds=0.1)
        assert found.status is LEFT_OPEN
        assert len(await journal.runs(turn_open=True)) == 2
        (found,) = await self.boss(journal, self.clerk("seen"), "done").recover()
        assert found.status is RECOVERED


class TestAChecker:
    """Answers of a wanted type."""

    def wanting(
        self, journal: Journal, validator: Any, *answers: Any, **keywords: Any
    ) -> Agent[Any]:
        output = StructuredOutput(int, validators=[validator])
        return agent(journal, *answers, tools=[], output=output, **keywords)

    async def test_one_that_raises_leaves_the_turn_open_and_the_answer_paid(self) -> None:
        def broken(_: int) -> None:
            raise ConnectionError("the database is down")

        def fine(_: int) -> None:
            return None

        journal = MemoryJournal()
        with pytest.raises(SimulatedCrash):
            await self.wanting(CrashAt(journal, OPENED), fine).run("go", session="s")
        (found,) = await self.wanting(journal, broken, "5").recover()
        assert found.status is LEFT_OPEN
        (found,) = await self.wanting(journal, fine).recover()
        assert found.result is not None
        assert found.result.output == 5

    async def test_an_answer_that_is_wrong_after_all_tries_closes_it(self) -> None:
        def wrong(_: int) -> None:
            raise OutputRejected("too small")

        journal = MemoryJournal()
        with pytest.raises(SimulatedCrash):
            await self.wanting(CrashAt(journal, OPENED), wrong).run("go", session="s")
        (found,) = await self.wanting(journal, wrong, "5", "6", "7").recover()
        assert found.status is FAILED
        assert await journal.runs(turn_open=True) == []


class Broken(Middleware[None]):
    """A hook between two effects that fails."""

    def __init__(self, hook: str) -> None:
        self.hook = hook

    async def before_tools(self, moment: BeforeTools) -> None:
        if self.hook == "before_tools":
            raise ConnectionError("the policy service is down")

    async def after_iteration(self, moment: AfterIteration) -> None:
        if self.hook == "after_iteration":
            raise ConnectionError("the policy service is down")


@pytest.mark.parametrize("hook", ["before_tools", "after_iteration"])
async def test_a_hook_that_fails_is_called_again_by_the_next_recovery(hook: str) -> None:
    journal = MemoryJournal()
    await interrupt(journal, "s")
    (found,) = await agent(journal, "done", middleware=[Broken(hook)]).recover()
    assert found.status is LEFT_OPEN
    (found,) = await agent(journal, "done", middleware=[Broken(hook)]).recover()
    assert found.status is LEFT_OPEN
    (found,) = await agent(journal, "done", middleware=[Broken("")]).recover()
    assert found.status is RECOVERED
    assert not any(isinstance(event, TurnClosed) for event in (await events(journal))[:-1])


class TestQuestions:
    @staticmethod
    def asking() -> Any:
        @tool(name="look", effect="write")
        async def ask(task: str, context: ToolContext) -> str:
            """Look."""
            return await context.ask(ClarificationQuestion(question="Where?"))

        return ask

    async def test_one_that_nobody_answers_waits_and_is_said_to(self) -> None:
        journal, tools = MemoryJournal(), [self.asking()]
        await interrupt(journal, "s", tools=tools)
        (found,) = await agent(journal, tools=tools, on_wait="suspend").recover()
        assert found.status is RecoveryStatus.WAITING
        assert found.result is not None
        assert found.result.status is Status.WAITING
        assert await agent(journal, tools=tools, on_wait="suspend").recover() == []

    async def test_one_beside_an_outage_stays_open_and_is_answered_later(self) -> None:
        clerk = Agent(ScriptedModel(failing(ErrorCategory.SERVER_ERROR)), name="clerk")
        journal, tools = MemoryJournal(), [self.asking(), clerk.as_tool()]
        dying = agent(CrashAt(journal, CALLED), calls("look", "clerk"), tools=tools)
        with pytest.raises(SimulatedCrash):
            await dying.run("go", session="s")
        first = agent(journal, tools=tools, on_wait="suspend")
        (found,) = await first.recover()
        assert found.status is LEFT_OPEN
        (question,) = await first.questions("s")
        assert isinstance((await events(journal))[-1], QuestionAsked)
        assert await first.answer("s", question, "there")
        able = Agent(ScriptedModel("seen"), name="clerk")
        tools = [self.asking(), able.as_tool()]
        (found,) = await agent(journal, "done", tools=tools, on_wait="suspend").recover()
        assert found.result is not None
        told = [p.text for m in found.result.messages for p in m.parts if isinstance(p, ToolResult)]
        assert told == ["there", "seen"]

    async def test_a_cancelled_recovery_does_not_answer_it(self) -> None:
        asked = asyncio.Event()

        async def nobody(_: object) -> object:
            asked.set()
            return await asyncio.Event().wait()

        journal, tools = MemoryJournal(), [self.asking()]
        await interrupt(journal, "s", tools=tools)
        waiting = agent(journal, tools=tools, on_question=nobody)
        task = asyncio.create_task(waiting.recover())
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert len(await agent(journal, tools=tools).questions("s")) == 1


async def test_an_unexpected_exception_is_shown_in_a_safe_form() -> None:
    one = RecoveredRun[str]("s", error=KeyError("password"), status=LEFT_OPEN)
    assert one.reason is not None
    assert "password" not in one.reason.safe
