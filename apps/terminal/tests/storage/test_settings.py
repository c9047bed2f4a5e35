import json
import os
import stat
from pathlib import Path

import pytest
from apps.terminal.tests.storage.folders import list_names

from adh.storage.places import Places, find_places
from adh.storage.settings import (
    SessionSettings,
    Settings,
    SettingsError,
    change_settings,
    load_settings,
    save_settings,
)
from adh.storage.storage_errors import StorageError


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places({"HOME": str(tmp_path / "home")}, tmp_path)


def write(places: Places, text: str | bytes) -> None:
    places.config.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    places.settings_file.write_bytes(data)


def test_places_follow_xdg_and_ignore_relative_paths(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "relative"}
    places = find_places(environ, tmp_path)
    assert places.config == Path("/c/adh-cli")
    assert places.data == Path("/h/.local/share/adh-cli")


def test_the_project_is_resolved_and_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert find_places({"HOME": "/h"}, tmp_path / "link").project == tmp_path / "real"
    with pytest.raises(StorageError, match="is not a folder"):
        find_places({"HOME": "/h"}, tmp_path / "missing")


def test_without_a_file_everything_has_its_default(places: Places) -> None:
    assert load_settings(places) == Settings()
    assert not places.config.exists()


def test_every_setting_is_saved_and_read_again(places: Places) -> None:
    session = SessionSettings(
        capture=False, redact_patterns=("x+",), retention_days=3, token_limit=9
    )
    settings = Settings(
        model="m",
        agent="tester",
        theme="light",
        auto_scroll=False,
        temperature=1.5,
        max_tokens=7,
        session=session,
    )
    save_settings(places, settings)
    assert load_settings(places) == settings
    assert set(json.loads(places.settings_file.read_text())) == set(Settings.__struct_fields__)
    assert stat.S_IMODE(places.settings_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(places.config.stat().st_mode) == 0o700
    assert list_names(places.config) == ["config.json"]


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ('{"temprature": 1}', "temprature", "is not a setting"),
        ('{"temperature": 3}', "temperature", "<= 2"),
        ('{"theme": "blue"}', "theme", "enum"),
        ('{"session": {"retention_days": 0}}', "session.retention_days", ">= 1"),
        ('{"session": {"days": 0}}', "session.days", "is not a setting"),
        ('{"session": {"redact_patterns": ["a", "("]}}', "session.redact_patterns[1]", "regular"),
        ('{"model": 1}', "model", "expected `str`"),
        ('{"model": "a", "model": "b"}', "model", "twice"),
        ('{"a": 1,\n]', "", "line 2, column 1"),
        ("[]", "", "not a JSON object"),
        (b"\xff\xfe{", "", "not JSON text"),
        ("[" * 100_000, "", "not JSON text"),
    ],
)
def test_an_error_names_the_file_and_the_field(
    places: Places, text: str | bytes, field: str, problem: str
) -> None:
    write(places, text)
    with pytest.raises(SettingsError) as caught:
        load_settings(places)
    assert caught.value.field == field
    assert problem in str(caught.value)
    assert str(places.settings_file) in str(caught.value)


def test_a_key_in_the_file_is_refused_and_not_shown(places: Places) -> None:
    write(places, '{"api_key": "sk-0f1e2d3c4b5a6978"}')
    with pytest.raises(SettingsError, match="keychain") as caught:
        load_settings(places)
    assert "sk-0f" not in str(caught.value)


def test_a_pipe_in_place_of_the_file_does_not_hang(places: Places) -> None:
    places.config.mkdir(parents=True)
    os.mkfifo(places.settings_file)
    with pytest.raises(SettingsError, match="regular file"):
        load_settings(places)


def test_a_change_keeps_what_another_instance_saved(places: Places) -> None:
    save_settings(places, Settings(agent="tester"))
    assert change_settings(places, {"theme": "light"}) == Settings(agent="tester", theme="light")
    with pytest.raises(SettingsError) as caught:
        change_settings(places, {"theme": 3})
    assert caught.value.field == "theme"
    assert load_settings(places).theme == "light"


def test_a_home_that_cannot_be_written_is_told_and_the_old_file_stays(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_settings(places, Settings(agent="tester"))

    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(SettingsError, match=r"disk is full.*hold until the program ends"):
        save_settings(places, Settings(agent="planner"))
    monkeypatch.undo()
    assert load_settings(places).agent == "tester"
    assert list_names(places.config) == ["config.json"]


def test_a_link_to_managed_settings_stays_a_link(places: Places, tmp_path: Path) -> None:
    managed = tmp_path / "dotfiles.json"
    managed.write_text("{}")
    places.config.mkdir(parents=True)
    places.settings_file.symlink_to(managed)
    save_settings(places, Settings(theme="light"))
    assert places.settings_file.is_symlink()
    assert json.loads(managed.read_text())["theme"] == "light"
