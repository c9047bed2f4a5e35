"""Undo: a turn is taken back with its changes of files, also when the program ends in the middle."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from apps.terminal.tests.conversation.desk import AT, make_workspace, talking

from adh.conversation.conversation import Conversation
from adh.conversation.undo import UndoError, UndoPlan
from adh.storage.call_context import CallContext
from adh.storage.changes import FileChange, make_change_id
from adh.storage.content_digest import ABSENT, digest_path
from adh.transcript.blocks import PersonBlock
from adh.workspace.workspace import Workspace
from holdfast import Tool, ToolCall, ToolContext, tool
from holdfast.testing import ScriptedModel


def _call(path: str, content: str) -> ToolCall:
    return ToolCall("w", "put", f'{{"path": "{path}", "content": "{content}"}}')


def _make_put(workspace: Workspace) -> Tool:
    """Return a tool that writes a file as the file tools do: the change is on disk before the write."""
    changes = workspace.parts.changes

    @tool(effect="write")
    def put(path: str, content: str, call: ToolContext[CallContext]) -> str:
        """Put a text into a file."""
        target = workspace.parts.places.project / path
        before = ABSENT
        if target.exists():
            descriptor = os.open(target, os.O_RDONLY)
            before = changes.save_content(call.deps.session, descriptor)
            os.close(descriptor)
        beside = target.with_suffix(".new")
        beside.write_text(content)
        changes.record(
            FileChange(
                id=make_change_id(),
                at=AT,
                session=call.deps.session,
                turn=call.turn,
                call=call.key,
                tool="put",
                path=str(target),
                before=before,
                after=digest_path(str(beside)),
                mode=0o644,
            )
        )
        beside.replace(target)
        return "written"

    return put


def _make(tmp_path: Path, *lines: object) -> Workspace:
    tools: list[Tool] = []
    workspace = make_workspace(tmp_path, ScriptedModel(*lines), tools)  # type: ignore[arg-type]
    tools.append(_make_put(workspace))
    return workspace


async def _say(conversation: Conversation, *texts: str) -> None:
    for text in texts:
        conversation.send(text)
    await conversation.wait_until_idle()


async def _plan(conversation: Conversation) -> UndoPlan:
    plan = await conversation.undo_preview()
    assert plan is not None
    return plan


def test_turns_are_undone_one_after_another_with_their_files(tmp_path: Path) -> None:
    async def talk() -> None:
        workspace = _make(tmp_path, _call("a", "one"), "Done.", _call("a", "two"), "Done.", "Hi.")
        file = workspace.parts.places.project / "a"
        async with talking(workspace) as conversation:
            assert await conversation.undo_preview() is None
            await _say(conversation, "Write one.", "Write two.")
            plan = await _plan(conversation)
            assert (plan.summary, plan.refusals) == ("Undo turn 2: Write two.", ())
            assert plan.files[0].diff.splitlines()[-2:] == ["-two", "+one"]
            assert await conversation.undo(plan) == (str(file),)
            assert file.read_text() == "one"

            plan = await _plan(conversation)
            assert (plan.summary, plan.files[0].action) == ("Undo turn 1: Write one.", "deleted")
            await conversation.undo(plan)
            assert not file.exists()
            assert await conversation.undo_preview() is None
            said = [one for one in conversation.transcript.blocks if isinstance(one, PersonBlock)]
            assert [block.undone for block in said] == [True, True]

            await _say(conversation, "Hello.")
            assert (await _plan(conversation)).summary == "Undo turn 5: Hello."
        audit = [(one.decision, one.decided_by) for one in workspace.parts.audit.read()]
        assert audit == [("undoing", "person"), ("undone", "person")] * 2

    asyncio.run(talk())


def test_a_file_that_somebody_changed_since_refuses_the_undo(tmp_path: Path) -> None:
    async def talk() -> None:
        workspace = _make(tmp_path, _call("a", "one"), "Done.")
        file = workspace.parts.places.project / "a"
        async with talking(workspace) as conversation:
            await _say(conversation, "Write one.")
            shown = await _plan(conversation)
            file.write_text("mine")
            with pytest.raises(UndoError, match="Something changed"):
                await conversation.undo(shown)
            plan = await _plan(conversation)
            assert len(plan.refusals) == 1
            with pytest.raises(UndoError, match="was changed by somebody else since"):
                await conversation.undo(plan)

            assert file.read_text() == "mine"
            assert (await _plan(conversation)).turn == 1

    asyncio.run(talk())


def test_an_undo_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    async def hang(_request: object) -> str:
        await asyncio.sleep(3_600)
        return "never"

    async def talk() -> None:
        workspace = _make(tmp_path, hang)
        async with talking(workspace) as conversation:
            conversation.send("one")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert conversation.is_running
            with pytest.raises(UndoError, match="in progress"):
                await conversation.undo_preview()

    asyncio.run(talk())


def test_an_undo_that_the_end_of_the_program_cut_is_finished_later(tmp_path: Path) -> None:
    async def begin() -> str:
        workspace = _make(tmp_path, _call("a", "one"), "Done.", _call("b", "two"), "Done.")
        async with talking(workspace) as conversation:
            await _say(conversation, "Write one.", "Write two.")
            plan = await _plan(conversation)
            # The program ends after the rewind was saved, and before a file was touched.
            opened = conversation._opened
            assert opened is not None
            await opened.agent.sessions.rewind(opened.id, plan.turn - 1)
            return conversation.session

    async def finish(session: str) -> None:
        workspace = _make(tmp_path)
        project = workspace.parts.places.project
        async with talking(workspace, session) as conversation:
            plan = await _plan(conversation)
            assert (plan.turn, plan.summary[:25]) == (0, "Finish the undo of turn 2")
            await conversation.undo(plan)

            assert sorted(path.name for path in project.iterdir()) == ["a"]
            assert (await _plan(conversation)).summary == "Undo turn 1: Write one."

    asyncio.run(finish(asyncio.run(begin())))


def test_what_was_left_over_is_not_undone_together_with_a_turn_that_counts(tmp_path: Path) -> None:
    async def talk() -> None:
        workspace = _make(tmp_path, _call("a", "one"), "Done.", _call("a", "two"), "Done.")
        async with talking(workspace) as conversation:
            await _say(conversation, "Write one.")
            opened = conversation._opened
            assert opened is not None
            await opened.agent.sessions.rewind(opened.id, 0)
            await _say(conversation, "Write two.")

            assert (await _plan(conversation)).summary == "Undo turn 3: Write two."

    asyncio.run(talk())
