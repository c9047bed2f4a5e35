"""Translates errors of the PostgreSQL driver and server into errors of a journal.

The messages contain no password and no content of records. Of a server's message only the primary
line is used, because the other lines quote rows.
"""

from __future__ import annotations

import os

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.core.detached_errors import detach_error
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.core.secret_values import SecretValues
from holdfast.journal.journal_errors import (
    JournalCorruptError,
    JournalError,
    JournalStorageError,
    JournalUnreachableError,
    JournalVersionError,
    transaction_pooling_error,
)

_STORAGE = {
    "53100": ("the disk of the server is full", "Free some space; the journal then continues"),
    "57014": ("the server took too long", "Check its locks and load, or increase the timeout"),
    "42501": (
        "this user lacks a privilege",
        "Grant it; to create the tables it needs CREATE on the schema",
    ),
    "3D000": ("the database does not exist", "Create it, or choose another"),
    "3F000": ("the search path contains no schema", "Create it, or choose another"),
}
_VERSION = {
    "42P01": ("its tables are missing", "Check whether the schema or the search path was changed"),
    "42703": ("its tables belong to another program", "Choose another schema or database"),
    "42P07": ("its tables belong to another program", "Choose another schema or database"),
}
_CORRUPT = ("XX001", "XX002")
# A prepared statement is there that this connection did not make, or is not there that it made.
_POOLED = ("42P05", "26000")
# Lost connections, a starting or stopping server, too many connections, a standby, a process that was
# stopped within its transaction, conflicts.
_PASSING = ("08", "57P", "53300", "25006", "25P03", "40001", "40P01")
# If the server refuses a connection, the driver reports a message without a code.
_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "not permitted")


class PostgresAddress:
    """The address of a server: the parts for the driver, and a form without the password.

    Args:
        url: `postgresql://user:password@host:port/database?...`, as in libpq.

    Raises:
        ConfigurationError: the address is invalid.
    """

    def __init__(self, url: str) -> None:
        parts = _parse_address(url)
        ports = str(parts.get("port") or "5432").split(",") if parts is not None else []
        # Not `raise ... from`: the driver's exception may quote the password.
        if parts is None or not all(port.isdecimal() or not port for port in ports):
            raise _invalid_address()
        self.parts = parts
        passwords = {str(parts.get("password") or ""), os.environ.get("PGPASSWORD", "")}
        self._secrets = SecretValues(passwords, shortest=1)
        self.location = _format_location(
            {name: str(value) for name, value in parts.items() if value}
        )

    def __repr__(self) -> str:
        return f"PostgresAddress({self.location!r})"

    def to_journal_error(self, error: Exception) -> JournalError:
        """Translate an error of the driver into a JournalError. Raise it outside the `except` block.

        The driver's exception does not become its context then; its cause is a copy without the
        password.
        """
        failure = self._translate_error(error)
        failure.__cause__ = detach_error(error, self._secrets)
        return failure

    def _translate_error(self, error: Exception) -> JournalError:
        code = getattr(error, "sqlstate", None) or ""
        message = self._redact_message(error)
        if code in _STORAGE:
            problem, fix = _STORAGE[code]
            return JournalStorageError(self.location, f"{problem} ({message})", fix=fix)
        if code in _VERSION:
            problem, fix = _VERSION[code]
            return JournalVersionError(self.location, f"{problem} ({message})", fix=fix)
        if code in _CORRUPT:
            return JournalCorruptError(
                self.location, f"is damaged: {message}", fix="Restore it from a backup"
            )
        if code in _POOLED:  # the pooler was changed after the journal was opened
            return transaction_pooling_error(self.location)
        if is_access_denied(error):
            fix = "Check user, password and database"
            return JournalStorageError(self.location, message, fix=fix)
        if is_transient(error):
            problem = f"cannot be reached: {message}"
            fix = "Start it, or check host and port"
            return JournalUnreachableError(self.location, problem, fix=fix)
        return JournalStorageError(
            self.location,
            f"{message} ({code or type(error).__name__})",
            fix="See the log of the server",
        )

    def _redact_message(self, error: Exception) -> str:
        diag = getattr(error, "diag", None)
        # An error without a primary message comes from the connection and quotes no row.
        text = getattr(diag, "message_primary", None) or str(error)
        if isinstance(error, TimeoutError):
            text = "the server did not respond in time"
        text = redact(self._secrets.remove_from(text))
        return " ".join(text.split())[:500] or type(error).__name__


def is_transient(error: Exception) -> bool:
    """Whether a retry on another connection can succeed."""
    code = getattr(error, "sqlstate", None) or ""
    if code:
        return code.startswith(_PASSING)
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    return lost and not is_access_denied(error)


def is_access_denied(error: Exception) -> bool:
    """Whether the server refused this user, so that a retry cannot succeed."""
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


def _parse_address(url: str) -> dict[str, str | int | None] | None:
    """Return the parts of an address, or None if it has no valid form."""
    if not url.startswith(("postgresql://", "postgres://")):
        return None
    server, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    if server.count("@") > 1 or "@" in path:
        return None  # a part of the password would be taken for the host or the database
    try:
        return dict(conninfo_to_dict(url))
    except (psycopg.Error, UnicodeError, ValueError):
        return None


def _invalid_address() -> ConfigurationError:
    return ConfigurationError(
        "url",
        "is not an address of a PostgreSQL database",
        fix="Write postgresql://user@host:5432/database; percent-encode special characters in a "
        "password, or put it into PGPASSWORD or ~/.pgpass",
    )
