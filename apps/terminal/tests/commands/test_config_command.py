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
