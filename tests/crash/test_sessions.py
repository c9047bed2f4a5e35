"""A session continues after its process was killed, also in the middle of a tool."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.core.batch import IN_DOUBT_TEXT
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, ToolResult
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

pytestmark = pytest.mark.slow  # kills processes

ROOT = Path(__file__).parents[2]


def talker(folder: Path, plan: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.crash.session_process",
            str(folder / "talk.db"),
            str(folder),
            plan,
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def said(folder: Path, plan: str) -> str:
    with talker(folder, plan) as process:
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    return out.strip()


def history(folder: Path) -> list[Message]:
    machine = SessionMachine()
    with SqliteJournal(folder / "talk.db") as journal:
        for record in asyncio.run(journal.read("ada")):
            machine.apply(record.event)
    return list(machine.transcript)


def test_a_new_process_continues_the_conversation(tmp_path: Path) -> None:
    assert said(tmp_path, "plain") == "Hello, Ada."
    assert said(tmp_path, "again") == (
        "user: prompt plain | assistant: Hello, Ada. | user: prompt again"
    )


def kill_when(process: subprocess.Popen[str], ready: object) -> None:
    deadline = time.monotonic() + 60
    try:
        while not ready():  # type: ignore[operator]
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def killed_in_a_tool(tmp_path: Path) -> Path:
    ran = tmp_path / "ran"
    log = tmp_path / "talk.db-wal"
    process = talker(tmp_path, "tools")
    # Both tools ran, and the outcome of the quick one is in the log.
    kill_when(
        process,
        lambda: ran.exists() and "slow" in ran.read_text() and b"booked Porto" in log.read_bytes(),
    )
    return tmp_path


def test_after_a_kill_in_a_tool_the_session_continues_and_no_tool_runs_twice(
    killed_in_a_tool: Path,
) -> None:
    answer = said(killed_in_a_tool, "again")
    assert "tool: booked Porto" in answer
    assert IN_DOUBT_TEXT.format(name="slow") in answer
    assert answer.endswith("user: prompt again")
    assert (killed_in_a_tool / "ran").read_text() == "quick\nslow\n"
    messages = history(killed_in_a_tool)
    assert [message.role for message in messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    results = [part for part in messages[2].parts if isinstance(part, ToolResult)]
    assert [(result.call_id, result.is_error) for result in results] == [("a", False), ("b", True)]


def test_a_second_kill_has_no_further_effect(killed_in_a_tool: Path) -> None:
    # The next process is killed too, in the tools of its own turn.
    ran = killed_in_a_tool / "ran"
    kill_when(talker(killed_in_a_tool, "tools"), lambda: ran.read_text().count("slow") == 2)
    answer = said(killed_in_a_tool, "again")
    assert answer.count(IN_DOUBT_TEXT.format(name="slow")) == 2
    assert ran.read_text().count("quick") == 2


def test_the_turn_itself_can_be_resumed_and_no_tool_runs_twice(killed_in_a_tool: Path) -> None:
    answer = said(killed_in_a_tool, "resume")
    assert "unknown" in answer
    assert answer.startswith("user: prompt tools | assistant: calls quick | assistant: calls slow")
    assert "tool: booked Porto" in answer
    assert (killed_in_a_tool / "ran").read_text() == "quick\nslow\n"
    assert history(killed_in_a_tool)[-1].role == "assistant"
