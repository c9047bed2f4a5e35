"""Between rows and typed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from registration.store.connection import Row

T = TypeVar("T")

_SUFFIX = "_json"


def read_row(row: Row, type_: type[T]) -> T:
    """Return a row as a Struct: JSON columns decoded, and their names without the suffix."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if not name.endswith(_SUFFIX):
            values[name] = value
        elif value is not None:
            values[name.removesuffix(_SUFFIX)] = msgspec.json.decode(value)
    # Not strict: flags are 0 or 1.
    return msgspec.convert(values, type_, strict=False)


def write_json(value: object) -> str:
    """Return a value as JSON for a column."""
    return msgspec.json.encode(value).decode()


def read_json(text: str) -> dict[str, Any]:
    """Return the object in a JSON column."""
    return msgspec.json.decode(text, type=dict[str, Any])


def describe(record: msgspec.Struct, shown: tuple[str, ...]) -> str:
    """Return a `repr` of a Struct with personal data: only the named fields are shown."""
    fields = ", ".join(f"{name}={getattr(record, name)!r}" for name in shown)
    return f"{type(record).__name__}({fields}, ...)"


def keep_known(values: Mapping[str, object], known: frozenset[str]) -> None:
    """Raise ValueError if a name is not a column that a caller may write."""
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"no such column: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
