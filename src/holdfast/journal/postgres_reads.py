"""Reads of a PostgreSQL journal in groups: one statement for all runs that are read at the same time.

A run with many new records is left out of a group and read alone, so that the others do not wait for
it. Who is cancelled does not wait for the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias, cast

from holdfast.journal import postgres_statements as sql
from holdfast.journal.handoff import Handoff
from holdfast.journal.loop_thread import LoopThread
from holdfast.journal.postgres_groups import GroupLane
from holdfast.journal.postgres_inserts import to_array
from holdfast.journal.rows import SEQ, Row

Values = Mapping[str, object]


class FetchRows(Protocol):
    """Fetches the rows of a statement, in the thread of the journal."""

    async def __call__(self, statement: str, values: Values) -> list[Row]:
        """Return the rows."""
        ...


class ReadGroups:
    """Reads runs in groups.

    Args:
        thread: the thread of the journal.
        fetch: fetches the rows of a statement in that thread.
    """

    def __init__(self, thread: LoopThread, fetch: FetchRows) -> None:
        def make_lane(statement: str, join: Callable[[Sequence[Values]], Values]) -> ReadLane:
            perform = partial(_read_group, fetch, statement, join)
            return GroupLane(thread, perform, may_be_withdrawn=True)

        self._lines = make_lane(sql.LINES_GROUP, _join_lines)
        self._keys = make_lane(sql.KEYS_GROUP, _join_names)
        self._picked = make_lane(sql.PICK_GROUP, _join_keys)

    async def fetch_lines(self, values: Values) -> list[Row] | None:
        """Return what the statement LINES returns; None if the run must be read alone."""
        rows = await _submit(self._lines, values)
        is_partial = rows and rows[0][SEQ] is None and rows[0][-1] != values["after"]
        return None if is_partial else rows

    def fetch_keys(self, values: Values) -> Handoff[list[Row]]:
        """Return the keys of a run."""
        return _submit(self._keys, values)

    def fetch_picked(self, values: Values) -> Handoff[list[Row]]:
        """Return the records of a run that have one of the keys `keys`."""
        return _submit(self._picked, values)


ReadLane: TypeAlias = GroupLane[Values, list[Row]]


def _submit(lane: ReadLane, values: Values) -> Handoff[list[Row]]:
    return lane.submit(values, object())


async def _read_group(
    fetch: FetchRows,
    statement: str,
    join: Callable[[Sequence[Values]], Values],
    jobs: Sequence[Values],
) -> Sequence[list[Row]]:
    found: list[list[Row]] = [[] for _ in jobs]
    for number, *row in await fetch(statement, join(jobs)):
        found[int(str(number)) - 1].append(tuple(row))
    return found


def _join_names(jobs: Sequence[Values]) -> dict[str, object]:
    return {f"{name}s": to_array([job[name] for job in jobs]) for name in ("tenant", "name")}


def _join_lines(jobs: Sequence[Values]) -> Values:
    return {**_join_names(jobs), "afters": to_array([job["after"] for job in jobs])}


def _join_keys(jobs: Sequence[Values]) -> Values:
    pairs = [(number, key) for number, job in enumerate(jobs, 1) for key in _read_keys(job)]
    return {
        **_join_names(jobs),
        "numbers": to_array([number for number, _ in pairs]),
        "keys": to_array([key for _, key in pairs]),
    }


def _read_keys(job: Values) -> set[str]:
    """Return the wanted keys that a record can have; one other key would fail the whole group."""
    keys = cast("Sequence[str]", job["keys"])
    return {
        key for key in keys if "\x00" not in key and key.encode(errors="ignore").decode() == key
    }
