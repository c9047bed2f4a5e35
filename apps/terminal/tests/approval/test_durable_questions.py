"""Questions that stand while files change, processes die, and answers come late."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from apps.terminal.tests.approval.desk import Desk, answer_each, approve, call, texts

from adh.approval.notices import CallJudged
from adh.approval.question import ApprovalQuestion
from holdfast import Agent, Answer, SqliteJournal, Status, ToolCall, tool
from holdfast.models import ModelRequest
from holdfast.testing import CrashAt, SimulatedCrash


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


WRITE = call("write_file", file_path="a.txt", content="new\n")


def open_agent(desk: Desk, journal: SqliteJournal, *script: Any) -> Agent[str]:
    """Return the agent of a new process over the same files."""
    return desk.agent(*script, journal=journal, on_wait="suspend", on_question=None)


async def suspend_at_question(desk: Desk, *script: Any) -> ApprovalQuestion:
    """Run a turn in a process that ends while its question stands; returns the question."""
    with closing(desk.journal()) as journal:
        agent = open_agent(desk, journal, *script)
        result = await agent.run("Do it.", session="s1", deps=desk.context())
        assert result.status is Status.WAITING
        (question,) = await agent.questions("s1")
    assert isinstance(question, ApprovalQuestion)
    return question


async def test_question_is_there_again_in_another_process(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("old\n")
    first = await suspend_at_question(desk, WRITE)
    assert desk.ran == []
    with closing(desk.journal()) as journal:
        agent = open_agent(desk, journal, "Done.")
        async with agent.resume_stream("s1", deps=desk.context()) as run:
            async for item in run:
                if isinstance(item, ApprovalQuestion):
                    assert item == first
                    assert item.diff.endswith("-old\n+new")
                    assert run.answer(item.approve(by="ada"))
            assert run.result.output == "Done."
    assert (desk.project / "a.txt").read_text() == "new\n"
    assert [line.decided_by for line in desk.lines()] == ["ada", "ada"]


async def test_answer_that_came_while_no_process_ran(desk: Desk) -> None:
    question = await suspend_at_question(desk, WRITE)
    with closing(desk.journal()) as journal:
        agent = open_agent(desk, journal, "Done.")
        assert await agent.answer("s1", question.approve(by="ada"))
    assert desk.ran == []
    with closing(desk.journal()) as journal:
        result = await open_agent(desk, journal, "Done.").resume("s1", deps=desk.context())
    assert texts(result) == ["written"]


async def test_file_that_changed_while_the_question_stood_voids_the_approval(desk: Desk) -> None:
    file = desk.project / "a.txt"
    file.write_text("old\n")

    def change_and_approve(question: ApprovalQuestion) -> Answer[Any]:
        file.write_text("changed by somebody\n")
        return question.approve(by="ada")

    result = await desk.run(desk.agent(WRITE, "Ok."), answer_each(change_and_approve, approve))
    first, second = desk.asked
    assert (first.diff[-9:], second.diff.splitlines()[-2]) == ("-old\n+new", "-changed by somebody")
    assert first.base != second.base
    assert texts(result) == ["written"]


async def test_file_that_changed_while_no_process_ran_voids_the_approval(desk: Desk) -> None:
    file = desk.project / "a.txt"
    file.write_text("old\n")
    question = await suspend_at_question(desk, WRITE)
    with closing(desk.journal()) as journal:
        agent = open_agent(desk, journal, "Done.")
        assert await agent.answer("s1", question.approve(by="ada"))
        file.write_text("changed by somebody\n")
        assert (await agent.resume("s1", deps=desk.context())).status is Status.WAITING
        (again,) = await agent.questions("s1")
        assert isinstance(again, ApprovalQuestion)
        assert "-changed by somebody" in again.diff
        assert file.read_text() == "changed by somebody\n"
        assert await agent.answer("s1", again.approve(by="ada"))
        result = await agent.resume("s1", deps=desk.context())
    assert texts(result) == ["written"]


async def test_file_that_changes_between_the_approval_and_the_write(desk: Desk) -> None:
    file = desk.project / "a.txt"
    file.write_text("old\n")
    desk.before_run = lambda: file.write_text("changed in the last moment\n")
    result = await desk.run(desk.agent(WRITE, "Ok."), approve)
    assert texts(result) == [f"{desk.places.project / 'a.txt'} has changed since it was approved."]
    assert file.read_text() == "changed in the last moment\n"


async def test_link_that_is_put_in_place_of_a_folder_after_the_question(
    desk: Desk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.project / "sub").mkdir()
    write = call("write_file", file_path="sub/a.txt", content="new")

    def swap_and_approve(question: ApprovalQuestion) -> Answer[Any]:
        (desk.project / "sub").rmdir()
        (desk.project / "sub").symlink_to(outside)
        return question.approve(by="ada")

    answers = answer_each(swap_and_approve, approve)
    result = await desk.run(desk.agent(write, "Ok."), answers)
    # It is asked again, with the path that it leads to now; and the check refuses what is outside.
    assert desk.asked[1].paths == (f"create {outside.resolve() / 'a.txt'}",)
    assert "Safety check(s) failed: sandbox" in texts(result)[0]
    assert list(outside.iterdir()) == []


async def test_rules_that_become_stricter_void_an_approval(desk: Desk) -> None:
    def forbid_and_approve(question: ApprovalQuestion) -> Answer[Any]:
        desk.rules = desk.load("own: {no: {pattern: write_file, supervision: deny, risk: high}}")
        return question.approve(by="ada")

    result = await desk.run(desk.agent(WRITE, "Ok."), forbid_and_approve)
    assert texts(result)[0].startswith("Action blocked by policy: ")
    assert desk.lines()[-1].decision == "blocked"


async def test_two_questions_at_once_are_each_answered_for_their_own_call(desk: Desk) -> None:
    both = [
        call("write_file", 1, file_path="a.txt", content="a"),
        call("write_file", 2, file_path="b.txt", content="b"),
    ]
    agent = desk.agent(both, "Ok.", on_question=None)
    open_questions: list[ApprovalQuestion] = []
    async with agent.stream("Do it.", deps=desk.context()) as run:
        async for item in run:
            if isinstance(item, ApprovalQuestion):
                open_questions.append(item)
                if len(open_questions) == 2:
                    for question in reversed(open_questions):
                        allows = question.arguments["file_path"] == "b.txt"
                        run.answer(question.approve() if allows else question.deny())
        result = run.result
    assert texts(result) == ["Tool 'write_file' execution cancelled by user", "written"]
    assert not (desk.project / "a.txt").exists()
    assert (desk.project / "b.txt").read_text() == "b"


async def test_unanswered_question_of_an_open_screen_is_a_no(desk: Desk) -> None:
    question = await suspend_at_question(desk, WRITE)
    with closing(desk.journal()) as journal:
        agent = open_agent(desk, journal, "Done.")
        assert await agent.answer("s1", question.leave_unanswered())
        result = await agent.resume("s1", deps=desk.context())
    assert texts(result) == [
        "Tool 'write_file' was not executed: nobody answered within 300 seconds"
    ]
    assert desk.decisions() == [("write_file", "denied", "timeout")]


@pytest.mark.slow  # takes half a second or more
async def test_killed_at_every_record_no_write_runs_twice_or_unasked(desk: Desk) -> None:
    runs = 0
    for crash in range(1, 12):
        file = desk.project / f"{crash}.txt"
        write = call("write_file", file_path=file.name, content="x")

        def reply(request: ModelRequest, write: ToolCall = write) -> str | ToolCall:
            return "Done." if any(one.role == "assistant" for one in request.messages) else write

        with closing(desk.journal()) as journal:
            agent = desk.agent(reply, reply, journal=CrashAt(journal, crash))
            desk.answering = approve
            try:
                await agent.run("Do it.", session=f"s{crash}", deps=desk.context())
            except SimulatedCrash:
                runs += 1
        with closing(desk.journal()) as journal:
            again = desk.agent(reply, reply, journal=journal)
            for run in await again.open_runs():
                await again.resume(run.run, deps=desk.context())
        assert desk.ran.count(f"write {file.name}") <= 1
        allowed = [line for line in desk.lines() if line.decision == "allowed"]
        assert sum(line.parameters["file_path"] == file.name for line in allowed) >= desk.ran.count(
            f"write {file.name}"
        )
    assert runs > 5


async def test_notices_tell_the_screen_what_happens(desk: Desk) -> None:
    (desk.project / "sub").mkdir()
    script = [
        WRITE,
        call("write_file", file_path="/etc/x", content=""),
        call("execute_command", command="ls sub"),
    ]
    agent = desk.agent(*script, "Ok.")
    desk.answering = approve
    async with agent.stream("Do it.", deps=desk.context()) as run:
        judged = [
            (item.call, item.outcome, item.level)
            async for item in run
            if isinstance(item, CallJudged)
        ]
    assert judged == [
        ("t1.i0.tool.0", "asks", "confirm"),
        ("t1.i0.tool.0", "runs", "confirm"),
        ("t1.i1.tool.0", "blocked", "deny"),
        ("t1.i2.tool.0", "runs", "notify"),
    ]


async def test_cancelled_call_is_in_the_audit_log(desk: Desk) -> None:
    started = asyncio.Event()

    @tool(effect="write")
    async def execute_command(command: str) -> str:
        """Run a command."""
        started.set()
        await asyncio.Event().wait()
        return command

    desk.answering = approve
    agent = desk.agent(call("execute_command", command="make"), "Ok.", tools=[execute_command])
    async with agent.stream("Do it.", deps=desk.context()) as run:
        waiting = asyncio.ensure_future(run.wait())
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert [line.decision for line in desk.lines()] == ["allowed", "cancelled"]


async def test_question_of_a_delegated_agent_outlives_the_process(desk: Desk) -> None:
    desk.rules = desk.load(
        "own: {delegate: {pattern: writer, supervision: automatic, risk: low, priority: 5}}"
    )

    def open_both(journal: SqliteJournal, *script: Any) -> Agent[str]:
        pipeline = desk.pipeline()
        child = desk.agent(
            *([WRITE, "Written."] if script[0] != "Ok." else ["Written."]),
            name="writer",
            middleware=[pipeline.safeguards],
            journal=journal,
            on_wait="suspend",
            on_question=None,
        )
        return desk.agent(
            *script,
            tools=[child.as_tool()],
            middleware=[pipeline.permission, pipeline.safeguards],
            journal=journal,
            on_wait="suspend",
            on_question=None,
        )

    with closing(desk.journal()) as journal:
        agent = open_both(journal, call("writer", task="Write."), "Ok.")
        result = await agent.run("Do it.", session="s1", deps=desk.context())
        assert result.status is Status.WAITING
    with closing(desk.journal()) as journal:
        agent = open_both(journal, "Ok.")
        (question,) = await agent.questions("s1")
        assert isinstance(question, ApprovalQuestion)
        assert (question.agent, question.tool) == ("writer", "write_file")
        assert await agent.answer("s1", question.approve(by="ada"))
        assert (await agent.resume("s1", deps=desk.context())).output == "Ok."
    assert (desk.project / "a.txt").read_text() == "new\n"
