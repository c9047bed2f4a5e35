"""Places: where the program keeps its files, by the XDG base directories.

This module must never create a folder: whoever writes does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from adh.storage.search_path import DEFAULT_FOLDERS, list_program_folders
from adh.storage.storage_errors import StorageError

_FOLDER = "adh-cli"


class Places(Struct, frozen=True, kw_only=True):
    """Where the program keeps its files.

    Args:
        config: settings, rules, preferences, aliases, agents.
        data: conversations, the audit log, backups, changes.
        project: the folder of the project, absolute and resolved.
        home: the person's home folder.
        program_folders: the absolute folders in which programs are searched, in order.
    """

    config: Path
    data: Path
    project: Path
    home: Path
    program_folders: tuple[str, ...] = DEFAULT_FOLDERS

    @property
    def settings_file(self) -> Path:
        """The settings."""
        return self.config / "config.json"

    @property
    def policies(self) -> Path:
        """The folder of the person's rules."""
        return self.config / "policies"

    @property
    def preferences_file(self) -> Path:
        """The person's preferences for rules."""
        return self.config / "policy_preferences.yaml"

    @property
    def aliases_file(self) -> Path:
        """The person's aliases of models."""
        return self.config / "model_aliases.json"

    @property
    def agents(self) -> Path:
        """The folder of the person's agents."""
        return self.config / "agents"

    @property
    def env_file(self) -> Path:
        """The person's API keys as environment variables."""
        return self.config / ".env"

    @property
    def project_env_file(self) -> Path:
        """The project's environment variables, which count once the person trusts the folder."""
        return self.project / ".env"

    @property
    def trust_file(self) -> Path:
        """The folders that the person trusts."""
        return self.data / "trusted.json"

    @property
    def journals(self) -> Path:
        """The folder of the conversations."""
        return self.data / "sessions"

    @property
    def audit_file(self) -> Path:
        """The audit log."""
        return self.data / "audit.log"

    @property
    def backups(self) -> Path:
        """The copies of files that were written or deleted."""
        return self.data / "backups"

    @property
    def changes(self) -> Path:
        """The folder of the agent's changes to files, for undo."""
        return self.data / "changes"

    @property
    def exports(self) -> Path:
        """The exported conversations."""
        return self.data / "exports"


def find_places(environ: Mapping[str, str], project: Path) -> Places:
    """Return the places of a person and a project.

    Args:
        environ: the environment: HOME, PATH, XDG_CONFIG_HOME and XDG_DATA_HOME. A relative XDG path is
            ignored, as its specification says.
        project: the folder of the project.

    Raises:
        StorageError: the project is not a folder, or no home folder is known.

    >>> find_places({"HOME": "/h", "XDG_DATA_HOME": "/d"}, Path("/")).settings_file
    PosixPath('/h/.config/adh-cli/config.json')
    """
    home = _find_home(environ)
    resolved = Path(os.path.realpath(project))
    if not resolved.is_dir():
        raise StorageError(project, "is not a folder", "Start the program in an existing folder")
    return Places(
        config=_find_base(environ, "XDG_CONFIG_HOME", home / ".config") / _FOLDER,
        data=_find_base(environ, "XDG_DATA_HOME", home / ".local" / "share") / _FOLDER,
        project=resolved,
        home=home,
        program_folders=list_program_folders(environ),
    )


def _find_home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    if Path(home).is_absolute():
        return Path(home)
    try:
        return Path.home()
    except RuntimeError:
        raise StorageError("~", "is not known", "Set HOME to your home folder") from None


def _find_base(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    given = environ.get(variable, "")
    return Path(given) if Path(given).is_absolute() else default
