"""The schema: numbered files of plain SQL, each applied once."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from registration.store.errors import SchemaRefused
from registration.store.transaction import Transaction

_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_files (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL
)"""


class SchemaFile(NamedTuple):
    """One file of the schema."""

    number: int
    name: str
    digest: str
    statements: tuple[str, ...]


def migrate(tx: Transaction) -> None:
    """Apply the files that this database lacks, under a lock, all or none.

    Raises:
        SchemaRefused: the database has a file that this program does not know, or an edited one.
    """
    tx.lock_schema()
    tx.execute(_VERSIONS)
    applied = {row["number"]: row["digest"] for row in tx.execute("SELECT * FROM schema_files")}
    known = read_schema()
    if set(applied) - {file.number for file in known}:
        raise SchemaRefused(
            f"the database has schema {max(applied)}, and this program knows {known[-1].number}: "
            "install the newer version of the program"
        )
    for file in known:
        if file.number not in applied:
            _apply(tx, file)
        elif applied[file.number] != file.digest:
            raise SchemaRefused(
                f"{file.name} was edited after it was applied to this database: put the change "
                "into a file with the next number"
            )


def read_schema() -> list[SchemaFile]:
    """Return the files of the schema by their numbers."""
    found = []
    for entry in files("registration.store").joinpath("schema").iterdir():
        if entry.name.endswith(".sql"):
            text = entry.read_text("utf-8")
            digest = sha256(text.encode()).hexdigest()
            found.append(SchemaFile(int(entry.name[:4]), entry.name, digest, _split(text)))
    return sorted(found)


def _split(text: str) -> tuple[str, ...]:
    lines = [line.partition("--")[0].rstrip() for line in text.splitlines()]
    statements = "\n".join(line for line in lines if line).split(";")
    return tuple(statement.strip() for statement in statements if statement.strip())


def _apply(tx: Transaction, file: SchemaFile) -> None:
    for statement in file.statements:
        tx.execute(statement)
    row = (file.number, file.name, file.digest)
    tx.execute("INSERT INTO schema_files (number, name, digest) VALUES (?, ?, ?)", *row)
