"""What the driver of PostgreSQL and its server say, as errors of a journal. The password never.

It must never put the content of a record into a text: of a server's message only the first line
is kept, since the others quote rows.
"""

from __future__ import annotations

import os

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_errors import (
    JournalCorruptError,
    JournalError,
    JournalStorageError,
    JournalUnreachableError,
    JournalVersionError,
)

_STORAGE = {
    "53100": ("the disk of the server is full", "Free some space; the journal goes on by itself"),
    "57014": ("the server took too long", "Look for locks and for load; or raise timeout"),
    "42501": (
        "this user may not do that",
        "Grant it; making the tables needs CREATE on the schema",
    ),
    "3D000": ("there is no such database", "Create it, or choose another"),
    "3F000": ("the search path names no schema", "Create it, or choose another"),
}
_VERSION = {
    "42P01": ("its tables are gone", "Was the schema changed, or the search path?"),
    "42703": ("its tables are of another program", "Choose another schema or database"),
    "42P07": ("its tables are of another program", "Choose another schema or database"),
}
_CORRUPT = ("XX001", "XX002")
# Lost connections, a server that starts or stops, too many connections, a standby, lost races.
_PASSING = ("08", "57P", "53300", "25006", "40001", "40P01")
# A refusal at the door carries no code, only words.
_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "not permitted")


class PostgresAddress:
    """Where the server is: what the driver needs, and what people may see of it.

    Args:
        url: `postgresql://user:password@host:port/database?...`, as libpq reads it.

    Raises:
        ConfigurationError: it is no such address.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(("postgresql://", "postgres://")):
            raise _invalid_address()
        try:
            self.parts = conninfo_to_dict(url)
        except (psycopg.Error, UnicodeError, ValueError):
            # Without its cause, which may quote the password.
            raise _invalid_address() from None
        ports = str(self.parts.get("port") or "5432").split(",")
        if not all(port.isdecimal() or not port for port in ports):
            raise _invalid_address()
        secrets = {str(self.parts.get("password") or ""), os.environ.get("PGPASSWORD", "")}
        self._secrets = sorted((s for s in secrets if s), key=len, reverse=True)
        self.location = _format_location(
            {name: str(value) for name, value in self.parts.items() if value}
        )

    def __repr__(self) -> str:
        return f"Address({self.location!r})"

    def to_journal_error(self, error: Exception) -> JournalError:
        """What an error of the driver means for whoever has to mend it."""
        code = getattr(error, "sqlstate", None) or ""
        said = self._redact_message(error)
        if code in _STORAGE:
            problem, fix = _STORAGE[code]
            return JournalStorageError(self.location, f"{problem} ({said})", fix=fix)
        if code in _VERSION:
            problem, fix = _VERSION[code]
            return JournalVersionError(self.location, f"{problem} ({said})", fix=fix)
        if code in _CORRUPT:
            return JournalCorruptError(
                self.location, f"is damaged: {said}", fix="Restore it from a backup"
            )
        if is_access_denied(error):
            return JournalStorageError(self.location, said, fix="Check user, password and database")
        if is_transient(error):
            return JournalUnreachableError(
                self.location, f"cannot be reached: {said}", fix="Start it, or check host and port"
            )
        return JournalStorageError(
            self.location,
            f"{said} ({code or type(error).__name__})",
            fix="Look into the server's log",
        )

    def _redact_message(self, error: Exception) -> str:
        diag = getattr(error, "diag", None)
        # Without a message of its own it comes from the way there, and quotes no row.
        text = getattr(diag, "message_primary", None) or " ".join(str(error).split())[:500]
        if isinstance(error, TimeoutError):
            text = "no answer came in time"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text or type(error).__name__


def is_transient(error: Exception) -> bool:
    """Whether trying again on another connection can help."""
    code = getattr(error, "sqlstate", None) or ""
    if code:
        return code.startswith(_PASSING)
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    return lost and not is_access_denied(error)


def is_access_denied(error: Exception) -> bool:
    """Whether the server refused to be talked to by this user, which no patience changes."""
    code = getattr(error, "sqlstate", None) or ""
    if code:
        return code.startswith("28")
    text = str(error)
    return "FATAL" in text and any(word in text for word in _REFUSED)


def _format_location(parts: dict[str, str]) -> str:
    user = parts["user"] + "@" if "user" in parts else ""
    host = parts.get("host") or parts.get("hostaddr", "")
    port = ":" + parts["port"] if "port" in parts else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname', '')}"


def _invalid_address() -> ConfigurationError:
    return ConfigurationError(
        "url",
        "is no address of a PostgreSQL database",
        fix="Write postgresql://user@host:5432/database; a password with special characters is "
        "percent-encoded, or stands in PGPASSWORD or ~/.pgpass",
    )
