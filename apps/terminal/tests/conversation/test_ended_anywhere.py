"""The program ends after any record of a session with five tools: nothing runs twice, and nothing is missing."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from adh.conversation.conversation import Conversation, OpenQuestion
from adh.storage.audit_log import AuditLog
from adh.transcript.blocks import ToolBlock, ToolState
from adh.workspace.assembly import WorkspaceOptions, open_workspace
from holdfast import PermissionQuestion, ToolCall
from holdfast.journal import backup_file
from holdfast.testing import ScriptedModel

CALLS = (
    ("read_file", {"file_path": "a.txt"}),
    ("create_directory", {"directory": "made"}),
    ("write_file", {"file_path": "made/b.txt", "content": "new\n"}),
    ("execute_command", {"command": "echo ran >> log.txt"}),
    ("delete_file", {"file_path": "a.txt", "confirm": True}),
)


def _script(begin: int = 0) -> ScriptedModel:
    """Return a model that makes one call in each reply, and then answers."""

    def reply(request: Any) -> Any:
        made = sum(1 for message in request.messages if message.role == "tool")
        if made == len(CALLS):
            return "All done."
        name, arguments = CALLS[made]
        return ToolCall(f"c{made}", name, json.dumps(arguments))

    return ScriptedModel(*[reply] * (len(CALLS) + 1 - begin))


def _options(home: Path) -> WorkspaceOptions:
    model = _script()
    return WorkspaceOptions(
        project=home / "project",
        environ={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        keychain=False,
        open_model=lambda _alias: model,
    )


class _Snapshots:
    """Copies the home folder after each item: as it would be if the program had ended there."""

    def __init__(self, home: Path, target: Path) -> None:
        self._home = home
        self._target = target
        self._records = -1
        self.copies: list[Path] = []

    def take(self, conversation: Conversation) -> None:
        """Copy the journal first: a tool begins only when the loop goes on, which this call holds."""
        copy = self._target / f"{len(self.copies)}"
        journal = Path(".local/share/adh-cli/sessions") / conversation.session / "journal.db"
        beside = self._target / "journal.db"
        records = backup_file(self._home / journal, beside).records
        if records == self._records:
            beside.unlink()
            return
        self._records = records
        ignored = shutil.ignore_patterns("journal.db*")
        shutil.copytree(self._home, copy, ignore=ignored)
        beside.rename(copy / journal)
        self.copies.append(copy)


def _approve(conversation: Conversation, asked: OpenQuestion) -> None:
    question = asked.question
    assert isinstance(question, PermissionQuestion)
    asyncio.get_running_loop().call_soon(lambda: conversation.answer(asked, question.approve()))


async def _run_whole(home: Path, snapshots: _Snapshots) -> str:
    async with open_workspace(_options(home)) as workspace:
        conversation = Conversation(workspace)
        conversation.on_question = lambda asked: _approve(conversation, asked)
        await conversation.start()
        conversation.on_change = lambda _ids: snapshots.take(conversation)
        conversation.send("Do it all.")
        await conversation.wait_until_idle()
        await conversation.close()
        return conversation.session


async def _go_on(home: Path, session: str) -> Conversation:
    async with open_workspace(_options(home)) as workspace:
        conversation = Conversation(workspace, session)
        conversation.on_question = lambda asked: _approve(conversation, asked)
        await conversation.start()
        await conversation.wait_until_idle()
        if not conversation.transcript.blocks:
            conversation.send("Do it all.")
            await conversation.wait_until_idle()
        await conversation.close()
        return conversation


@pytest.mark.slow  # ends the program at every record
def test_no_tool_runs_twice_and_none_is_missing_wherever_the_program_ends(tmp_path: Path) -> None:
    home, copies = tmp_path / "home", tmp_path / "copies"
    (home / "project").mkdir(parents=True)
    copies.mkdir()
    (home / "project" / "a.txt").write_text("old\n")
    snapshots = _Snapshots(home, copies)
    session = asyncio.run(_run_whole(home, snapshots))
    assert len(snapshots.copies) > 2 * len(CALLS)

    for copy in snapshots.copies:
        conversation = asyncio.run(_go_on(copy, session))
        tools = [one for one in conversation.transcript.blocks if isinstance(one, ToolBlock)]
        assert [block.name for block in tools] == [name for name, _ in CALLS], copy
        states = {block.state for block in tools}
        assert states <= {ToolState.SUCCESS, ToolState.IN_DOUBT}, (copy, tools)
        log = copy / "project" / "log.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        ran = lines == ["ran"]
        assert ran or (lines == [] and tools[3].state is ToolState.IN_DOUBT), copy
        assert conversation.transcript.outcome is not None
        assert conversation.transcript.outcome.text == "All done."
        audit = AuditLog(copy / ".local/share/adh-cli/audit.log")
        written = Counter(entry.tool for entry in audit.read() if entry.event == "decision")
        # A call that is in doubt and not in the log never began.
        begun = {block.name for block in tools if block.state is ToolState.SUCCESS}
        assert set(written) >= begun | ({"execute_command"} if ran else set()), copy
