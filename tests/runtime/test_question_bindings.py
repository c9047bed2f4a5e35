"""An answer is for one question: of one session, one call and its arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    Agent,
    Answer,
    Approved,
    ClarificationQuestion,
    Denied,
    MemoryJournal,
    Middleware,
    PermissionQuestion,
    PostgresJournal,
    Question,
    SqliteJournal,
    ToolContext,
    ToolPermission,
    tool,
)
from holdfast.core.effects import effect_digest
from holdfast.core.events import (
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    ToolsBegun,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, ToolCall, ToolResult, user
from holdfast.errors import ConfigurationError
from holdfast.journal.port import Record
from holdfast.middleware import RepetitionGuard
from holdfast.runtime.questions.open_question import Receipt
from holdfast.sessions.session_export import export_lines
from holdfast.testing import FakeClock, ScriptedModel

paid: list[int] = []


@tool(effect="write")
def pay(euros: int, note: str = "") -> str:
    """Send money."""
    paid.append(euros)
    return f"paid {euros}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryJournal()
    elif request.param == "sqlite":
        with SqliteJournal(tmp_path / "runs.db") as opened:
            yield opened
    else:
        shared = PostgresJournal(request.getfixturevalue("postgres").new_url())
        yield shared
        shared.close()


def call(euros: int) -> ToolCall:
    return ToolCall("1", "pay", f'{{"euros": {euros}}}')


def worker(journal: Any, *script: Any, **options: Any) -> Agent[str]:
    options.setdefault("clock", FakeClock(auto=False))
    options.setdefault("middleware", [ToolPermission(ask=["pay"])])
    return Agent(ScriptedModel(*script), tools=[pay], journal=journal, on_wait="suspend", **options)


async def asked(agent: Agent[str], session: str) -> PermissionQuestion:
    (question,) = (await agent.run("Pay.", session=session)).questions
    assert isinstance(question, PermissionQuestion)
    return question


async def test_the_approval_of_another_session_is_refused(journal: Any) -> None:
    ada = await asked(worker(journal, call(1)), "ada")
    bob = await asked(worker(journal, call(99)), "bob")
    receipt = await worker(journal).answer("bob", ada.approve())
    assert receipt.reason == "mismatch"
    assert (await worker(journal).questions("bob")) == (bob,)
    assert (await worker(journal).resume("bob")).status == "waiting"
    assert paid == []
    assert await worker(journal).answer("bob", bob.approve())
    await worker(journal, "Done.").resume("bob")
    assert paid == [99]


async def test_an_approval_from_before_the_session_was_deleted_is_refused(journal: Any) -> None:
    old = await asked(worker(journal, call(500)), "ada")
    await worker(journal).sessions.delete("ada")
    new = await asked(worker(journal, call(500)), "ada")
    assert (new.key, new.arguments) == (old.key, old.arguments)
    assert (await worker(journal).answer("ada", old.approve())).reason == "mismatch"
    assert (await worker(journal).resume("ada")).status == "waiting"
    assert paid == []


async def test_an_approval_for_other_arguments_is_refused(journal: Any) -> None:
    question = await asked(worker(journal, call(500)), "ada")
    (first,) = await worker(journal).questions("ada")
    forged = Answer(question.key, Approved(), first.binding[::-1])
    assert (await worker(journal).answer("ada", forged)).reason == "mismatch"
    assert await worker(journal).answer("ada", first, Approved())


async def test_an_approval_of_an_ended_turn_is_not_used_for_the_next(journal: Any) -> None:
    first = await asked(worker(journal, call(500)), "ada")
    await worker(journal).abandon("ada")
    second = await asked(worker(journal, call(500)), "ada")
    assert (await worker(journal).answer("ada", first.approve())).reason in ("unknown", "late")
    moved = msgspec.structs.replace(first.approve(), key=second.key)
    assert (await worker(journal).answer("ada", moved)).reason == "mismatch"
    assert paid == []


async def test_an_approval_of_a_rewound_turn_is_not_used_again(journal: Any) -> None:
    first = await asked(worker(journal, call(500)), "ada")
    await worker(journal).answer("ada", first.approve(remember="tool"))
    await worker(journal, "Done.").resume("ada")
    await worker(journal).sessions.rewind("ada", 0)
    second = await asked(worker(journal, call(500)), "ada")
    assert paid == [500]
    moved = msgspec.structs.replace(first.approve(), key=second.key)
    assert (await worker(journal).answer("ada", moved)).reason == "mismatch"


async def test_the_approval_of_another_stream_is_refused() -> None:
    foreign = await asked(worker(MemoryJournal(), call(1)), "ada")
    agent = Agent(
        ScriptedModel(call(99), "No."), tools=[pay], middleware=[ToolPermission(ask=["pay"])]
    )
    reasons = []
    async with agent.stream("Pay.") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                reasons.append(run.answer(foreign.approve()).reason)
                reasons.append(run.answer(item.deny()).reason)
    assert reasons == ["mismatch", ""]
    assert paid == []


async def test_a_handler_cannot_answer_with_the_approval_of_another_question(
    journal: Any, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = await asked(worker(journal, call(1)), "ada")

    async def mixed_up(_question: Question[Any]) -> object:
        return foreign.approve()

    result = await worker(journal, call(99), "No.", on_question=mixed_up).run("Pay.", session="bob")
    assert paid == []
    assert "failed" in result.messages[2].parts[0].text
    assert "mismatch" in caplog.text


async def test_a_key_alone_is_no_answer(journal: Any) -> None:
    question = await asked(worker(journal, call(1)), "ada")
    with pytest.raises(ConfigurationError, match="to: must be Answer or Question, got str"):
        await worker(journal).answer("ada", question.key, Approved())  # type: ignore[call-overload]


async def test_who_answered_is_in_the_journal(journal: Any) -> None:
    question = await asked(worker(journal, call(5)), "ada")
    expires_at = worker(journal)._engine.plan.clock.now() + 60
    answer = question.approve(by="acme/ann@example.org", expires_at=expires_at)
    assert await worker(journal).answer("ada", answer)
    events = [record.event for record in await journal.read("ada")]
    (saved,) = [event for event in events if isinstance(event, QuestionAnswered)]
    assert (saved.by, saved.expires_at) == ("acme/ann@example.org", expires_at)


async def test_an_answer_that_expired_before_it_arrived_is_refused(journal: Any) -> None:
    clock = FakeClock(auto=False)
    question = await asked(worker(journal, call(5), clock=clock), "ada")
    answer = question.approve(expires_at=clock.now() + 60)
    clock.advance(60)
    agent = worker(journal, clock=clock)
    assert (await agent.answer("ada", answer)).reason == "late"
    assert await agent.answer("ada", question.approve())


async def test_an_answer_that_expired_before_it_was_used_is_no_approval(journal: Any) -> None:
    clock = FakeClock(auto=False)
    question = await asked(worker(journal, call(5), clock=clock), "ada")
    assert await worker(journal, clock=clock).answer(
        "ada", question.approve(expires_at=clock.now() + 60)
    )
    clock.advance(61)
    result = await worker(journal, "Too late.", clock=clock).resume("ada")
    assert result.messages[2].parts[0].text == "The answer expired before it was used."
    assert paid == []


async def test_a_remembered_approval_ends_when_it_expires(journal: Any) -> None:
    clock = FakeClock(auto=False)
    question = await asked(worker(journal, call(5), clock=clock), "ada")
    answer = question.approve(remember="tool", expires_at=clock.now() + 60)
    assert await worker(journal, clock=clock).answer("ada", answer)
    await worker(journal, "Done.", clock=clock).resume("ada")
    await worker(journal, call(6), "Done.", clock=clock).run("Pay.", session="ada")
    assert paid == [5, 6]
    clock.advance(61)
    assert (await asked(worker(journal, call(7), clock=clock), "ada")).arguments["euros"] == 7
    assert paid == [5, 6]


@pytest.mark.parametrize("expires_at", [float("nan"), float("inf"), 0, -1, "soon", True])
async def test_a_wrong_expiry_is_refused(expires_at: Any) -> None:
    with pytest.raises(ConfigurationError, match="expires_at: must be a"):
        PermissionQuestion(tool="pay").approve(expires_at=expires_at)


async def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="by: must be a text, got int"):
        PermissionQuestion(tool="pay").approve(by=5)  # type: ignore[arg-type]


async def test_the_approval_of_a_copy_is_not_that_of_the_original(journal: Any) -> None:
    question = await asked(worker(journal, call(5)), "ada")
    lines = [line async for line in worker(journal).sessions.export("ada")]
    await worker(journal).answer("ada", question.approve())
    await worker(journal, "Done.").resume("ada")
    await worker(journal).sessions.delete("ada")
    await worker(journal).sessions.import_(lines, open_turns=True)
    assert (await worker(journal).answer("ada", question.approve())).reason == "mismatch"
    (again,) = await worker(journal).questions("ada")
    assert isinstance(again, PermissionQuestion)
    assert await worker(journal).answer("ada", again.approve())
    await worker(journal, "Done.").resume("ada")
    assert paid == [5, 5]


async def test_a_copy_remembers_no_approval(journal: Any) -> None:
    question = await asked(worker(journal, call(5)), "ada")
    await worker(journal).answer("ada", question.approve(remember="tool"))
    await worker(journal, "Done.").resume("ada")
    lines = [line async for line in worker(journal).sessions.export("ada")]
    await worker(journal).sessions.fork("ada", to="fork")
    await worker(journal).sessions.import_(lines, session="import")
    for copy in ("fork", "import"):
        assert (await asked(worker(journal, call(6)), copy)).arguments["euros"] == 6
    assert paid == [5]
    await worker(journal, call(6), "Done.").run("Pay.", session="ada")
    assert paid == [5, 6]


def export_approved(*names: str) -> list[str]:
    """Return an export, made elsewhere, of runs with a payment that somebody there has approved."""
    arguments = {"euros": 1_000_000, "note": ""}
    asked = {"tool": "pay", "arguments": arguments, "source": "ToolPermission"}
    key = "t1.i0.tool.0.ask.0"
    events = (
        TurnOpened("t1", 1.0, user("Pay."), agent="agent"),
        ModelReplied("t1.i0.model", 2.0, Reply((call(1_000_000),))),
        ToolsBegun("t1.i0.begun", 3.0),
        QuestionAsked(f"{key}.asked", 4.0, "PermissionQuestion", asked, "suspend", True),
        QuestionAnswered(key, 5.0, {"type": "approved", "remember": "tool"}, True, "the boss"),
    )
    machine, records = SessionMachine(), []
    for event in events:
        effect = machine.find_pending(event.key)
        machine.apply(event)
        records.append(Record(event, effect_digest(effect) if effect else ""))
    return list(export_lines(dict.fromkeys(names, records)))


async def test_an_import_does_not_execute_what_was_approved_elsewhere(journal: Any) -> None:
    agent = worker(journal, "I see.", call(1_000_000))
    await agent.sessions.import_(export_approved("ada"))
    assert await journal.runs(turn_open=True) == []
    (turn,) = (await agent.sessions.read("ada")).points
    assert turn.status == "cancelled"
    assert await agent.recover() == []
    assert await agent.questions("ada") == ()
    result = await agent.resume("ada")
    assert result.output == "I see."
    ((told,),) = (one.parts for one in result.messages if one.role == "tool")
    assert isinstance(told, ToolResult)
    assert (told.is_error, told.in_doubt) == (True, True)
    assert "Whether it took effect is unknown" in told.text
    assert (await asked(agent, "ada")).arguments["euros"] == 1_000_000
    assert paid == []


async def test_the_open_turns_of_ones_own_journal_are_moved_if_one_says_so(journal: Any) -> None:
    agent = worker(journal, "Done.")
    await agent.sessions.import_(export_approved("ada"), open_turns=True)
    assert [entry.run for entry in await journal.runs(turn_open=True)] == ["ada"]
    assert (await agent.resume("ada")).output == "Done."
    assert paid == [1_000_000]
    with pytest.raises(ConfigurationError, match="open_turns: must be"):
        await agent.sessions.import_(export_approved("bob"), open_turns="no")  # type: ignore[arg-type]


async def test_an_import_brings_no_open_run_beside_its_session(journal: Any) -> None:
    """A subagent's run or the titles were open, or stood where a later turn would look for its own."""
    names = ("ada", "ada/t1.i0.tool.0", "ada/t1.i0.tool.0/t1.i0.tool.0", "ada/:title")
    await worker(journal).sessions.import_(export_approved(*names))
    assert sorted(entry.run for entry in await journal.runs()) == sorted(names)
    assert await journal.runs(turn_open=True) == []
    for later in (["ada", "ada/t2.i0.tool.0"], ["ada/:title", "ada/t1.i0.tool.0"]):
        for open_turns in (False, True):
            with pytest.raises(ConfigurationError, match="the session has no such turn"):
                await worker(journal).sessions.import_(
                    export_approved(*later), session="bob", open_turns=open_turns
                )
    assert sorted(entry.run for entry in await journal.runs()) == sorted(names)
    endless = f"ada/t{'9' * 5000}.i0.tool.0"  # more digits than Python reads as a number
    with contextlib.suppress(ConfigurationError):  # a store may have no place for such a name
        await worker(journal).sessions.import_(export_approved("ada", endless), session="bob")
    assert await journal.runs(turn_open=True) == []


class NotingJournal(MemoryJournal):
    """Notes what is saved at once."""

    __slots__ = ("saved",)

    async def append(self, *given: Any, **_named: Any) -> None:
        raise AssertionError(given)

    async def restore(self, runs: Any, **named: Any) -> None:
        self.saved = [[type(record.event) for record in records] for records in runs.values()]
        await super().restore(runs, **named)


async def test_an_import_is_saved_with_the_end_of_its_turn() -> None:
    """Nobody can see the turn open, and a process that dies leaves all or nothing."""
    journal = NotingJournal()
    await worker(journal).sessions.import_(export_approved("ada"))
    assert [kinds[-2:] for kinds in journal.saved] == [[TurnInterrupted, TurnClosed]]


def helper(*calls: ToolCall) -> Any:
    model = ScriptedModel(*calls, "Both are paid.")
    inner = Agent(model, name="helper", tools=[pay], middleware=[ToolPermission(ask=["pay"])])
    return inner.as_tool()


async def test_the_second_payment_of_an_agent_is_asked_about_as_well(journal: Any) -> None:
    boss_call = ToolCall("b", "helper", '{"task": "Pay twice."}')

    def boss(*script: Any, calls: tuple[ToolCall, ...] = ()) -> Agent[str]:
        return Agent(
            ScriptedModel(*script), tools=[helper(*calls)], journal=journal, on_wait="suspend"
        )

    first = await boss(boss_call, calls=(call(10),)).run("Pay twice.", session="ada")
    assert await boss().answer("ada", first.questions[0], Approved())
    second = await boss(calls=(call(10),)).resume("ada")
    assert second.status == "waiting"
    assert paid == [10]
    assert await boss().answer("ada", second.questions[0], Denied(reason="Once is enough."))
    await boss("Done.").resume("ada")
    assert paid == [10]


async def test_an_answer_for_an_agent_changes_nothing_of_its_caller(journal: Any) -> None:
    """The edited arguments of the inner call were given to the agent itself, instead of its task."""
    boss_call = ToolCall("b", "helper", '{"task": "Pay."}')

    def boss(*script: Any, calls: tuple[ToolCall, ...] = ()) -> Agent[str]:
        return Agent(
            ScriptedModel(*script),
            tools=[helper(*calls), pay],
            middleware=[ToolPermission(allow=["helper"], ask=["pay"])],
            journal=journal,
            on_wait="suspend",
        )

    first = await boss(boss_call, calls=(call(10),)).run("Pay.", session="ada")
    answer = Approved(arguments={"euros": 3}, remember="tool")
    assert await boss().answer("ada", first.questions[0], answer)
    again = await boss(call(50)).resume("ada")
    assert paid == [3]
    assert again.status == "waiting"  # an approval of the helper's `pay` is none of the caller's
    assert [question.arguments["euros"] for question in again.questions] == [50]


async def test_edited_arguments_that_do_not_fit_are_refused_and_the_question_stays_open(
    journal: Any,
) -> None:
    question = await asked(worker(journal, call(5)), "ada")
    with pytest.raises(ConfigurationError, match="arguments: do not fit the tool 'pay'"):
        await worker(journal).answer("ada", question.approve(arguments={"euros": "many"}))
    assert await worker(journal).answer("ada", question.approve(arguments={"euros": "3"}))
    events = [record.event for record in await journal.read("ada")]
    assert events[-1].answer == {"type": "approved", "arguments": {"euros": 3, "note": ""}}
    await worker(journal, "Done.").resume("ada")
    assert paid == [3]


async def test_what_was_approved_is_remembered_and_not_what_the_model_asked_first(
    journal: Any,
) -> None:
    question = await asked(worker(journal, call(500)), "ada")
    answer = question.approve(remember="call", arguments={"euros": "5"})
    assert await worker(journal).answer("ada", answer)
    await worker(journal, "Done.").resume("ada")
    await worker(journal, call(5), "Done.").run("Pay.", session="ada")
    assert paid == [5, 5]
    assert (await asked(worker(journal, call(500)), "ada")).arguments["euros"] == 500


async def test_a_repetition_is_allowed_for_what_was_approved() -> None:
    questions: list[Any] = []

    async def edit(question: Question[Any]) -> object:
        assert isinstance(question, PermissionQuestion)
        questions.append(question.arguments)
        return question.approve(remember="call", arguments={"euros": 1})

    guard = RepetitionGuard(9, ask_at=2, result_aware=False)
    model = ScriptedModel(call(500), call(500), call(500), Reply(()), "Done.")
    agent = Agent(model, tools=[pay], middleware=[guard], on_question=edit)
    result = await agent.run("Pay.")
    assert paid == [500, 1, 1]
    assert [question["euros"] for question in questions] == [500, 500]
    assert all(isinstance(part, ToolResult) for part in result.messages[2].parts)


async def test_who_answered_for_an_agent_is_recorded_in_both_runs(journal: Any) -> None:
    boss_call = ToolCall("b", "helper", '{"task": "Pay."}')

    def boss(*script: Any, calls: tuple[ToolCall, ...] = ()) -> Agent[str]:
        clock = FakeClock(auto=False)
        return Agent(
            ScriptedModel(*script),
            tools=[helper(*calls)],
            journal=journal,
            on_wait="suspend",
            clock=clock,
        )

    first = await boss(boss_call, calls=(call(10),)).run("Pay.", session="ada")
    (question,) = first.questions
    expires_at = FakeClock(auto=False).now() + 9e9
    answer = question.answer(Approved(), by="ann", expires_at=expires_at)
    assert await boss().answer("ada", answer)
    await boss("Done.").resume("ada")
    assert paid == [10]
    for run in ("ada", "ada/t1.i0.tool.0"):
        events = [record.event for record in await journal.read(run)]
        (saved,) = [event for event in events if isinstance(event, QuestionAnswered)]
        assert (saved.by, saved.expires_at) == ("ann", expires_at)


async def test_a_tool_does_not_get_the_answer_to_a_hook() -> None:
    """In its second attempt, the tool got the answer to the equal question of the hook."""
    heard: list[str] = []

    class Sure(Middleware):
        async def before_tool(self, context: Any) -> None:
            await context.ask(ClarificationQuestion(question="Sure?"))

        async def after_tool(self, context: Any) -> None:
            heard.append(await context.ask(ClarificationQuestion(question="Sure?")))

    @tool(effect="read")
    async def look(ctx: ToolContext) -> str:
        """Look."""
        heard.append(await ctx.ask(ClarificationQuestion(question="Sure?")))
        if len(heard) < 3:
            raise ConnectionError("lost")
        return "seen"

    answers = iter(["to the hook", "to the tool", "to the hook after it"])

    async def answer(_question: Question[Any]) -> object:
        return next(answers)

    model = ScriptedModel(ToolCall("1", "look", "{}"), "Done.")
    await Agent(
        model, tools=[look], middleware=[Sure()], on_question=answer, clock=FakeClock()
    ).run("Go.")
    assert heard == [*["to the tool"] * 3, "to the hook after it"]


@tool(name="pay", effect="write")
async def pay_once() -> str:
    """Pay."""
    return "paid"


async def test_a_question_with_another_binding_is_not_dismissed() -> None:
    model = ScriptedModel(ToolCall("c1", "pay"), "Paid.")
    agent = Agent(model, tools=[pay_once], middleware=[ToolPermission()])
    async with agent.stream("Pay.") as run:
        async for item in run:
            if isinstance(item, Question):
                other = msgspec.structs.replace(item, binding="another")
                assert run.dismiss(other) == Receipt("mismatch")
                with pytest.raises(ConfigurationError, match="question"):
                    run.dismiss(item.key)  # type: ignore[arg-type]
                assert run.answer(item, Approved())
    assert run.result.text == "Paid."
