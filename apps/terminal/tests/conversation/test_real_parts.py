"""A conversation with everything real but the model: rules, checks, tools, stores, audit log."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apps.terminal.tests.conversation.desk import until

from adh.agents.agent_file import AgentFileError
from adh.approval.question import ApprovalQuestion
from adh.conversation.conversation import Conversation, OpenQuestion
from adh.rules.yaml_tree import RulesError
from adh.transcript.blocks import AnswerBlock, NoteBlock, ToolBlock, ToolState
from adh.workspace.assembly import WorkspaceOptions, open_workspace
from adh.workspace.workspace import Workspace
from holdfast import ToolCall
from holdfast.testing import ScriptedModel


def _options(tmp_path: Path, *lines: Any, **fields: Any) -> WorkspaceOptions:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    model = ScriptedModel(*lines)
    return WorkspaceOptions(
        project=project,
        environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "USER": "ann"},
        keychain=False,
        open_model=lambda _alias: model,
        **fields,
    )


def _call(tool: str, **arguments: object) -> ToolCall:
    return ToolCall(f"call-{tool}", tool, json.dumps(arguments))


def _tools(conversation: Conversation) -> list[ToolBlock]:
    return [block for block in conversation.transcript.blocks if isinstance(block, ToolBlock)]


async def _converse(
    options: WorkspaceOptions,
    text: str,
    answer: Callable[[Conversation, OpenQuestion], object] | None = None,
    session: str | None = None,
) -> tuple[Conversation, Workspace]:
    async with open_workspace(options) as workspace:
        conversation = Conversation(workspace, session)
        if answer is not None:
            conversation.on_question = lambda asked: answer(conversation, asked) and None
        await conversation.start()
        conversation.send(text)
        await conversation.wait_until_idle()
        await conversation.close()
        return conversation, workspace


def _approve(conversation: Conversation, asked: OpenQuestion) -> object:
    question = asked.question
    assert isinstance(question, ApprovalQuestion)
    return asyncio.get_running_loop().call_soon(
        lambda: conversation.answer(asked, question.approve())
    )


def test_a_read_runs_at_once_and_a_write_is_asked_with_its_diff(tmp_path: Path) -> None:
    questions: list[ApprovalQuestion] = []

    def answer(conversation: Conversation, asked: OpenQuestion) -> object:
        assert isinstance(asked.question, ApprovalQuestion)
        questions.append(asked.question)
        return _approve(conversation, asked)

    options = _options(
        tmp_path,
        _call("read_file", file_path="a.txt"),
        _call("write_file", file_path="a.txt", content="new\n"),
        "Done.",
    )
    file = tmp_path / "project" / "a.txt"
    file.write_text("old\n")
    conversation, workspace = asyncio.run(_converse(options, "Change a.", answer))

    assert [block.state for block in _tools(conversation)] == [ToolState.SUCCESS] * 2
    assert file.read_text() == "new\n"
    assert [question.tool for question in questions] == ["write_file"]
    assert "-old" in questions[0].diff
    assert "+new" in questions[0].diff
    assert [block.level for block in _tools(conversation)] == ["automatic", "confirm"]
    decisions = [
        (one.tool, one.decided_by)
        for one in workspace.parts.audit.read()
        if one.event == "decision"
    ]
    assert ("write_file", "ann") in decisions or ("write_file", "person") in decisions
    assert {one.session for one in workspace.parts.audit.read()} == {conversation.session}


def test_a_denied_path_is_blocked_and_the_model_reads_why(tmp_path: Path) -> None:
    options = _options(tmp_path, _call("write_file", file_path="/etc/x", content="x"), "Then not.")
    conversation, _ = asyncio.run(_converse(options, "Write there.", _approve))

    (block,) = _tools(conversation)
    assert block.state is ToolState.BLOCKED
    assert "Action blocked by policy" in block.error
    assert conversation.transcript.outcome is not None
    assert conversation.transcript.outcome.text == "Then not."


def test_an_undo_gives_a_file_back_as_it_was(tmp_path: Path) -> None:
    options = _options(tmp_path, _call("write_file", file_path="a.txt", content="new\n"), "Done.")
    file = tmp_path / "project" / "a.txt"
    file.write_text("old\n")

    async def talk() -> None:
        async with open_workspace(options) as workspace:
            conversation = Conversation(workspace)
            conversation.on_question = lambda asked: _approve(conversation, asked) and None
            await conversation.start()
            conversation.send("Change a.")
            await conversation.wait_until_idle()
            assert file.read_text() == "new\n"
            plan = await conversation.undo_preview()
            assert plan is not None
            await conversation.undo(plan)
            await conversation.close()

    asyncio.run(talk())

    assert file.read_text() == "old\n"


def test_an_undo_takes_back_what_a_delegated_agent_wrote_in_its_turn(tmp_path: Path) -> None:
    file = tmp_path / "project" / "a.txt"

    def reply(request: Any) -> Any:
        results = sum(1 for message in request.messages if message.role == "tool")
        text = request.messages[-1].text
        if text == "Hello.":
            return "Hi."
        if text == "Delegate.":
            return _call("delegate_to_agent", agent="tester", task="Write it.")
        if text == "Write it.":
            return _call("write_file", file_path="a.txt", content="new\n")
        return f"Done after {results}."

    async def talk() -> list[str]:
        options = _options(tmp_path, *[reply] * 5)
        async with open_workspace(options) as workspace:
            conversation = Conversation(workspace)
            conversation.on_question = lambda asked: _approve(conversation, asked) and None
            await conversation.start()
            for text in ("Hello.", "Delegate."):
                conversation.send(text)
            await conversation.wait_until_idle()
            assert file.read_text() == "new\n"
            plan = await conversation.undo_preview()
            assert plan is not None
            assert (plan.turn, plan.files[0].action) == (2, "deleted")
            await conversation.undo(plan)
            await conversation.close()
            return [block.header for block in _tools(conversation)]

    headers = asyncio.run(talk())

    assert not file.exists()
    assert "write_file" in headers[1]
    assert "(via tester)" in headers[1]


def test_the_output_of_a_command_is_in_its_block_and_a_line_says_that_it_ran(
    tmp_path: Path,
) -> None:
    lines: list[str] = []

    async def talk() -> Conversation:
        options = _options(tmp_path, _call("execute_command", command="echo hi"), "Done.")
        async with open_workspace(options) as workspace:
            conversation = Conversation(workspace)
            conversation.on_notify = lines.append
            await conversation.start()
            conversation.send("Say hi.")
            await conversation.wait_until_idle()
            await conversation.close()
            return conversation

    (block,) = _tools(asyncio.run(talk()))

    assert (block.state, block.level) == (ToolState.SUCCESS, "notify")
    assert [(line.stream, line.text) for line in block.output] == [("stdout", "hi")]
    assert lines
    assert "execute_command" in lines[0]


def test_the_first_start_says_that_conversations_are_saved_and_the_second_does_not(
    tmp_path: Path,
) -> None:
    def notes(conversation: Conversation) -> list[str]:
        blocks = conversation.transcript.blocks
        return [block.text for block in blocks if isinstance(block, NoteBlock)]

    first, _ = asyncio.run(_converse(_options(tmp_path, "Hi."), "Hello."))
    second, _ = asyncio.run(_converse(_options(tmp_path, "Hi.", safety=False), "Hello."))

    assert "Conversations are saved on this computer" in notes(first)[0]
    assert notes(second) == ["⚠️  WARNING: Running with safety checks disabled!"]


def test_a_broken_file_of_rules_stops_the_start(tmp_path: Path) -> None:
    policies = tmp_path / ".config" / "adh-cli" / "policies"
    policies.mkdir(parents=True)
    (policies / "mine.yaml").write_text("mine: {a: {pattern: x, supervison: notify}}")

    with pytest.raises(RulesError, match=r"mine\.yaml:1"):
        asyncio.run(_converse(_options(tmp_path), "Hello."))


def test_a_file_of_rules_that_breaks_later_is_a_note(tmp_path: Path) -> None:
    policies = tmp_path / ".config" / "adh-cli" / "policies"
    policies.mkdir(parents=True)

    async def talk() -> list[str]:
        async with open_workspace(_options(tmp_path)) as workspace:
            conversation = Conversation(workspace)
            await conversation.start()

            def notes() -> list[str]:
                blocks = conversation.transcript.blocks
                texts = [block.text for block in blocks if isinstance(block, NoteBlock)]
                return [text for text in texts if text.startswith("The rules")]

            async with asyncio.timeout(60):
                while not notes():  # the watcher may not have begun yet
                    (policies / "mine.yaml").write_text("mine: {a: {pattern: x}}")
                    await asyncio.sleep(0.1)
            found = notes()
            await conversation.close()
            return found

    assert "The rules before this change still hold. policies/mine.yaml:1" in asyncio.run(talk())[0]


def test_an_agent_that_is_not_there_is_a_note_and_the_program_goes_on(tmp_path: Path) -> None:
    options = _options(tmp_path, "Hi.", agent="absent")
    conversation, _ = asyncio.run(_converse(options, "Hello."))

    assert "there is no agent 'absent'" in conversation.problem


def test_settings_that_name_what_is_not_there_change_nothing(tmp_path: Path) -> None:
    async def change() -> None:
        async with open_workspace(_options(tmp_path)) as workspace:
            with pytest.raises(AgentFileError, match="there is no agent"):
                workspace.change_settings({"agent": "absent"})
            with pytest.raises(AgentFileError, match="there is no model"):
                workspace.change_settings({"model": "absent"})
            workspace.change_settings({"model": "strong", "temperature": 0.5})
            assert (workspace.settings.model, workspace.settings.temperature) == ("strong", 0.5)

    asyncio.run(change())


def test_patterns_keep_texts_out_of_what_is_saved(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "adh-cli"
    config.mkdir(parents=True)
    (config / "config.json").write_text('{"session": {"redact_patterns": ["X-[0-9]+"]}}')
    file = tmp_path / "project" / "a.txt"
    options = _options(tmp_path, _call("read_file", file_path="a.txt"), "It is X-3.")
    file.write_text("key X-2\n")
    conversation, workspace = asyncio.run(_converse(options, "My key is X-1."))

    saved = (workspace.parts.places.journals / conversation.session / "journal.db").read_bytes()
    assert not any(text in saved for text in (b"X-1", b"X-2", b"X-3"))
    texts = [one.text for one in conversation.transcript.blocks if isinstance(one, AnswerBlock)]
    assert texts == ["It is [redacted]."]


def test_a_session_with_a_limit_of_tokens_stops(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "adh-cli"
    config.mkdir(parents=True)
    (config / "config.json").write_text('{"session": {"token_limit": 10}}')

    async def talk() -> str:
        async with open_workspace(_options(tmp_path, "One.", "Two.")) as workspace:
            conversation = Conversation(workspace)
            await conversation.start()
            for text in ("one", "two"):
                conversation.send(text)
            await conversation.wait_until_idle()
            await conversation.close()
            assert conversation.transcript.outcome is not None
            return conversation.transcript.outcome.kind.value

    assert asyncio.run(talk()) == "limit"


def test_the_question_of_a_killed_program_comes_again(tmp_path: Path) -> None:
    write = _call("write_file", file_path="a.txt", content="new\n")
    file = tmp_path / "project" / "a.txt"

    async def begin() -> str:
        async with open_workspace(_options(tmp_path, write)) as workspace:
            conversation = Conversation(workspace)
            asked: list[OpenQuestion] = []
            conversation.on_question = asked.append
            await conversation.start()
            conversation.send("Write a.")
            await until(lambda: bool(asked))
            await conversation.close()
            return conversation.session

    async def go_on(session: str) -> Conversation:
        async with open_workspace(_options(tmp_path, "Done.")) as workspace:
            conversation = Conversation(workspace, session)
            conversation.on_question = lambda asked: _approve(conversation, asked) and None
            await conversation.start()
            await conversation.wait_until_idle()
            await conversation.close()
            return conversation

    session = asyncio.run(begin())
    assert not file.exists()
    conversation = asyncio.run(go_on(session))

    assert file.read_text() == "new\n"
    assert [block.state for block in _tools(conversation)] == [ToolState.SUCCESS]


def test_a_clock_that_jumps_changes_no_answer_and_deletes_nothing(tmp_path: Path) -> None:
    start = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
    jumps = itertools.cycle((timedelta(), timedelta(days=-400), timedelta(hours=9)))
    options = _options(
        tmp_path,
        _call("write_file", file_path="a.txt", content="a"),
        _call("execute_command", command="ls"),
        "Done.",
        now=lambda: start + next(jumps),
    )
    conversation, _ = asyncio.run(_converse(options, "Go.", _approve))
    assert [block.state for block in _tools(conversation)] == [ToolState.SUCCESS] * 2
    assert (tmp_path / "project" / "a.txt").read_text() == "a"
    again, _ = asyncio.run(_converse(options, "And again.", session=conversation.session))
    assert again.transcript.turn == 2


def test_the_cost_is_that_of_the_alias(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "adh-cli"
    config.mkdir(parents=True)
    (config / "model_aliases.json").write_text(
        '{"mine": {"model_id": "test:m", "price": {"input": 2000000, "output": 1000000}}}'
    )
    conversation, _ = asyncio.run(_converse(_options(tmp_path, "Hello.", model="mine"), "Hi."))
    usage = conversation.transcript.usage
    assert conversation.transcript.cost == pytest.approx(2 * usage.input + usage.output)
    unknown, _ = asyncio.run(_converse(_options(tmp_path, "Hello.", model="test:m"), "Hi."))
    assert unknown.transcript.cost is None
