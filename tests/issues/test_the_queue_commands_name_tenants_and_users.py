"""Commands of the queue: the tenant without a name is one tenant, and a user may have no name."""

from __future__ import annotations

import asyncio
import getpass
from pathlib import Path

import pytest
from tests.journal.inbox.queued_turns import make_submission

from holdfast import MemoryJournal, SqliteJournal
from holdfast.cli.main import main
from holdfast.cli.options import name_user
from holdfast.cli.queue_command import count_of_scope
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.opening_inbox import open_inbox

READY = (EntryState.READY,)


@pytest.mark.parametrize(
    ("scope", "count"),
    [
        ("all", 6),
        ("tenant", 6),
        ("tenant:", 1),
        ("tenant:acme", 2),
        ("agent:cook", 5),
        ("agent:nobody", 0),
    ],
)
async def test_a_scope_has_the_turns_of_its_tenants_or_of_its_agent(scope: str, count: int) -> None:
    inbox = open_inbox(MemoryJournal())
    for number, tenant in enumerate(["", "acme", "acme", "b", "b", "b"]):
        agent = "baker" if number == 0 else "cook"
        turn = make_submission(f"s{number}", f"r{number}", tenant=tenant, agent=agent)
        await inbox.submit(turn)
    assert await count_of_scope(inbox, scope, READY) == count


async def test_a_request_is_one_turn_whoever_submits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path / 'talk.db'}"
    words = ["submit", "greeter", "Hi.", "--journal", address, "--request", "r1"]
    for user in ("ann", "ben"):
        monkeypatch.setenv("LOGNAME", user)
        assert await asyncio.to_thread(main, words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    with SqliteJournal(tmp_path / "talk.db") as journal:
        (entry,) = await open_inbox(journal).list_entries()
    assert entry.made_by == "cli:ann"


def test_a_user_without_a_name_may_use_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", find_none)
    assert name_user() == "cli"
