"""The words of an error that ends a command, and its exit status.

This is the one place where an error of a command becomes text. A message must never have a secret, nor a
control character of a model or a file.
"""

from __future__ import annotations

from msgspec import Struct

from adh.agents.agent_file import AgentFileError
from adh.approval.call_facts import FactsError
from adh.commands.exit_statuses import CommandError, ExitStatus
from adh.rules.yaml_tree import RulesError
from adh.storage.settings import SettingsError
from adh.storage.storage_errors import StorageError
from adh.workspace.session_files import SessionError
from holdfast import ConfigurationError, HoldfastError
from holdfast.errors import redact
from holdfast.middleware import escape_invisible

_LONGEST = 2_000


class ErrorMessage(Struct, frozen=True):
    """The lines that are printed, and the exit status."""

    lines: tuple[str, ...]
    status: ExitStatus


def describe_error(error: Exception) -> ErrorMessage:
    """Return the message of an error.

    Args:
        error: the error of a command.

    >>> describe_error(FileNotFoundError(2, "No such file or directory", "rules.yaml")).lines
    ('adh: rules.yaml: No such file or directory',)
    """
    match error:
        case CommandError():
            lines = [str(error), *([error.fix] if error.fix else [])]
            return _make_message(lines, error.status)
        case AgentFileError() | FactsError() | RulesError() | SessionError() | SettingsError():
            return _make_message(str(error).splitlines(), ExitStatus.BLOCKED)
        case StorageError():
            return _make_message([str(error)], ExitStatus.FAILED)
        case ConfigurationError():
            return _make_message(str(error).splitlines(), ExitStatus.BLOCKED)
        case HoldfastError():
            return _make_message(str(error).splitlines(), ExitStatus.FAILED)
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            return _make_message([f"{place}{error.strerror or error}"], ExitStatus.FAILED)
    return _make_message(
        [
            f"an unexpected error: {type(error).__name__}: {error}",
            "adh --debug shows where it comes from.",
        ],
        ExitStatus.FAILED,
    )


def _make_message(lines: list[str], status: ExitStatus) -> ErrorMessage:
    shown = [escape_invisible(redact(line))[:_LONGEST] for line in lines if line.strip()]
    first, *rest = shown or ["failed"]
    return ErrorMessage((f"adh: {first}", *(f"     {line}" for line in rest)), status)
