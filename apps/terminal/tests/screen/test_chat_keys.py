"""Every key of the chat does what the table of keys says."""

from __future__ import annotations

import pytest
from apps.terminal.tests.screen.scripted_chat import Plan, RuleQuestion, ScriptedChat
from textual import events
from textual.widgets import Input

from adh.conversation.undo import UndoFile
from adh.screen.key_table import PALETTE, SLASH_COMMANDS

pytestmark = pytest.mark.slow  # drives the screen of an emulated terminal


async def test_the_start_shows_the_policies_the_keys_and_the_agent() -> None:
    chat = ScriptedChat()
    async with chat.open():
        text = chat.read()

    assert "Policy-Aware ADH Chat • Safety: ON" in text
    assert "Tools will be executed according to configured policies." in text
    assert "Enter sends" in text
    assert "Policy-Aware Chat Ready (Agent: orchestrator)" in text
    assert "~/shop  ·  main  ·  gemini-2.5-flash  ·  s-1  ·  0 tokens  ·  $0.00" in text


async def test_what_is_sent_before_the_agent_is_ready_waits() -> None:
    chat = ScriptedChat()
    async with chat.app.run_test(size=(80, 24)) as pilot:
        await pilot.press("h", "i", "enter")
        await pilot.press("f3")
        await chat.wait(pilot, lambda: bool(chat.conversation.sent))

    assert chat.conversation.sent == ["hi"]
    assert chat.conversation.calls == ["start", "close"]


async def test_a_conversation_that_cannot_open_ends_the_chat_with_its_error() -> None:
    chat = ScriptedChat()
    chat.failure = ValueError("policies/a.yaml:3: unknown level")
    async with chat.app.run_test(size=(80, 24)) as pilot:
        await chat.wait(pilot, lambda: chat.app.failure is not None)

    assert chat.app.failure is chat.failure
    assert chat.app.return_code == 1


async def test_a_missing_key_is_told_before_the_first_message() -> None:
    chat = ScriptedChat()
    problem = "There is no API key. Set GEMINI_API_KEY, in the environment or in a .env file."
    chat.conversation.problem = problem
    chat.conversation.transcript.add_note(problem)
    async with chat.open(100, 24):
        assert problem in chat.read()
        assert "Chat Ready" not in chat.read()


async def test_a_folder_that_is_not_trusted_is_asked_about_at_the_start() -> None:
    chat = ScriptedChat()
    chat.workspace.untrusted = ("AGENTS.md", ".adh/skills")
    async with chat.open(100, 30) as pilot:
        await chat.wait(pilot, lambda: "Trust this folder?" in chat.read())
        assert "AGENTS.md" in chat.read()
        await chat.press(pilot, "n")
        assert not chat.workspace.trusted
        chat.session.perform("ask_for_trust")
        await chat.wait(pilot, lambda: "Trust this folder?" in chat.read())
        await chat.press(pilot, "y")
        assert chat.workspace.trusted
        chat.session.perform("ask_for_trust")
        await chat.wait(pilot, lambda: "nothing in this folder that needs" in chat.read())


async def test_a_word_with_a_slash_is_a_command() -> None:
    chat = ScriptedChat()
    chat.conversation.plan = Plan("Undo turn 1: hello", ())
    async with chat.open(100, 40) as pilot:
        chat.app.prompt.put("/undo")
        await chat.press(pilot, "enter")
        await chat.wait(pilot, lambda: "Undo the last turn?" in chat.read())
        await chat.press(pilot, "escape")
        chat.app.prompt.put("/undoo")
        await chat.press(pilot, "enter")
        assert "There is no command /undoo" in chat.read()
        assert chat.app.prompt.text == "/undoo"
        chat.app.prompt.put("/etc/hosts is wrong")
        await chat.press(pilot, "enter")
    assert chat.conversation.sent == ["/etc/hosts is wrong"]


async def test_every_word_with_a_slash_is_a_command_of_the_session() -> None:
    chat = ScriptedChat()
    async with chat.open():
        known = chat.session._commands._by_name
        assert set(SLASH_COMMANDS.values()) <= set(known)
        assert {name for _, _, name in PALETTE} <= set(known)


async def test_enter_sends_and_other_keys_begin_lines() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, "a", "ctrl+j", "b", "shift+enter", "c")
        assert chat.app.prompt.text == "a\nb\nc"
        await chat.press(pilot, "enter", "enter", "space", "enter")

    assert chat.conversation.sent == ["a\nb\nc"]


async def test_the_input_grows_to_ten_lines() -> None:
    chat = ScriptedChat()
    async with chat.open(80, 30) as pilot:
        assert chat.app.prompt.size.height == 1
        await chat.press(pilot, *["ctrl+j"] * 12)
        assert chat.app.prompt.size.height == 10


async def test_up_in_an_empty_input_shows_earlier_messages() -> None:
    chat = ScriptedChat()
    chat.conversation.say("before", "answer")
    async with chat.open() as pilot:
        await chat.press(pilot, "n", "e", "w", "enter", "up")
        assert chat.app.prompt.text == "new"
        await chat.press(pilot, "up", "up")
        assert chat.app.prompt.text == "before"
        await chat.press(pilot, "down")
        assert chat.app.prompt.text == "new"
        await chat.press(pilot, "down")
        assert chat.app.prompt.text == ""
        await chat.press(pilot, "x", "up")
        assert chat.app.prompt.text == "x"


async def test_a_paste_keeps_its_lines_and_loses_control_characters() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.app.prompt.post_message(
            events.Paste("one\r\ntwo\x1b[2J\x07\u200bthree" + "\nx" * 3_000)
        )
        await chat.settle(pilot)
        assert chat.app.prompt.text.startswith("one\ntwo[2J\\u200bthree\nx")
        assert chat.app.prompt.document.line_count == 3_002
        assert chat.conversation.sent == []


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_key_stops_the_turn_and_leaves_at_the_second_time(key: str) -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("work")
        await chat.press(pilot, key)
        assert chat.conversation.calls == ["start", "stop"]
        assert chat.app.is_running
        chat.conversation.close_turn()
        await chat.settle(pilot)
        await chat.press(pilot, key)
        assert "once more to leave" in chat.read()
        await pilot.press(key)
        assert not chat.app.is_running

    assert chat.conversation.calls == ["start", "stop", "close"]


async def test_leaving_while_a_turn_runs_is_asked() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("work")
        await chat.press(pilot, "ctrl+q")
        assert "Leave while a turn runs?" in chat.read()
        await chat.press(pilot, "n")
        assert chat.app.is_running
        await chat.press(pilot, "escape", "escape")
        assert "Leave while a turn runs?" in chat.read()
        await pilot.press("y")
        await pilot.pause()
        assert not chat.app.is_running


async def test_ctrl_l_begins_another_session() -> None:
    chat = ScriptedChat()
    chat.conversation.say("old message", "old answer")
    async with chat.open() as pilot:
        assert "old message" in chat.read()
        await chat.press(pilot, "ctrl+l")
        assert "clear" in chat.conversation.calls
        assert "old message" not in chat.read()
        assert "Policy-Aware Chat Ready" in chat.read()


async def test_ctrl_l_asks_while_a_turn_runs() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("work")
        await chat.press(pilot, "ctrl+l", "n")
        assert "clear" not in chat.conversation.calls
        await chat.press(pilot, "ctrl+l", "y")
        assert "clear" in chat.conversation.calls


async def test_ctrl_y_copies_the_chat() -> None:
    chat = ScriptedChat()
    chat.conversation.say("Hello", "World")
    async with chat.open() as pilot:
        await chat.press(pilot, "ctrl+y")
        assert "Copied 2 messages to clipboard" in chat.read()
        assert chat.app.clipboard == "You: Hello\n\nAgent: World"


async def test_ctrl_e_says_where_the_export_is() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, "ctrl+e")
        assert "Exported to /data/s-1.md and /data/s-1.jsonl" in chat.read()


async def test_a_failure_of_a_command_is_a_line_and_not_a_crash() -> None:
    chat = ScriptedChat()
    chat.conversation.failure = OSError(28, "No space left on device")
    async with chat.open() as pilot:
        await chat.press(pilot, "ctrl+e")
        assert "❌ [Errno 28] No space left on device" in chat.read()


@pytest.mark.parametrize("key", ["ctrl+slash", "ctrl+underscore", "f3"])
async def test_the_rules_are_shown_and_filtered(key: str) -> None:
    chat = ScriptedChat()
    async with chat.open(100, 30) as pilot:
        await chat.press(pilot, key)
        assert "built-in/commands.yaml:40" in chat.read()
        await chat.press(pilot, *"write", "space", *"confirm")
        text = chat.read()
        assert "files.write · built-in/files.yaml:30" in text
        assert "restrictions: not *.env, *.key, *.pem" in text
        assert "commands.yaml" not in text
        await chat.press(pilot, "escape")
        assert "Rules" not in chat.read()


@pytest.mark.parametrize("key", ["ctrl+s", "f4"])
async def test_safety_off_is_asked_and_seen(key: str) -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, key)
        assert "Turn safety off?" in chat.read()
        await chat.press(pilot, "n")
        assert chat.workspace.facts.safety
        await chat.press(pilot, key, "y")
        assert not chat.workspace.facts.safety
        assert "Safety: OFF" in chat.read()
        assert chat.app.query_one("#chat").has_class("unsafe")
        await chat.press(pilot, key)
        assert chat.workspace.facts.safety
        assert "Safety: ON" in chat.read()


async def test_ctrl_z_suspends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = ScriptedChat()
    suspended: list[str] = []
    async with chat.open() as pilot:
        monkeypatch.setattr(chat.app, "action_suspend_process", lambda: suspended.append("once"))
        await chat.press(pilot, "ctrl+z")

    assert suspended == ["once"]


async def test_f1_shows_all_keys() -> None:
    chat = ScriptedChat()
    async with chat.open(100, 40) as pilot:
        await chat.press(pilot, "f1")
        text = chat.read()
        for words in ("Ctrl+U", "Ctrl+/ or F3", "Ctrl+, or F2", "Ctrl+S or F4", "Ctrl+Z"):
            assert words in text
        await chat.press(pilot, "escape")
        assert "Ctrl+, or F2" not in chat.read()


async def test_ctrl_u_shows_the_undo_and_asks() -> None:
    chat = ScriptedChat()
    files = [
        UndoFile("a.py", "restore", diff="-new\n+old\n"),
        UndoFile("b.py", "keep", refusal="it changed since\x1b[2J"),
    ]
    chat.conversation.plan = Plan("Turn 3: “Fix it”", files)
    async with chat.open() as pilot:
        await chat.press(pilot, "a", "ctrl+u")
        assert chat.app.prompt.text == ""
        await chat.press(pilot, "ctrl+u")
        text = chat.read()
        for words in ("Turn 3: “Fix it”", "restore a.py", "+old", "✗ it changed since\\x1b[2J"):
            assert words in text
        await chat.press(pilot, "n")
        assert "undo" not in chat.conversation.calls
        await chat.press(pilot, "ctrl+u", "y")
        assert "undo" in chat.conversation.calls
        chat.conversation.plan = None
        await chat.press(pilot, "ctrl+u")
        assert "There is nothing to undo." in chat.read()


async def test_an_undo_that_fails_says_why() -> None:
    chat = ScriptedChat()
    chat.conversation.plan = Plan("Turn 1", ())
    chat.conversation.failure = RuntimeError("a.py changed meanwhile")
    async with chat.open() as pilot:
        await chat.press(pilot, "ctrl+u", "y")
        assert "❌ a.py changed meanwhile" in chat.read()


async def test_the_palette_has_exactly_the_commands_of_the_table() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        titles = [one.title for one in chat.app.get_system_commands(chat.app.screen)]
        assert titles == [title for title, _, _ in PALETTE]
        assert titles == [
            "Settings",
            "Show Policies",
            "Toggle Safety",
            "Clear Chat",
            "Configure API Key",
            "Select Model",
            "Change Orchestrator Agent",
            "Adjust Temperature",
            "Configure Max Tokens",
            "Trust This Folder",
        ]
        await chat.press(pilot, "ctrl+p")
        await pilot.press(*"adjust")
        await chat.wait(pilot, lambda: "How freely" in chat.read())
        await chat.press(pilot, "enter")
        await chat.wait(
            pilot, lambda: bool(chat.app.screen.query(Input)) and "0 is exact" in chat.read()
        )


async def test_the_keys_of_the_chat_are_quiet_while_a_dialog_is_open() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, "f2", "ctrl+l", "f3", "f4", "ctrl+y")
        assert len(chat.app.screen_stack) == 2
        assert "clear" not in chat.conversation.calls
        await chat.press(pilot, "escape")
        assert len(chat.app.screen_stack) == 1


async def test_the_keys_and_the_rules_can_be_read_while_a_question_is_open() -> None:
    chat = ScriptedChat()
    async with chat.open(100, 44) as pilot:
        chat.conversation.ask(RuleQuestion(key="q1", tool="write_file"))
        await chat.settle(pilot)
        await chat.press(pilot, "f1")
        assert "at a question: yes, no, no with a reason" in chat.read()
        await chat.press(pilot, "escape", "f3", "escape", "f2")
        assert len(chat.app.screen_stack) == 2
        assert chat.conversation.answers == []
        await chat.press(pilot, "y")
        assert len(chat.app.screen_stack) == 1
    assert len(chat.conversation.answers) == 1
