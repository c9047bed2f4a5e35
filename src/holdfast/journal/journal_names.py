"""Checks the names of files, runs, tenants and requests, and digests the names of runs for PostgreSQL."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Annotated, TypeAlias

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import name_of
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import quote_setting

DEFAULT_TENANT = ""
"""The tenant of a journal that was opened without naming one."""

DELETED, UNFINISHED = "\0deleted", "\0unfinished"
"""The tenants of the runs that are being deleted, and of those that are being inserted."""

_LONGEST = 200

Name: TypeAlias = Annotated[str, name_of(_LONGEST)]
"""The name of a tenant, or a request."""


def check_name(argument: str, name: str) -> str:
    """Return the name of a tenant, or a request. Raises ConfigurationError if it is invalid."""
    check_value(argument, name, Name)
    return check_unicode(name, argument)


def check_unicode(name: str, argument: str = "session") -> str:
    """Return the name. Raises ConfigurationError if it is not valid Unicode."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(argument, "is not valid Unicode text") from None
    return name


def digest_name(run: str) -> bytes:
    """Return the digest by which a PostgreSQL journal finds a run of any length."""
    return sha256(check_text(run, "session").encode()).digest()


def check_text(text: str, argument: str) -> str:
    """Return the text. Raises ConfigurationError if a PostgreSQL server cannot store it."""
    if "\x00" in check_unicode(text, argument):
        raise ConfigurationError(
            argument, "contains a NUL character, which PostgreSQL cannot store"
        )
    return text


def resolve_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a journal, without symbolic links. Raises ConfigurationError."""
    name = os.fspath(path)
    check_value("path", name, str)
    if not name or name.startswith(("file:", ":")):
        raise ConfigurationError(
            "path",
            f"must name a file, got {quote_setting(name)}",
            fix="For memory use MemoryJournal()",
        )
    return str(Path(name).resolve())
