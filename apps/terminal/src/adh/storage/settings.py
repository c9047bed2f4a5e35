"""The settings of the person, in `config.json`. An error names the file, the field and the fix.

This module must never save an API key, and must never put a wrong value into an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from adh.storage.places import Places
from adh.storage.private_files import read_private_file, replace_private_file
from adh.storage.storage_errors import StorageError

_MOST_BYTES = 1_000_000
_PLACE = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>[^`]*)`")
_KEY_NAME = re.compile(r"key|token$|secret|password", re.IGNORECASE)

Words = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class SettingsError(StorageError):
    """The settings cannot be read or saved.

    Args:
        path: the file.
        field: the field, such as "session.retention_days"; empty if the whole file is meant.
        problem: the problem; never the value.
        fix: the instruction that solves it.
    """

    def __init__(self, path: str | Path, field: str, problem: str, fix: str) -> None:
        super().__init__(path, f"{field}: {problem}" if field else problem, fix)
        self.field = field

    def __str__(self) -> str:
        separator = ": " if self.field else " "
        return f"{self.path}{separator}{self.problem}. {self.fix}."


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of saved conversations.

    Args:
        capture: whether conversations are saved.
        redact_patterns: regular expressions; text that they match is never saved.
        retention_days: when a conversation is deleted; None keeps all.
        token_limit: how many tokens a conversation may use; None for any number.
    """

    capture: bool = True
    redact_patterns: tuple[Words, ...] = ()
    retention_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None
    token_limit: Count | None = None


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the person.

    Args:
        model: the model or its alias, such as "gemini:gemini-2.5-flash".
        agent: the agent that a conversation begins with.
        theme: the colours of the screen.
        auto_scroll: whether the chat follows its end.
        temperature: from 0 to 2; None for the model's own.
        max_tokens: the longest reply, in tokens; None for the model's own limit.
        session: the settings of saved conversations.
    """

    model: Words = "gemini:gemini-2.5-flash"
    agent: Words = "orchestrator"
    theme: Literal["dark", "light"] = "dark"
    auto_scroll: bool = True
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Count | None = None
    session: SessionSettings = SessionSettings()


def load_settings(places: Places) -> Settings:
    """Return the settings; those that are not in the file have their defaults.

    Raises:
        SettingsError: the file cannot be read, is not JSON, or has an unknown field or a wrong value.
    """
    return _decode_settings(places.settings_file, _read_document(places.settings_file))


def save_settings(places: Places, settings: Settings) -> None:
    """Replace the settings of the file. The file is whole or as it was.

    Raises:
        SettingsError: the settings are wrong, or the file cannot be written.
    """
    document = msgspec.to_builtins(settings)
    _decode_settings(places.settings_file, document)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        replace_private_file(places.settings_file, text.encode())
    except StorageError as error:
        fix = f"{error.fix}; the settings hold until the program ends"
        raise SettingsError(error.path, "", error.problem, fix) from error


def change_settings(places: Places, changes: Mapping[str, object]) -> Settings:
    """Change some fields of the file as it is now, so that another instance's changes stay.

    Args:
        places: where the file is.
        changes: new values by the names of fields, such as {"theme": "light"}.

    Raises:
        SettingsError: a field is unknown, a value is wrong, or the file cannot be used.
    """
    document = {**_read_document(places.settings_file), **changes}
    settings = _decode_settings(places.settings_file, document)
    save_settings(places, settings)
    return settings


def _read_document(path: Path) -> dict[str, object]:
    try:
        content = read_private_file(path, _MOST_BYTES)
    except StorageError as error:
        raise SettingsError(path, "", error.problem, error.fix) from error
    if content is None:
        return {}
    try:
        document = json.loads(content, object_pairs_hook=_refuse_repeated_names)
    except _RepeatedName as error:
        raise SettingsError(path, error.name, "is there twice", "Delete one") from None
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise SettingsError(path, "", problem, "Correct the line") from None
    except (UnicodeDecodeError, RecursionError):
        fix = "Save it as UTF-8, or delete it for the defaults"
        raise SettingsError(path, "", "is not JSON text", fix) from None
    if not isinstance(document, dict):
        raise SettingsError(path, "", "is not a JSON object", "Write it as { ... }")
    return document


class _RepeatedName(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _refuse_repeated_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _RepeatedName(name)
        found[name] = value
    return found


def _decode_settings(path: Path, document: object) -> Settings:
    try:
        settings = msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:
        raise _explain_wrong_value(path, str(error)) from None
    for number, pattern in enumerate(settings.session.redact_patterns):
        try:
            re.compile(pattern)
        except re.error as error:
            field = f"session.redact_patterns[{number}]"
            problem = f"is not a regular expression ({error.msg})"
            raise SettingsError(path, field, problem, "Correct the pattern") from None
    return settings


def _explain_wrong_value(path: Path, message: str) -> SettingsError:
    place = _PLACE.search(message)
    field = place["field"] if place else ""
    problem = message[: place.start()] if place else message
    unknown = _UNKNOWN.match(problem)
    if unknown is None:
        return SettingsError(path, field, problem[:1].lower() + problem[1:], "Correct the value")
    name = unknown["field"]
    known = SessionSettings if field == "session" else Settings
    fix = f"Delete it, or use one of {', '.join(known.__struct_fields__)}"
    if _KEY_NAME.search(name):
        fix = "Delete it: API keys belong in environment variables or the keychain"
    return SettingsError(path, f"{field}.{name}".strip("."), "is not a setting", fix)
