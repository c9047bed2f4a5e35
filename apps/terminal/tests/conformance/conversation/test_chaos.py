"""Twenty turns with a provider of which 30 % of the responses fail: all end right, and no secret is seen."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from random import Random

import pytest

from adh.approval.question import ApprovalQuestion
from adh.conversation.conversation import Conversation, OpenQuestion
from adh.storage.audit_log import AuditLog
from adh.transcript.blocks import ToolBlock, ToolState
from adh.workspace.assembly import WorkspaceOptions, open_workspace
from holdfast import ToolCall
from holdfast.models import ModelAt
from holdfast.testing.emulator import EmulatedRequest, Emulator, Fault, HttpStatus, call, chaos

# Starts no processes, so that it may run beside those that do.
pytestmark = pytest.mark.xdist_group("conversations")

KEY = "sk-emulated-key-4c1f9a7be2d04e65"
"""The key that the program sends. Some errors of the provider repeat it."""
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
"""A token that a file of the project holds; the person lets the model read it."""
TURNS = 20
SHARE = 0.3
SEED = int(os.environ.get("HOLDFAST_SEED", "20"))
LEAK = HttpStatus(
    503, body={"error": {"message": f"The key {KEY} is busy.", "type": "server_error"}}
)
LAST_TOOLS = ("read_file", "write_file", "execute_command", "list_directory", "")
"""What the turns do, in turn."""


def reply(request: EmulatedRequest) -> str | ToolCall:
    """Make one call in each turn, and answer when its result is there."""
    number = int(request.text.removeprefix("Turn "))
    tool = LAST_TOOLS[number % len(LAST_TOOLS)]
    if request.iteration or not tool:
        return f"Answer {number}."
    arguments: dict[str, dict[str, object]] = {
        "read_file": {"file_path": "notes.txt"},
        "write_file": {"file_path": f"{number}.txt", "content": f"{number}\n"},
        "execute_command": {"command": f"echo {number} >> log.txt"},
        "list_directory": {"directory": "."},
    }
    return call(tool, arguments[tool])


def fail(request: EmulatedRequest) -> Fault | None:
    """Fail as `chaos` does, and now and then with an error that repeats the key."""
    fault = chaos(seed=SEED, share=SHARE)(request)
    return LEAK if fault is not None and Random(request.number).random() < 0.2 else fault


class Watcher:
    """Approves what is asked, and remembers all that a person is shown."""

    def __init__(self) -> None:
        self.conversation: Conversation | None = None
        self.shown: set[str] = set()

    def watch(self, conversation: Conversation) -> None:
        """Listen to a conversation."""
        self.conversation = conversation
        conversation.on_question = self.approve
        conversation.on_change = lambda _ids: self.note(conversation)
        conversation.on_notify = self.shown.add

    def note(self, conversation: Conversation) -> None:
        """Remember the status line, and the problem."""
        self.shown |= {conversation.transcript.status, conversation.problem}

    def approve(self, asked: OpenQuestion) -> None:
        """Say yes."""
        question, conversation = asked.question, self.conversation
        assert isinstance(question, ApprovalQuestion)
        assert conversation is not None
        self.shown.add(repr(question))
        asyncio.get_running_loop().call_soon(lambda: conversation.answer(asked, question.approve()))


async def converse(home: Path, provider: Emulator, watcher: Watcher) -> Conversation:
    """Have the whole session; returns it closed."""
    options = WorkspaceOptions(
        project=home / "project",
        environ={"HOME": str(home), "PATH": "/usr/bin:/bin", "OPENAI_API_KEY": KEY},
        keychain=False,
        open_model=lambda _alias: ModelAt(
            "openai:emulated-model", base_url=provider.base_url, api_key=KEY
        ),
    )
    async with open_workspace(options) as workspace:
        conversation = Conversation(workspace)
        watcher.watch(conversation)
        await conversation.start()
        for number in range(1, TURNS + 1):
            conversation.send(f"Turn {number}")
            await conversation.wait_until_idle()
            outcome = conversation.transcript.outcome
            assert outcome is not None
            assert (outcome.kind.value, outcome.text) == ("done", f"Answer {number}."), outcome
        watcher.shown |= {repr(block) for block in conversation.transcript.blocks}
        await conversation.export()
        await conversation.close()
        return conversation


@pytest.mark.timeout(300)
def test_a_session_of_twenty_turns_ends_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text(f"token: {TOKEN}\n")
    watcher = Watcher()
    with Emulator(reply, faults=fail) as provider:
        conversation = asyncio.run(converse(tmp_path, provider, watcher))
        failed = [entry for entry in provider.requests if entry.faults]

    by_tool = {
        tool: [number for number in range(1, TURNS + 1) if LAST_TOOLS[number % 5] == tool]
        for tool in LAST_TOOLS
    }
    blocks = [one for one in conversation.transcript.blocks if isinstance(one, ToolBlock)]
    assert [block.state for block in blocks] == [ToolState.SUCCESS] * (TURNS - len(by_tool[""]))
    assert (project / "log.txt").read_text().split() == [
        str(number) for number in by_tool["execute_command"]
    ]
    assert sorted(path.name for path in project.glob("[0-9]*.txt")) == sorted(
        f"{number}.txt" for number in by_tool["write_file"]
    )
    audit = list(AuditLog(tmp_path / ".local/share/adh-cli/audit.log").read())
    assert sum(entry.event == "outcome" for entry in audit) == len(blocks)
    assert len(failed) > TURNS * SHARE / 2
    assert any(LEAK in entry.faults for entry in failed)
    assert any("again" in text or "⏳" in text for text in watcher.shown)
    seen = [*watcher.shown, caplog.text]
    assert not [text for text in seen if KEY in text]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    logs = [path for path in files if path.name in ("audit.log", "adh.log")]
    assert not [path for path in [*logs] if TOKEN.encode() in path.read_bytes()]
    statuses = [text for text in watcher.shown if not text.startswith("ToolBlock")]
    assert not [text for text in statuses if TOKEN in text]
