"""Settings, models, agents, limits and keys, as they are typed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from apps.terminal.tests.screen.scripted_chat import ScriptedChat

pytestmark = pytest.mark.slow  # drives the screen of an emulated terminal

SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize("key", ["ctrl+comma", "f2"])
async def test_settings_are_changed_together(key: str) -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, key, "tab", "tab", *"0.5", "tab", *"8000", "tab", "space")
        await chat.press(pilot, "tab", "tab", "enter")

    assert chat.workspace.saved == [{"temperature": 0.5, "max_tokens": 8000, "theme": "light"}]
    assert chat.app.theme == "adh-light"


async def test_what_is_on_and_off_is_seen_without_colour() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, "f2")
        text = chat.read()
    assert "▐ ▌ Light theme" in text
    assert "▐X▌ Follow the end of the chat" in text


async def test_a_wrong_setting_is_named_and_nothing_is_saved() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, "f2", "tab", "tab", *"hot", "enter")
        assert "Temperature: Write a number from 0 to 2" in chat.read()
        await chat.press(pilot, "escape")

    assert chat.workspace.saved == []


async def test_settings_that_cannot_be_saved_say_why() -> None:
    chat = ScriptedChat()
    chat.workspace.failure = OSError("config.json: the disk is full")
    async with chat.open() as pilot:
        await chat.press(pilot, "f2", "tab", "tab", *"1", "enter")
        assert "❌ config.json: the disk is full" in chat.read()


async def _choose(chat: ScriptedChat, name: str, *keys: str) -> None:
    async with chat.open() as pilot:
        chat.session.perform(name)
        await pilot.pause()
        await chat.press(pilot, *keys)


async def test_a_model_is_chosen_from_the_list() -> None:
    chat = ScriptedChat()
    await _choose(chat, "select_model", *"thorough", "enter")

    assert chat.workspace.saved == [{"model": "gemini-2.5-pro"}]


async def test_a_model_that_is_not_listed_is_typed() -> None:
    chat = ScriptedChat()
    await _choose(chat, "select_model", *"openai:gpt-5", "enter")

    assert chat.workspace.saved == [{"model": "openai:gpt-5"}]


async def test_an_agent_must_be_one_of_the_list() -> None:
    chat = ScriptedChat()
    await _choose(chat, "select_agent", *"nobody", "enter", "escape")
    assert chat.workspace.saved == []

    other = ScriptedChat()
    await _choose(other, "select_agent", "down", "down", "enter")
    assert other.workspace.saved == [{"agent": "planner"}]


@pytest.mark.parametrize(
    ("name", "typed", "saved"),
    [
        ("adjust_temperature", "1.5", [{"temperature": 1.5}]),
        ("adjust_temperature", "3", []),
        ("configure_max_tokens", "8,000", [{"max_tokens": 8000}]),
        ("configure_max_tokens", "-1", []),
        ("configure_max_tokens", "", []),
    ],
)
async def test_a_value_is_checked_before_it_is_saved(
    name: str, typed: str, saved: list[dict[str, object]]
) -> None:
    chat = ScriptedChat()
    await _choose(chat, name, *typed, "enter", "escape")

    assert chat.workspace.saved == saved


async def test_an_api_key_is_saved_and_never_shown(tmp_path: Path) -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.session.perform("configure_key")
        await pilot.pause()
        await chat.press(pilot, *"openai", "enter")
        await pilot.press(*SECRET)
        await chat.settle(pilot)
        picture = tmp_path / "screen.svg"
        picture.write_text(chat.app.export_screenshot(), "utf-8")
        assert SECRET not in chat.read()
        assert "secret" not in picture.read_text("utf-8")
        await chat.press(pilot, "enter")
        assert "OPENAI_API_KEY is saved in the system's keychain." in chat.read()
        assert SECRET not in chat.read()

    assert chat.workspace.keys == [("OPENAI_API_KEY", SECRET)]


async def test_a_wrong_key_is_not_saved() -> None:
    chat = ScriptedChat()
    await _choose(
        chat,
        "configure_key",
        "enter",
        *"two words".replace(" ", "_"),
        "space",
        "x",
        "enter",
        "escape",
    )

    assert chat.workspace.keys == []


async def test_a_light_theme_of_the_settings_holds_from_the_start() -> None:
    chat = ScriptedChat("light")
    chat.workspace.settings = msgspec.structs.replace(chat.workspace.settings, theme="light")
    async with chat.open():
        assert chat.app.theme == "adh-light"
