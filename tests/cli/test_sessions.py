"""`holdfast sessions` as a process: its arguments, its output and its exit status."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import holdfast
from tests.journal.inbox.queued_turns import make_worker

from holdfast import Agent, PermissionQuestion, SqliteJournal, ToolPermission, tool
from holdfast.cli.chat_commands import _save_conversation
from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.core.messages import ToolCall, user
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is sunny"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "talk.db"

    async def talk() -> None:
        with SqliteJournal(file) as journal:
            clock = FakeClock(1_700_000_000.0)
            call = ToolCall("c", "look", '{"place": "Porto"}')
            model = ScriptedModel("Hello\x1b[2J, Ada!", call, "Sunny.", "Bye.")
            agent = Agent(model, tools=[look], journal=journal, clock=clock)
            for prompt in ("I am Ada.", "Weather\nin Porto?", "Thanks"):
                await agent.run(prompt, session="ada")
                clock.advance(60)
            await Agent(ScriptedModel("Hi"), journal=journal, clock=clock).run("Hi", session="bob")

    asyncio.run(talk())
    return file


def run(*words: object, said: str = "") -> tuple[int, str, str]:
    done = holdfast("sessions", *map(str, words), said=said)
    assert "Traceback" not in done.stderr, done.stderr
    assert not {"\x1b", "\x9b"} & set(done.stdout + done.stderr)
    return done.returncode, done.stdout, done.stderr


def out(*words: object, said: str = "") -> str:
    status, text, err = run(*words, said=said)
    assert status == 0, err
    return text


def test_list_shows_the_latest_first_and_in_pages(path: Path) -> None:
    first, second = out("list", path).splitlines()
    assert first == "2023-11-14 22:16:20Z  closed       1 turn      2 messages  bob  Hi"
    assert second.startswith(
        "2023-11-14 22:15:20Z  closed      3 turns      8 messages  ada  I am Ada"
    )
    assert out("list", path, "--limit", 1) == first + "\n"
    assert out("list", path, "--before", "bob") == second + "\n"


def test_show_gives_the_numbers_and_what_was_said(path: Path) -> None:
    text = out("show", path, "ada")
    assert "   2  2023-11-14 22:14:20Z  completed: Weather in Porto?" in text
    assert 'you: Weather\nin Porto?\n[calls look with {"place": "Porto"}]\n[1 result]\n' in text


def test_search_names_session_and_effect(path: Path) -> None:
    (line,) = out("search", path, "PORTO is").splitlines()
    assert line.endswith("ada  t2.i0.tool.0  tool: Porto is sunny")
    assert run("search", path, "nowhere") == (1, "", "the text was not found\n")


def test_a_rewind_can_be_undone(path: Path) -> None:
    assert out("rewind", path, "ada", 1) == "rewound to 1; `rewind` to 3 undoes this\n"
    shown = out("show", path, "ada")
    assert "completed (rewound): Thanks" in shown
    assert "went back to 1" in shown
    assert "you: Thanks" not in shown
    out("rewind", path, "ada", 3)
    assert "you: Thanks" in out("show", path, "ada")


@pytest.mark.slow  # starts a program or a server
def test_fork_names_the_new_session(path: Path) -> None:
    assert out("fork", path, "ada", 2, "--to", "other") == "other\n"
    assert "you: Thanks" not in out("show", path, "other")
    name = out("fork", path, "ada").strip()
    assert "you: Thanks" in out("show", path, name)
    status, _, err = run("fork", path, "ada", "--to", "bob")
    assert status == 2
    assert "the session 'bob' already exists" in err


def test_rename_changes_what_the_list_shows(path: Path) -> None:
    assert out("rename", path, "ada", "Trip to\x1b[31m Porto") == ""
    assert out("list", path).splitlines()[1].endswith("ada  Trip to\\x1b[31m Porto")


def test_compact_reports_what_it_replaced(path: Path) -> None:
    text = out("compact", path, "ada", "--keep", 1, "--summary", "Ada asked for the weather.")
    assert text == "compacted; `rewind` to 3 undoes this\n"
    assert "agent: Ada asked for the weather." in out("show", path, "ada")
    assert run("compact", path, "ada", "--drop")[0] == 1
    assert run("compact", path, "ada")[0] == 2, "either a text or none must be wanted"


@pytest.mark.slow  # starts a program or a server
def test_delete_asks_first(path: Path) -> None:
    for answer in ("", "no\n", "y\n"):
        status, text, err = run("delete", path, "ada", said=answer)
        assert (status, text) == (1, "")
        assert "Delete ada (I am Ada., 3 turns) permanently?" in err
        assert "Nothing was deleted." in err
    assert b"I am Ada." in path.read_bytes()
    assert out("delete", path, "ada", said="yes\n") == "12 records deleted\n"
    assert b"I am Ada." not in path.read_bytes()
    assert out("delete", path, "bob", "--yes") == "3 records deleted\n"
    assert out("list", path) == ""


@pytest.mark.slow  # starts a program or a server
def test_export_and_import(path: Path, tmp_path: Path) -> None:
    text = out("export", path, "ada")
    file, other = tmp_path / "ada.jsonl", tmp_path / "other.db"
    out("export", path, "ada", "-o", file)
    assert file.read_text("utf-8") == text
    assert run("export", path, "ada", "-o", file)[0] == 2, "nothing is overwritten"
    assert out("import", other, file) == "ada\n"
    assert out("import", other, "-", "--to", "again", said=text) == "again\n"
    assert out("show", other, "again") == out("show", path, "ada")
    status, _, err = run("import", other, file)
    assert (status, "already" in err) == (2, True)


def test_import_leaves_turns_open_only_if_it_is_told(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("bob", TurnOpened("t2", 1_700_000_300.0, user("And?"))))
    text, other = out("export", path, "bob"), tmp_path / "other.db"
    out("import", other, "-", "--to", "history", said=text)
    out("import", other, "-", "--to", "moved", "--open-turns", said=text)
    with SqliteJournal(other) as journal:
        entries = asyncio.run(journal.runs(turn_open=True))
    assert [entry.run for entry in entries] == ["moved"]


@pytest.mark.slow  # starts a program or a server
def test_import_names_the_damaged_line(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "ada.jsonl"
    lines = out("export", path, "ada").splitlines(keepends=True)
    for damaged in (
        [*lines[:2], lines[2].replace("closed", "opened"), *lines[3:]],
        [*lines[:2], "\udcff\n", *lines[3:]],
        [*lines[:2], *lines[3:]],
        lines[:2],
    ):
        file.write_bytes("".join(damaged).encode("utf-8", "surrogateescape"))
        status, _, err = run("import", path, file, "--to", "x")
        assert status == 1
        assert "line 3" in err
    assert "x" not in out("list", path).split()


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "PATH", "nobody"], "there is no session 'nobody'"),
        (["rewind", "PATH", "ada", "9"], "from 0 to 3"),
        (["rename", "PATH", "nobody", "x"], "there is no session 'nobody'"),
        (["rename", "PATH", "ada", " "], "not empty"),
        (["delete", "PATH", "nobody", "--yes"], "there is no session 'nobody'"),
        (["list", "nowhere.db"], "there is no file nowhere.db"),
        (["list", "PATH", "--limit", "0"], "at least 1"),
        (["search", "PATH", " "], "text"),
        (["fork", "PATH", "ada", "9"], "from 1 to 3"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_status(path: Path, words: list[str], said: str) -> None:
    status, text, err = run(*(path if word == "PATH" else word for word in words))
    assert (status, text) == (2, "")
    assert said in err.splitlines()[-1]


def test_a_file_that_is_missing_is_not_created(tmp_path: Path) -> None:
    run("list", tmp_path / "no.db")
    run("import", tmp_path / "yes.db", tmp_path / "no.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_an_address_can_replace_a_path(path: Path) -> None:
    assert out("list", f"sqlite:///{path}") == out("list", path)


@pytest.mark.slow  # starts a program or a server
def test_a_change_of_a_file_that_somebody_has_open_is_refused(path: Path) -> None:
    with SqliteJournal(path):
        status, _, err = run("rename", path, "ada", "Ada")
    assert status == 1
    assert f"open in process {os.getpid()}, started " in err


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("is_queued", [False, True])
def test_abandon_closes_an_open_turn_whether_it_is_queued_or_not(
    tmp_path: Path, is_queued: bool
) -> None:
    file = tmp_path / "open.db"

    async def leave_open() -> None:
        with SqliteJournal(file) as journal:
            if is_queued:
                await Agent(ScriptedModel(), name="desk", journal=journal).submit(
                    "Hi.", session="ada", request="r1"
                )
                inbox = open_inbox(journal)
                await inbox.note_worker(make_worker("w", agents=("desk",)))
                await inbox.admit()
                assert await inbox.begin(1, "w") is not None
            request = "r1" if is_queued else ""
            opened = TurnOpened("t1", 1.0, user("Hi."), agent="desk", request=request)
            await journal.append("ada", opened)

    asyncio.run(leave_open())
    assert out("abandon", file, "ada") == "the turn was abandoned\n"
    assert run("abandon", file, "ada") == (1, "", "the session has no open turn\n")
    status, _, err = run("abandon", file, "eve")
    assert (status, "there is no session 'eve'" in err) == (2, True)
    with SqliteJournal(file) as journal:
        (*_, closed) = asyncio.run(journal.read("ada"))
        assert isinstance(closed.event, TurnClosed)
        entry = asyncio.run(open_inbox(journal).find(1))
        assert (entry.state if entry else "done") == "done"


# A conversation shows the arguments that ran, also where a person changed them in an approval.

PAY = ToolCall("c", "pay", '{"euros": 100}')


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def make_agent(journal: Any, *replies: Any, **keywords: Any) -> Agent[str]:
    rules = ToolPermission(ask=["pay"])
    return Agent(
        ScriptedModel(*replies), tools=[pay], middleware=[rules], journal=journal, **keywords
    )


async def pay_less(agent: Agent[str], session: str, *edits: int | None) -> None:
    """Run a turn whose first questions are answered with other amounts; None leaves the amount."""
    left = list(edits)
    async with agent.stream("Pay.", session=session) as stream:
        async for item in stream:
            if isinstance(item, PermissionQuestion):
                euros = left.pop(0)
                stream.answer(item.approve(arguments=None if euros is None else {"euros": euros}))
    assert not left


def shown(messages: Any) -> list[str]:
    return [call.arguments for message in messages for call in message.calls]


async def test_only_the_edited_call_differs_although_all_have_one_id() -> None:
    from holdfast import MemoryJournal

    more = ToolCall(PAY.id, PAY.name, '{"euros": 200}')
    agent = make_agent(MemoryJournal(), [PAY, more], "Done.", PAY, "Done.")
    await pay_less(agent, "ada", None, 5)
    await pay_less(agent, "ada", None)
    history = await agent.sessions.read("ada")
    assert shown(history.messages) == ['{"euros": 100}', '{"euros": 200}', '{"euros": 100}']
    assert shown(history.as_run) == ['{"euros": 100}', '{"euros":5}', '{"euros": 100}']
    assert len(history.as_run) == len(history.messages)


async def test_the_edit_of_an_agent_used_as_a_tool_is_not_shown_at_the_call_of_that_agent() -> None:
    from holdfast import MemoryJournal

    inner = make_agent(None, PAY, "Paid.", name="clerk")
    outer = Agent(
        ScriptedModel(ToolCall("c", "clerk", '{"task": "Pay."}'), "Done."),
        tools=[inner.as_tool(description="Pays.")],
        journal=MemoryJournal(),
    )
    await pay_less(outer, "ada", 5)
    history = await outer.sessions.read("ada")
    assert history.as_run == history.messages


def test_the_commands_show_the_arguments_that_ran(tmp_path: Path) -> None:
    file, saved = tmp_path / "talk.db", tmp_path / "talk.md"

    async def talk() -> None:
        with SqliteJournal(file) as journal:
            agent = make_agent(journal, PAY, "Done.")
            await pay_less(agent, "ada", 5)
            await _save_conversation(_Talk(agent), str(saved))

    asyncio.run(talk())
    printed = holdfast("sessions", "show", str(file), "ada").stdout
    assert '[calls pay with {"euros":5}]' in printed
    assert "100" not in printed
    assert '`pay({"euros":5})`' in saved.read_text()
    assert "100" not in saved.read_text()


class _Talk:
    session = "ada"

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.show = self

    def print_note(self, text: str) -> None:
        assert text.startswith("saved 4 messages")
