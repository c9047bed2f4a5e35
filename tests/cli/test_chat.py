"""`holdfast chat`, driven by keys in a terminal and by lines through a pipe."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal, conversation, holdfast, interrupted, piped, told

from holdfast import (
    Agent,
    ClarificationQuestion,
    Media,
    MemoryJournal,
    SqliteJournal,
    ToolContext,
    tool,
    user,
)
from holdfast.cli import options
from holdfast.cli.chat_loop import ChatLoop
from holdfast.cli.input_lines import LineReader
from holdfast.cli.main import main
from holdfast.core.effects import Effect
from holdfast.core.events import Event, TurnResumed
from holdfast.core.messages import ToolCall
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.testing import Emulator, ScriptedModel
from holdfast.testing.emulator import ErrorResponse, Pace
from holdfast.testing.journal_conformance import make_turn_opened

Start = Callable[..., Emulator]


def to(provider: Emulator) -> tuple[str, ...]:
    return ("chat", "--model", "openai:demo", "--base-url", provider.base_url)


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


@pytest.mark.slow  # starts a program or a server
def test_each_line_is_a_turn_of_one_conversation(emulator: Start) -> None:
    provider = emulator()
    done = holdfast(*to(provider), said="one\n\n  \r\ntwo\r\nlast without an end")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "You said: one\nYou said: two\nYou said: last without an end\n"
    body = provider.requests[-1].body
    assert isinstance(body, dict)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"] * 2 + ["user"]


def test_quit_ends_the_chat_and_later_lines_are_not_read(emulator: Start) -> None:
    done = holdfast(*to(emulator()), said="one\n/quit\ntwo\n")
    assert (done.returncode, done.stdout) == (0, "You said: one\n")


def test_no_input_at_all_is_not_a_turn(emulator: Start) -> None:
    assert holdfast(*to(emulator()), said="").stdout == ""


def test_a_failed_turn_is_reported_and_the_next_one_runs(emulator: Start) -> None:
    provider = emulator(faults=[ErrorResponse("bad_key")])
    done = holdfast(*to(provider), said="one\ntwo\n")
    assert done.returncode == 1
    assert done.stdout == "You said: two\n"
    assert "✗ openai denied access" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow  # needs a terminal
def test_ctrl_c_stops_the_turn_and_not_the_program(emulator: Start, state: dict[str, str]) -> None:
    provider = emulator(
        lambda request: "one two " * 20 if request.text == "go" else "still here",
        faults=[Pace(1)],
    )
    with Terminal(*to(provider), env=state) as screen:
        screen.wait_for(">")
        screen.press("go\r")
        screen.wait_for("one")
        screen.press("\x03")
        screen.wait_for("stopped")
        screen.wait_for(">")
        screen.press("and now?\r")
        screen.wait_for("still here")
        screen.wait_for(">")
        screen.press("\x04")
        assert screen.status() == 0
        assert "Traceback" not in screen.shown
    body = provider.requests[-1].body
    assert isinstance(body, dict)
    assert [m["role"] for m in body["messages"]][-1] == "user"
    assert "go" in str(body["messages"][0])


@pytest.mark.slow  # needs a terminal
def test_ctrl_c_at_the_prompt_forgets_the_line(emulator: Start, state: dict[str, str]) -> None:
    provider = emulator()
    with Terminal(*to(provider), env=state) as screen:
        screen.wait_for(">")
        screen.press("never sent")
        screen.wait_for("sent")
        screen.press("\x03")
        screen.wait_for(">")
        screen.press("hello\r")
        screen.wait_for("You said: hello")
        screen.wait_for(">")
        screen.press("/quit\r")
        assert screen.status() == 0
    assert len(provider.requests) == 1


@pytest.mark.slow  # needs a terminal
def test_the_history_of_lines_is_readable_by_its_owner_only(
    emulator: Start, state: dict[str, str], tmp_path: Path
) -> None:
    with Terminal(*to(emulator()), env=state) as screen:
        screen.wait_for(">")
        screen.press("remember me\r")
        screen.wait_for("You said: remember me")
        screen.wait_for(">")
        screen.press("\x04")
        assert screen.status() == 0
    kept = tmp_path / "holdfast" / "chat-history"
    assert "remember me" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.slow  # needs a terminal
def test_a_chat_works_when_its_history_cannot_be_written(emulator: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"XDG_STATE_HOME": str(tmp_path / "file")}
    with Terminal(*to(emulator()), env=env) as screen:
        screen.wait_for(">")
        screen.press("hello\r")
        screen.wait_for("You said: hello")


@pytest.mark.slow  # starts a program or a server
def test_ctrl_c_ends_a_chat_that_waits_for_a_pipe(emulator: Start) -> None:
    with piped(*to(emulator())) as process:
        assert told(process, b"hello\n") == b"You said: hello\n"
        assert interrupted(process) == (130, b"")


WITHOUT_PROMPT_TOOLKIT = (
    sys.executable,
    "-c",
    "import sys; sys.modules['prompt_toolkit'] = None; from holdfast.cli import main; sys.exit(main.main())",
)


@pytest.mark.slow  # needs a terminal
def test_a_plain_prompt_is_used_without_prompt_toolkit(emulator: Start) -> None:
    provider = emulator(
        lambda request: "one two " * 20 if request.text == "go" else "still here",
        faults=[Pace(1)],
    )
    with Terminal(*to(provider), program=WITHOUT_PROMPT_TOOLKIT) as screen:
        screen.wait_for("> ")
        screen.press("go\n")
        screen.wait_for("one")
        screen.press("\x03")
        screen.wait_for("stopped")
        screen.wait_for("> ")
        screen.press("and now?\n")
        screen.wait_for("still here")
        screen.wait_for("> ")
        screen.press("\x04")
        assert screen.status() == 0


@pytest.mark.slow  # needs a terminal
def test_ctrl_c_at_a_plain_prompt_ends_it(emulator: Start) -> None:
    with Terminal(*to(emulator()), program=WITHOUT_PROMPT_TOOLKIT) as screen:
        screen.wait_for("> ")
        screen.press("\x03")
        assert screen.status() == 130
        assert "Traceback" not in screen.shown


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("command", ["/help", "/tools", "/undo", "/retry", "/quit", "/exit"])
def test_an_argument_that_a_command_does_not_have_is_refused(
    emulator: Callable[..., Emulator], command: str
) -> None:
    provider = emulator()
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    done = holdfast("chat", *address, said=f"Hello?\n{command} 3\n")
    assert done.stdout == "You said: Hello?\n"
    assert f"✗ {command}: takes no argument. Type {command} alone" in done.stderr
    assert "forgot" not in done.stderr
    assert len(provider.requests) == 1


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.slow  # starts a program or a server
def test_retry_sends_the_picture_of_a_message(
    emulator: Callable[..., Emulator], tmp_path: Path
) -> None:
    provider = emulator(["A bridge.", "A tower."])
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent("openai:any", base_url=provider.base_url, journal=journal)
        agent.run_sync(user("What is this?", Media("image/png", data=PIXEL)), session="ana")
    kept = ("--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    done = holdfast("chat", *address, *kept, said="/retry\n")
    assert (done.returncode, done.stdout) == (0, "A tower.\n")
    first, again = (request.body["messages"][-1] for request in provider.requests)
    assert again == first
    assert "image_url" in str(again)


@pytest.mark.slow  # starts a program or a server
def test_undo_forgets_a_message_without_text_alone(
    emulator: Callable[..., Emulator], tmp_path: Path
) -> None:
    provider = emulator(["Hello.", "A bridge.", "Still here."])
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent("openai:any", base_url=provider.base_url, journal=journal)
        agent.run_sync("I am Ana.", session="ana")
        agent.run_sync(user(Media("image/png", data=PIXEL)), session="ana")
    kept = ("--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    done = holdfast("chat", *address, *kept, said="/undo\nWho am I?\n")
    assert "forgot: [image/png]" in done.stderr
    sent = str(provider.requests[-1].body["messages"])
    assert "I am Ana." in sent
    assert "image_url" not in sent


class FullJournal(MemoryJournal):
    """Has no room for a turn to go on."""

    full = True

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self.full and isinstance(event, TurnResumed):
            raise JournalStorageError("talk.db", "the disk is full")
        await super().append(run, event, effect, marker=marker)


@tool(effect="write")
async def book(ctx: ToolContext) -> str:
    """Book a trip."""
    return await ctx.ask(ClarificationQuestion(question="Where?"))


async def test_a_full_disk_is_reported_once_and_the_next_line_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    journal = FullJournal()
    model = ScriptedModel(ToolCall("c", "book", "{}"), "Booked.", "Hello.")
    agent = Agent(model, tools=[book], journal=journal, on_wait="suspend")
    await agent.run("Book.", session="ada")
    (question,) = await agent.questions("ada")
    await agent.answer("ada", question.answer("Porto"))
    typed = iter(["one", "two"])

    async def read() -> str | None:
        line = next(typed, None)
        journal.full = line == "one"
        return line

    talk = ChatLoop(conversation(agent), read, keep_open=True)
    async with asyncio.timeout(60):
        await talk.run_until_end()
    shown = capsys.readouterr()
    assert shown.out == "Booked.\nHello.\n"
    assert shown.err.count("the disk is full") == 1
    assert shown.err.count("The turn of 'ada' was") == 1
    assert "request itself" not in shown.err, "no provider refused anything"
    assert talk.failures == 2


# A question that ends while the terminal waits for its answer leaves the next line to the next
# reader.


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    yield source, sink
    os.close(sink)
    os.close(source)


async def left_waiting(lines: LineReader, times: int = 1) -> None:
    for _ in range(times):
        reading = asyncio.ensure_future(lines.read_line())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()


@pytest.mark.parametrize("times", [1, 5])
async def test_a_line_after_the_end_of_a_question_is_for_the_next_reader(
    pipe: tuple[int, int], times: int
) -> None:
    source, sink = pipe
    lines = LineReader(source)
    await left_waiting(lines, times)
    os.write(sink, b"hello\nagain\n")
    async with asyncio.timeout(60):
        assert [await lines.read_line(), await lines.read_line()] == ["hello", "again"]


async def test_a_line_that_came_before_the_next_reader_is_not_lost(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    lines = LineReader(source)
    await left_waiting(lines)
    os.write(sink, b"hello\n")
    assert lines._pending_read is not None
    async with asyncio.timeout(60):
        await asyncio.wait([lines._pending_read])
        assert await lines.read_line() == "hello"


# The tenant of a chat.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1, "of nobody")))
        asyncio.run(journal.for_tenant("acme").append("ada", make_turn_opened(1, "of acme")))
    return path


def test_chat_saves_in_the_tenant(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    options.add_model_arguments(parser)
    options.add_conversation_arguments(parser)
    words = ["--model", "ollama:llama3.2", "--journal", f"sqlite:///{path}", "--tenant", "acme"]
    agent = options.build_chat_agent(parser.parse_args(words))
    journal = agent._engine.session_pool.journal
    assert journal.tenant == "acme"
    assert isinstance(journal, SqliteJournal)
    journal.close()


def test_chat_refuses_a_tenant_without_a_journal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--model", "ollama:llama3.2", "--tenant", "acme"]) == 2
    assert "--tenant" in capsys.readouterr().err
