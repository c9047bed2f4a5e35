"""Appends to a PostgreSQL journal, and the values of the statements that save them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.journal.rows import EncodedRow


class Insert(Struct, frozen=True):
    """One append: its rows, what they say about the run, and whose they are.

    Args:
        run: the run.
        rows: the rows of its records.
        names: the values by which statements name the run.
        ticket: a random value that identifies this append.
        open: whether a turn is open after it; None if the event does not change that.
        agent: the agent of the turn, if the event opens one.
        request: the request of that turn; "" without one.
        token: the fencing token of the lease; None without a lease.
    """

    run: str
    rows: Sequence[EncodedRow]
    names: Mapping[str, object]
    ticket: bytes
    open: bool | None
    agent: str | None
    request: str
    token: int | None


def make_insert_values(insert: Insert) -> dict[str, object]:
    """Make the values of the statements that save one append."""
    times = [row.line.at for row in insert.rows]
    return {
        **insert.names,
        **_make_columns(insert.rows),
        "count": len(times),
        "first": min(times),
        "last": max(times),
        "ticket": insert.ticket,
        "open": insert.open,
        "agent": insert.agent,
        "request": insert.request,
        "token": insert.token,
    }


def make_group_values(inserts: Sequence[Insert]) -> dict[str, object]:
    """Make the values of the statement that saves appends under leases."""
    numbered = [(n, p, row) for n, i in enumerate(inserts, 1) for p, row in enumerate(i.rows, 1)]
    return {
        **_make_columns([row for _, _, row in numbered]),
        "numbers": [number for number, _, _ in numbered],
        "places": [place for _, place, _ in numbered],
        "tokens": [insert.token for insert in inserts],
        "counts": [len(insert.rows) for insert in inserts],
        "firsts": [min(row.line.at for row in insert.rows) for insert in inserts],
        "lasts": [max(row.line.at for row in insert.rows) for insert in inserts],
        "opens": [insert.open for insert in inserts],
        "agents": [insert.agent for insert in inserts],
        "requests": [insert.request for insert in inserts],
        "tickets": [insert.ticket for insert in inserts],
    }


def _make_columns(rows: Sequence[EncodedRow]) -> dict[str, object]:
    return {
        "keys": [row.line.key for row in rows],
        "digests": [row.line.digest for row in rows],
        "types": [row.line.type for row in rows],
        "times": [row.line.at for row in rows],
        "schemas": [row.line.schema for row in rows],
        "events": [row.event for row in rows],
        "checksums": [row.checksum for row in rows],
    }
