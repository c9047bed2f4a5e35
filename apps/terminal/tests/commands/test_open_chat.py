"""The screen over a real workspace and an emulated provider: what it shows, and what its commands change."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from apps.terminal.tests.commands.person import Person
from textual.geometry import Size
from textual.pilot import Pilot

from adh.commands.arguments import parse_arguments
from adh.commands.chat_opening import find_branch, open_chat
from adh.commands.chat_start import read_chat_start
from adh.commands.exit_statuses import CommandError
from adh.screen.chat_app import ChatApp
from adh.screen.conversation_port import OpenChat
from adh.workspace.assembly import find_repository


@pytest.fixture
def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(tmp_path, monkeypatch, capsys)


@asynccontextmanager
async def open_real_chat(person: Person, *words: str) -> AsyncIterator[OpenChat]:
    args = parse_arguments([*words, "--model", "openai:emulated-model"])
    environ = {"HOME": str(person.home), "OPENAI_API_KEY": "sk-emulated-0123456789abcdef"}
    environ["ADH_BASE_URL"] = person.provider.base_url
    async with open_chat(read_chat_start(args, environ, person.project)) as chat:
        yield chat


async def wait(pilot: Pilot[None], is_done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_done():
            await pilot.pause(0.02)


def read(app: ChatApp) -> str:
    strips = app.screen._compositor.render_strips(Size(*app.size))
    return "\n".join(strip.text for strip in strips)


@pytest.mark.slow  # starts a program or a server
async def test_a_conversation_on_the_screen_is_saved_and_resumed(person: Person) -> None:
    (person.project / ".git").mkdir()
    (person.project / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    with person.provide("It is **done**."):
        app = ChatApp(lambda: open_real_chat(person))
        async with app.run_test(size=(100, 30)) as pilot:
            await wait(pilot, lambda: "Policy-Aware Chat Ready" in read(app))
            await wait(pilot, lambda: "feature/x" in read(app))
            assert "Conversations are saved on this computer" in read(app)
            app.prompt.put("Do it.")
            await pilot.press("enter")
            await wait(pilot, lambda: "It is done." in read(app))
            await wait(pilot, lambda: "Processing" not in read(app))
        assert app.failure is None
        again = ChatApp(lambda: open_real_chat(person, "--resume"))
        async with again.run_test(size=(100, 30)) as pilot:
            await wait(pilot, lambda: "It is done." in read(again))
            await pilot.press("up")
            assert again.prompt.text == "Do it."


async def test_the_screen_reads_and_changes_the_workspace(person: Person) -> None:
    (person.project / "AGENTS.md").write_text("Be brief.")
    with person.provide():
        async with open_real_chat(person) as chat:
            workspace = chat.workspace
            assert list(workspace.untrusted) == ["AGENTS.md"]
            workspace.trust_project()
            assert list(workspace.untrusted) == []
            rows = {row.name: row for row in workspace.list_rules()}
            assert rows["protected.system_folders"].level == "deny"
            assert rows["protected.system_folders"].origin.startswith("built-in/protected.yaml:")
            assert "10,000,000 bytes" in rows["files.read_file"].restrictions
            assert next(one.value for one in workspace.list_models()) == "openai:emulated-model"
            assert "tester" in [one.value for one in workspace.list_agents()]
            assert "GEMINI_API_KEY" in [one.value for one in workspace.list_key_names()]
            workspace.set_safety(False)
            assert not workspace.facts.safety
            workspace.change_settings({"theme": "light"})
    assert [line["decision"] for line in person.read_audit()] == ["safety off"]
    assert "light" in (person.config / "config.json").read_text()


async def test_there_must_be_something_to_resume(person: Person) -> None:
    with person.provide():
        for words in (["--resume"], ["--resume", "2026"]):
            with pytest.raises(CommandError, match="there is no conversation"):
                async with open_real_chat(person, *words):
                    pass


@pytest.mark.slow  # takes half a second or more
async def test_no_key_is_told_before_the_first_message_and_the_rest_of_the_screen_works(
    person: Person,
) -> None:
    start = read_chat_start(
        parse_arguments(["--model", "openai:emulated-model"]),
        {"HOME": str(person.home)},
        person.project,
    )
    app = ChatApp(lambda: open_chat(start))
    async with app.run_test(size=(100, 40)) as pilot:
        await wait(pilot, lambda: "Agent not initialized. API key may be missing." in read(app))
        text = read(app)
        assert "Set OPENAI_API_KEY" in text
        assert "Chat Ready" not in text
        app.prompt.put("Hello?")
        await pilot.press("enter")
        await wait(pilot, lambda: read(app).count("Agent not initialized.") == 2)
        await pilot.press("f3")
        await wait(pilot, lambda: "protected.system_folders" in read(app))
    assert app.failure is None


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_branch_is_read_as_git_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=feature/prices")
    assert find_repository(folder / "sub") == str(folder)
    assert find_branch(str(folder)) == "feature/prices"
    git(folder, "commit", "--quiet", "--allow-empty", "--message=Begin")
    git(folder, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    assert find_branch(str(tmp_path / "linked")) == "other"
    git(folder, "checkout", "--quiet", "--detach")
    assert find_branch(str(folder)) == git(folder, "rev-parse", "HEAD")[:8]


def test_without_a_repository_or_with_a_damaged_one_there_is_no_branch(tmp_path: Path) -> None:
    assert find_branch("") == ""
    assert find_branch(str(tmp_path)) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\x1b[2J not a commit\n")
    assert find_branch(str(tmp_path)) == ""
