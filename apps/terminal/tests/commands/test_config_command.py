from __future__ import annotations

import json
from pathlib import Path

import pytest

from adh.commands.arguments import parse_arguments
from adh.commands.program import run_command


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".config" / "adh-cli" / "config.json"


def run(*words: str) -> int:
    return run_command(parse_arguments(["config", *words]))


def test_settings_and_places_are_shown_without_writing_a_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    shown = capsys.readouterr().out
    assert ["theme", '"dark"'] in [line.split() for line in shown.splitlines()]
    assert f"{file} (not there yet)" in shown
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "value", "saved"),
    [
        ("theme", "light", {"theme": "light"}),
        ("temperature", "0.5", {"temperature": 0.5}),
        ("session.capture", "false", {"session": {"capture": False}}),
    ],
)
def test_a_setting_is_changed(file: Path, name: str, value: str, saved: dict[str, object]) -> None:
    assert run("set", name, value) == 0
    found = json.loads(file.read_text())
    for key, one in saved.items():
        assert found[key] == one or found[key].items() >= one.items()


def test_two_changes_in_one_group_both_stay(file: Path) -> None:
    assert run("set", "session.capture", "false") == 0
    assert run("set", "session.token_limit", "1000") == 0
    session = json.loads(file.read_text())["session"]
    assert (session["capture"], session["token_limit"]) == (False, 1000)


class Keychain:
    """A keychain in memory."""

    def __init__(self) -> None:
        self.saved: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.saved.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.saved[service, username] = password


def test_a_key_is_typed_and_goes_to_the_keychain_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keychain = Keychain()
    monkeypatch.setattr("adh.commands.config_command.open_keychain", lambda: keychain)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda prompt: " k-12345 ")
    assert run("key", "gemini") == 0
    assert list(keychain.saved.values()) == ["k-12345"]
    assert "k-12345" not in "".join(capsys.readouterr())
    assert not file.exists()


def test_without_a_keychain_or_a_terminal_the_variable_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("adh.commands.config_command.open_keychain", lambda: None)
    assert run("key", "gemini") == 2
    assert "GEMINI_API_KEY" in capsys.readouterr().err
    monkeypatch.setattr("adh.commands.config_command.open_keychain", Keychain)
    assert run("key", "gemini") == 2
    assert "standard input is none" in capsys.readouterr().err
    assert run("key", "nobody") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("colour", "red"), "adh: colour is no setting"),
        (("api_key", "abc"), "adh: api_key is no setting"),
        (("theme", "blue"), "theme"),
        (("temperature", "3"), "temperature"),
    ],
)
def test_a_wrong_setting_changes_nothing_and_names_the_field(
    file: Path, words: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("set", *words) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""
    assert not file.exists()
