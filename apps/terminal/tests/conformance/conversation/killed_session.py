"""A session with five tools that is killed by SIGKILL around one record of its journal or of its audit log.

It then goes on in another process.

Run as a program, it loads everything once and forks a process for each part of each session:

    python -m apps.terminal.tests.conformance.conversation.killed_session FOLDER STEP

It prints one JSON line for each session.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adh.conversation.conversation import Conversation, OpenQuestion
from adh.storage.audit_log import AuditEntry, AuditLog
from adh.transcript.blocks import ToolBlock
from adh.workspace.assembly import WorkspaceOptions, open_workspace
from holdfast import PermissionQuestion, SqliteJournal, ToolCall
from holdfast.testing import ScriptedModel

CALLS = (
    ("read_file", {"file_path": "a.txt"}),
    ("create_directory", {"directory": "made"}),
    ("write_file", {"file_path": "b.txt", "content": "new\n"}),
    ("execute_command", {"command": "echo ran >> log.txt"}),
    ("delete_file", {"file_path": "a.txt", "confirm": True}),
)
MOST_RECORDS = 500
SECONDS = 60


def make_model() -> ScriptedModel:
    """Return a model that makes the next call in each reply, by what it reads, and then answers."""

    def reply(request: Any) -> Any:
        made = sum(1 for message in request.messages if message.role == "tool")
        if made == len(CALLS):
            return "All done."
        name, arguments = CALLS[made]
        return ToolCall(f"c{made}", name, json.dumps(arguments))

    return ScriptedModel(*[reply] * (len(CALLS) + 1))


async def run_session(home: Path, session: str | None) -> dict[str, object]:
    """Begin a session, or go on with one, and approve all that is asked; returns what is shown at last."""
    model = make_model()
    options = WorkspaceOptions(
        project=home / "project",
        environ={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        keychain=False,
        open_model=lambda _alias: model,
    )

    def approve(asked: OpenQuestion) -> None:
        question = asked.question
        assert isinstance(question, PermissionQuestion)
        asyncio.get_running_loop().call_soon(lambda: conversation.answer(asked, question.approve()))

    async with open_workspace(options) as workspace:
        conversation = Conversation(workspace, session)
        conversation.on_question = approve
        await conversation.start()
        await conversation.wait_until_idle()
        if not conversation.transcript.blocks or session is None:
            conversation.send("Do it all.")
            await conversation.wait_until_idle()
        await conversation.close()
        blocks = conversation.transcript.blocks
        outcome = conversation.transcript.outcome
        return {
            "states": {one.name: one.state.value for one in blocks if isinstance(one, ToolBlock)},
            "answer": outcome.text if outcome is not None else "",
        }


def kill_at(log: str, record: int, *, before: bool) -> None:
    """Let this process be killed right before or right after it has saved its n-th record.

    Args:
        log: "journal" or "audit".
        record: which record of that log, from 1.
        before: whether it is killed before the record is saved.
    """
    saved = Counter[str]()

    def is_due() -> bool:
        saved["records"] += 1
        return saved["records"] == record

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    save, write = SqliteJournal.append, AuditLog.write

    async def append(self: SqliteJournal, *args: Any, **kwargs: Any) -> None:
        due = is_due()
        if due and before:
            die()
        await save(self, *args, **kwargs)
        if due:
            die()

    def write_line(self: AuditLog, entry: AuditEntry) -> None:
        due = is_due()
        if due and before:
            die()
        write(self, entry)
        if due:
            die()

    if log == "journal":
        SqliteJournal.append = append  # type: ignore[method-assign]
    else:
        AuditLog.write = write_line  # type: ignore[method-assign]


def run_in_fork(work: Callable[[], object]) -> int:
    """Run a function in a process of its own; returns its status, negative for the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(SECONDS)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def look_at(home: Path) -> dict[str, object]:
    """Return what is on the disk, and what the audit log says."""
    project = home / "project"
    log = project / "log.txt"
    entries = list(AuditLog(home / ".local/share/adh-cli/audit.log").read())
    return {
        "ran": log.read_text().split() if log.exists() else [],
        "made": (project / "made").is_dir(),
        "written": (project / "b.txt").exists(),
        "deleted": not (project / "a.txt").exists(),
        "begun": Counter(one.tool for one in entries if one.event == "decision"),
        "ended": Counter(one.tool for one in entries if one.event == "outcome"),
    }


def kill_and_go_on(home: Path, log: str, record: int, *, before: bool) -> dict[str, object] | None:
    """Kill a session around a record and finish it in another process; None if it ended before."""
    (home / "project").mkdir(parents=True)
    (home / "project" / "a.txt").write_text("old\n")

    def begin() -> None:
        kill_at(log, record, before=before)
        asyncio.run(run_session(home, None))

    status = run_in_fork(begin)
    if status != -signal.SIGKILL:
        return None
    sessions = sorted((home / ".local/share/adh-cli/sessions").iterdir())
    shown = home / "shown.json"
    go_on = run_in_fork(
        lambda: shown.write_text(json.dumps(asyncio.run(run_session(home, sessions[-1].name))))
    )
    found = json.loads(shown.read_text()) if go_on == 0 else {}
    return {
        "log": log,
        "record": record,
        "before": before,
        "status": go_on,
        **found,
        **look_at(home),
    }


def main() -> None:
    """Kill one session for each record, from the first to the last of both logs."""
    folder, step = Path(sys.argv[1]), int(sys.argv[2])
    for log in ("journal", "audit"):
        for record in range(1, MOST_RECORDS, step):
            found = [
                kill_and_go_on(folder / f"{log}-{record}-{before}", log, record, before=before)
                for before in (True, False)
            ]
            if None in found:
                break
            print(*map(json.dumps, found), sep="\n", flush=True)


if __name__ == "__main__":
    main()
