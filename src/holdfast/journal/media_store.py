r"""Keeps the bytes of pictures and files once in a journal, however many records contain them.

In the text of an event or a snapshot, large bytes are replaced by a reference to their digest:

    "data":"\u0040 and the digest in hexadecimal"

This cannot be confused with other data: Holdfast writes the character `@` itself and never as this
escape. Reading puts the bytes back, before the checksum of the record is compared. Bytes that no run
uses any more are deleted with the last run that used them.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

LEAST = 4096
"""The least number of characters of encoded bytes that are kept apart."""

_BYTES = re.compile(rf'"data":"([A-Za-z0-9+/]{{{LEAST},}}={{0,2}})"')
_MARK = '"data":"\\u0040'
_REFERENCE = re.compile(r'"data":"\\u0040([0-9a-f]{64})"')

_NEXT_USE = "SELECT digest FROM media_uses WHERE run = ? LIMIT 1"
_DELETE_USE = "DELETE FROM media_uses WHERE run = ? AND digest = ?"
_DELETE_UNUSED = """
DELETE FROM media WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM media_uses WHERE digest = ?1)
"""


def move_media_out(text: str, run: int, connection: sqlite3.Connection) -> str:
    """Save the large bytes in a JSON text, and return the text with references to them.

    Args:
        text: the text of an event or a snapshot.
        run: the id of the run that uses them.
        connection: a connection in a transaction.
    """
    return extract_media(text, partial(_save_bytes, run, connection))


def extract_media(text: str, save: Callable[[str, bytes], object]) -> str:
    """Return a JSON text with references in place of its large bytes.

    Args:
        text: the text of an event or a snapshot.
        save: receives the digest of the bytes, and the bytes.
    """
    if len(text) < LEAST:
        return text

    def replace(found: re.Match[str]) -> str:
        data = b64decode(found[1]) if len(found[1]) % 4 == 0 else b""
        if b64encode(data).decode() != found[1]:
            return found[0]  # not as Holdfast writes bytes: it could not be put back
        digest = blake2b(data, digest_size=32).hexdigest()
        save(digest, data)
        return f'{_MARK}{digest}"'

    return _BYTES.sub(replace, text)


def _save_bytes(run: int, connection: sqlite3.Connection, digest: str, data: bytes) -> None:
    connection.execute("INSERT OR IGNORE INTO media (digest, data) VALUES (?, ?)", (digest, data))
    connection.execute(
        "INSERT OR IGNORE INTO media_uses (run, digest) VALUES (?, ?)", (run, digest)
    )


def has_media(text: str) -> bool:
    """Whether a JSON text has references to bytes."""
    return _MARK in text


def drop_media(text: str) -> str:
    """Return a JSON text that can be decoded without the bytes that its references name."""
    return _REFERENCE.sub('"data":""', text)


def put_media_back(text: str, connection: sqlite3.Connection) -> str:
    """Replace the references in a JSON text by the bytes; a missing one stays as it is."""
    return restore_media(text, partial(_load_bytes, connection))


def find_media(text: str) -> list[str]:
    """Return the digests of the bytes that a JSON text refers to."""
    return _REFERENCE.findall(text) if has_media(text) else []


def restore_media(text: str, load: Callable[[str], object]) -> str:
    """Return a JSON text with its bytes in place of the references.

    Args:
        text: the text with references.
        load: returns the bytes of a digest. A reference without bytes stays as it is.
    """

    def replace(found: re.Match[str]) -> str:
        data = load(found[1])
        if not isinstance(data, bytes):
            return found[0]  # the checksum of the record then does not match
        return f'"data":"{b64encode(data).decode()}"'

    return _REFERENCE.sub(replace, text)


def _load_bytes(connection: sqlite3.Connection, digest: str) -> object:
    row = connection.execute("SELECT data FROM media WHERE digest = ?", (digest,)).fetchone()
    return row[0] if row is not None else None


def delete_one_medium(run: int, connection: sqlite3.Connection) -> bool:
    """Delete one use of bytes by this run, and the bytes if nothing else uses them.

    Returns:
        Whether the run had a use of bytes.
    """
    found = connection.execute(_NEXT_USE, (run,)).fetchone()
    if found is None:
        return False
    connection.execute(_DELETE_USE, (run, *found))
    connection.execute(_DELETE_UNUSED, found)
    return True
