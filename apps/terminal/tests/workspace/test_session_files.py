"""Saved conversations: two programs, damage, deletion, retention."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adh.workspace.session_files import SessionError, SessionFacts, SessionFiles
from holdfast import Agent, SqliteJournal
from holdfast.testing import ScriptedModel

FACTS = SessionFacts(project="/p", agent="orchestrator", created_at=1.0)

HOLDER = """
import sys
from holdfast import SqliteJournal
journal = SqliteJournal(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return SessionFiles(tmp_path / "sessions")


def _talk(journal: SqliteJournal, session: str, text: str = "Hello") -> None:
    with journal:
        asyncio.run(Agent(ScriptedModel("Hi."), journal=journal).run(text, session=session))


def test_a_conversation_is_listed_by_its_folder_newest_first(files: SessionFiles) -> None:
    for session, project in (("a", "/p"), ("b", "/other"), ("c", "/p")):
        facts = SessionFacts(project=project)
        _talk(files.create(session, facts), session, f"In {session}")
    rows = asyncio.run(files.list_rows(project="/p"))

    assert [row.id for row in rows] == ["c", "a"]
    assert rows[0].info is not None
    assert (rows[0].info.title, rows[0].info.turns) == ("In c", 1)
    assert asyncio.run(files.find_latest("/p")) == "c"
    assert asyncio.run(files.find_latest("/nowhere")) is None


def test_ids_sort_by_time_and_differ(files: SessionFiles) -> None:
    at = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)

    assert files.make_id(at).startswith("20260314-150926-")
    assert files.make_id(at) != files.make_id(at)


@pytest.mark.slow  # starts a process
def test_a_conversation_that_another_process_has_open_is_told_and_still_listed(
    files: SessionFiles, tmp_path: Path
) -> None:
    _talk(files.create("a", FACTS), "a")
    path = tmp_path / "sessions" / "a" / "journal.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(SessionError, match="is open in another adh"):
            files.open("a")
        with pytest.raises(SessionError, match="is open in another adh"):
            files.delete("a")
        rows = asyncio.run(files.list_rows())
        assert [row.id for row in rows] == ["a"]
        _talk(files.create("b", FACTS), "b")
        holder.stdin.close()
    with files.open("a"):
        assert files.exists("b")


@pytest.mark.parametrize("session", ["../x", "", ".", "a/b", "a" * 200, "a\n"])
def test_an_id_never_leads_out_of_the_folder(files: SessionFiles, session: str) -> None:
    assert not files.exists(session)
    with pytest.raises(SessionError):
        files.open(session)
    with pytest.raises(SessionError):
        files.delete(session)
    with pytest.raises(SessionError):
        files.create(session, FACTS)


def test_a_damaged_journal_is_listed_with_its_problem(files: SessionFiles, tmp_path: Path) -> None:
    _talk(files.create("a", FACTS), "a")
    (tmp_path / "sessions" / "a" / "journal.db").write_bytes(b"no database" * 1_000)
    (row,) = asyncio.run(files.list_rows())

    assert row.info is None
    assert row.problem
    with pytest.raises(SessionError):
        files.open("a")


def test_deleting_leaves_nothing(files: SessionFiles, tmp_path: Path) -> None:
    _talk(files.create("a", FACTS), "a")
    files.delete("a")

    assert list((tmp_path / "sessions").iterdir()) == []
    with pytest.raises(SessionError, match="does not exist"):
        files.delete("a")


def test_a_conversation_without_a_word_is_discarded_and_one_with_words_is_not(
    files: SessionFiles,
) -> None:
    files.create("empty", FACTS).close()
    _talk(files.create("full", FACTS), "full")
    for session in ("empty", "full", "absent"):
        asyncio.run(files.discard_empty(session))

    assert files.list_ids() == ("full",)


def test_old_conversations_are_deleted_but_not_one_whose_turn_is_open(files: SessionFiles) -> None:
    async def leave_open(journal: SqliteJournal) -> None:
        with journal:
            agent = Agent(ScriptedModel("never"), journal=journal)
            run = agent.stream("Hello", session="open")
            async with run:
                async for _ in run:
                    await run.leave_open(grace=0.0)
                    break

    _talk(files.create("old", FACTS), "old")
    asyncio.run(leave_open(files.create("open", FACTS)))
    now = datetime.now(UTC).timestamp()

    assert asyncio.run(files.prune(30, now + 29 * 86_400)) == ()
    assert asyncio.run(files.prune(30, now + 31 * 86_400)) == ("old",)
    assert files.list_ids() == ("open",)


def test_only_the_person_may_read_a_conversation(files: SessionFiles, tmp_path: Path) -> None:
    _talk(files.create("a", FACTS), "a")
    folder = tmp_path / "sessions" / "a"

    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir()}
    assert set(modes.values()) == {0}, modes
