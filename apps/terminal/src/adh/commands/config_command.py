"""`adh config`: the settings and where everything is; changes one setting.

A key must never be an argument, nor be saved with the settings.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from adh.commands.exit_statuses import CommandError
from adh.storage.api_keys import ApiKeys, explain_missing_key, open_keychain
from adh.storage.places import Places, find_places
from adh.storage.settings import Settings, change_settings, load_settings
from adh.storage.trust import TrustedFolders
from holdfast.middleware import escape_invisible


def main(args: argparse.Namespace) -> int:
    """Show the settings, or change one; return the exit status.

    Args:
        args: the words of the command.

    Raises:
        SettingsError: the file has an error, or a value is wrong.
        CommandError: there is no such setting.
    """
    places = find_places(os.environ, Path.cwd())
    if args.action == "key":
        return store_key(args.provider, ApiKeys(os.environ, (), open_keychain()))
    if args.action in ("trust", "distrust"):
        return change_trust(places, is_trusted=args.action == "trust")
    if args.action == "set":
        settings = change_settings(
            places, build_change(load_settings(places), args.name, parse_value(args.value))
        )
        shown = flatten_settings(settings)[args.name]
        print(escape_invisible(f"{args.name} = {shown}"))
        return 0
    for line in describe_settings(load_settings(places), places):
        print(escape_invisible(line))
    return 0


def change_trust(places: Places, *, is_trusted: bool) -> int:
    """Trust the folder of the project, or take it back; return the exit status.

    Args:
        places: the folder and the list of trusted ones.
        is_trusted: whether it is trusted from now on.

    Raises:
        StorageError: the list cannot be written.
    """
    folders = TrustedFolders(places.trust_file)
    if is_trusted:
        folders.trust(places.project)
    else:
        folders.forget(places.project)
    word = "is trusted" if is_trusted else "is not trusted"
    print(escape_invisible(f"{places.project} {word}"))
    return 0


def store_key(provider: str, keys: ApiKeys) -> int:
    """Ask for the key of a provider and save it in the system's keychain; return the exit status.

    Args:
        provider: its name, such as "gemini".
        keys: where it is saved.

    Raises:
        ConfigurationError: there is no such provider.
        ApiKeyError: there is no keychain, or the provider needs no key.
        CommandError: nothing was typed, or there is no terminal to ask at.
    """
    hint = explain_missing_key(provider)
    if not keys.has_keychain:
        raise CommandError("this system has no keychain that can be used", fix=hint)
    if not sys.stdin.isatty():
        raise CommandError("a key is typed at a terminal, and standard input is none", fix=hint)
    key = getpass.getpass(f"Key of {provider} (it is not shown): ").strip()
    if not key:
        raise CommandError("no key was typed, and nothing was saved")
    keys.save_key(provider, key)
    print(f"The key of {provider} is in the keychain.")
    return 0


def parse_value(text: str) -> object:
    """Return a JSON value; a text that is no JSON stands for itself.

    >>> parse_value("0.5"), parse_value("light")
    (0.5, 'light')
    """
    try:
        value: object = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return value


def build_change(settings: Settings, name: str, value: object) -> dict[str, object]:
    """Return the change of one setting, as `change_settings` takes it.

    Args:
        settings: the settings that hold.
        name: its name, such as "theme" or "session.capture".
        value: the new value.

    Raises:
        CommandError: there is no such setting.
    """
    known = flatten_settings(settings)
    if name not in known:
        raise CommandError(f"{name} is no setting", fix=f"Use one of {', '.join(known)}")
    group, _, field = name.rpartition(".")
    if not group:
        return {field: value}
    inner = msgspec.to_builtins(getattr(settings, group))
    return {group: {**inner, field: value}}


def flatten_settings(settings: Settings) -> dict[str, str]:
    """Return each setting as JSON, by its dotted name.

    >>> flatten_settings(Settings())["session.capture"]
    'true'
    """
    flat: dict[str, str] = {}
    document: Mapping[str, object] = msgspec.to_builtins(settings)
    for name, value in document.items():
        fields = value if isinstance(value, dict) else {"": value}
        for field, one in fields.items():
            flat[f"{name}.{field}".rstrip(".")] = msgspec.json.encode(one).decode()
    return flat


def describe_settings(settings: Settings, places: Places) -> list[str]:
    """Return the settings and the places of all files, a line each.

    Args:
        settings: the settings that hold.
        places: where the files are.
    """
    flat = flatten_settings(settings)
    files = {
        "settings": places.settings_file,
        "rules": places.policies,
        "preferences": places.preferences_file,
        "model aliases": places.aliases_file,
        "agents": places.agents,
        "conversations": places.journals,
        "audit log": places.audit_file,
        "backups": places.backups,
        "exports": places.exports,
    }
    width = max(map(len, [*flat, *files]))
    lines = [f"{name:<{width}}  {value}" for name, value in flat.items()]
    lines.append("")
    for name, path in files.items():
        missing = "" if path.exists() else " (not there yet)"
        lines.append(f"{name:<{width}}  {path}{missing}")
    return lines
