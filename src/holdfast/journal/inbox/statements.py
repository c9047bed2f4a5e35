"""Statements of the inbox as values, and transactions as generators that yield them.

A transaction is written once for every database: it yields statements, is sent their rows, and returns
its result. It is pure, so a test can stop it, or interleave it with another one, at any statement. This
module must never execute a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")

Row: TypeAlias = Sequence[object]

Now: TypeAlias = Callable[[], float]
"""Returns the time in seconds since the epoch."""


class Statement(Struct, frozen=True):
    """One statement.

    Args:
        text: the SQL that SQLite and PostgreSQL both understand. A parameter is written `:name`;
            `:now` is the time of the transaction, which the database or a clock gives.
        values: the parameters but `now`.
    """

    text: str
    values: Mapping[str, object] = {}


Transaction: TypeAlias = Generator[Statement, Sequence[Row], T]
"""Yields statements, is sent their rows, and returns the result."""
