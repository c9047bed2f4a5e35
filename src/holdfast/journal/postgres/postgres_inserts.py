"""Appends to a PostgreSQL journal, and the values of the statements that save them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import astuple

from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.core.run_fold import RunChange, make_change
from holdfast.journal.journal_names import check_name, check_text
from holdfast.journal.media_store import extract_media
from holdfast.journal.postgres.postgres_acts import make_act_values
from holdfast.journal.postgres.postgres_renewal import LeaseState
from holdfast.journal.postgres.postgres_statements import CHANGE_DEFAULTS, CHANGE_TYPES
from holdfast.journal.rows import EncodedRow, count_bytes, encode_append

_LONGEST_KEY = 2000  # bytes; below the limit of an index of the server


class Outcome(Enum):
    """The outcome of an append in a group.

    `UNKNOWN` means that a connection was lost meanwhile, so that an earlier attempt may have saved it.
    """

    SAVED = 1
    UNSAVED = 2
    UNKNOWN = 3


class Insert(Struct, frozen=True):
    """One append: its rows, their changes in the row of the run, and whose they are.

    Args:
        run: the run.
        rows: the rows of its records.
        names: the values by which statements name the run.
        change: its changes in the row of the run.
        agent: the agent of the turn, if the event opens one.
        request: the request of that turn; "" without one.
        lease: the lease; None without one. A lease that has no token begins with this append.
        ends: whether the lease ends with this append.
        media: the large bytes of its events, by digest.
        act: the values of the act that writes it; None without one.
    """

    run: str
    rows: Sequence[EncodedRow]
    names: Mapping[str, object]
    change: RunChange
    agent: str | None
    request: str
    lease: LeaseState | None
    ends: bool
    media: Mapping[str, bytes]
    act: dict[str, object] | None = None

    @property
    def is_alone(self) -> bool:
        """Whether it needs a transaction of its own, since it needs several statements."""
        return bool(self.media) or self.act is not None or self.change.is_rewind

    @property
    def bytes(self) -> int:
        """The bytes of its events and of their media."""
        return count_bytes(self.rows) + sum(map(len, self.media.values()))

    @property
    def key(self) -> object:
        """Two appends with the same key are of one run."""
        if self.lease is not None and self.lease.run_id:
            return self.lease.run_id
        return self.names["tenant"], self.names["name"]


def make_insert(
    names: Mapping[str, object],
    events: tuple[Event, Event | None],
    effect: Effect | None,
    *,
    lease: LeaseState | None,
    act: Act | None = None,
) -> Insert:
    """Encode an append.

    Args:
        names: the values by which statements name the run.
        events: the event, and the marker that follows it, if there is one.
        effect: the effect that the event ends, if it ends one.
        lease: the lease under which it is saved.
        act: the act that writes it.

    Raises:
        ConfigurationError: the event cannot be saved.
    """
    event, marker = events
    media: dict[str, bytes] = {}
    rows = [_encode_row(names, event, effect, media)]
    if marker is not None:
        rows.append(_encode_row(names, marker, None, media))
    opened = event if isinstance(event, TurnOpened) else None
    closes = isinstance(event, TurnClosed) or isinstance(marker, TurnClosed)
    return Insert(
        run=str(names["run"]),
        rows=rows,
        names=names,
        change=make_change(event, marker),
        agent=check_text(opened.agent, "name") if opened else None,
        request=check_name("request", opened.request) if opened and opened.request else "",
        lease=lease,
        ends=closes and lease is not None and lease.ends_with_turn,
        media=media,
        act=make_act_values(str(names["tenant"]), act) if act is not None else None,
    )


def _encode_row(
    names: Mapping[str, object], event: Event, effect: Effect | None, media: dict[str, bytes]
) -> EncodedRow:
    if len(check_text(event.key, "event.key").encode()) > _LONGEST_KEY:
        raise ConfigurationError("event.key", f"is longer than {_LONGEST_KEY} bytes")
    row = encode_append(str(names["tenant"]), str(names["run"]), event, effect)
    return row._replace(event=extract_media(row.event, media.__setitem__))


def make_insert_values(insert: Insert) -> dict[str, object]:
    """Make the values of the statements that save one append."""
    lease = insert.lease
    return {
        **insert.names,
        **_make_columns(insert.rows),
        **dict(zip(CHANGE_TYPES, _list_changes(insert), strict=True)),
        "request": insert.request,
        "run_id": lease.run_id if lease is not None else 0,
        "token": lease.token if lease is not None else 0,
        "ends": insert.ends,
    }


def make_group_values(inserts: Sequence[Insert]) -> dict[str, object]:
    """Make the values of the statement that saves appends under leases."""
    numbered = [(n, p, row) for n, i in enumerate(inserts, 1) for p, row in enumerate(i.rows, 1)]
    leases = [insert.lease for insert in inserts if insert.lease is not None]
    new = [one.names if one.lease and not one.lease.run_id else _NO_NAMES for one in inserts]
    return {
        **_make_columns([row for _, _, row in numbered]),
        "numbers": to_array([number for number, _, _ in numbered]),
        "places": to_array([place for _, place, _ in numbered]),
        "ids": to_array([lease.run_id for lease in leases]),
        "tokens": to_array([lease.token or None for lease in leases]),
        "versions": to_array([lease.records for lease in leases]),
        "owners": to_array([lease.owner if not lease.token else None for lease in leases]),
        **{
            f"{name}s": "{}"
            if values == (CHANGE_DEFAULTS.get(name),) * len(inserts)
            else to_array(values)
            for name, values in zip(
                CHANGE_TYPES, zip(*map(_list_changes, inserts), strict=True), strict=True
            )
        },
        "requests": to_array([insert.request for insert in inserts]),
        "ends": to_array([insert.ends for insert in inserts]),
        "tenants": to_array([names["tenant"] for names in new]),
        "names": to_array([names["name"] for names in new]),
        "runs": to_array([names["run"] for names in new]),
        "nested": to_array([names["nested"] for names in new]),
    }


def _list_changes(insert: Insert) -> tuple[object, ...]:
    """Return the values of `CHANGE_TYPES`."""
    times = [row.line.at for row in insert.rows]
    return (
        len(times),
        insert.bytes,
        min(times),
        max(times),
        insert.agent,
        *astuple(insert.change)[:-2],
    )


def make_owner_values(inserts: Sequence[Insert]) -> dict[str, object]:
    """Make the values of the statement that finds leases which these appends have begun."""
    return {
        "tenants": to_array([insert.names["tenant"] for insert in inserts]),
        "names": to_array([insert.names["name"] for insert in inserts]),
        "owners": to_array(
            [one.lease.owner if one.lease and not one.lease.token else None for one in inserts]
        ),
    }


_NO_NAMES: Mapping[str, object] = {"tenant": None, "name": None, "run": None, "nested": None}


def _make_columns(rows: Sequence[EncodedRow]) -> dict[str, object]:
    return {
        "keys": to_array([row.line.key for row in rows]),
        "digests": to_array([row.line.digest for row in rows]),
        "types": to_array([row.line.type for row in rows]),
        "times": to_array([row.line.at for row in rows]),
        "schemas": to_array([row.line.schema for row in rows]),
        "events": to_array([row.event for row in rows]),
        "checksums": to_array([row.checksum for row in rows]),
    }


def to_array(values: Iterable[object]) -> str:
    r"""Write an array as PostgreSQL reads it; the driver takes four times as long.

    >>> print(to_array(["a", 'b"\\', None, b"\x01", 1.5, True]))
    {"a","b\"\\",NULL,"\\x01",1.5,True}
    """
    return "{" + ",".join([_WRITERS.get(type(value), repr)(value) for value in values]) + "}"


def _write_text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_WRITERS: Mapping[type, Callable[..., str]] = {
    str: _write_text,
    bytes: lambda value: f'"\\\\x{value.hex()}"',
    type(None): lambda _: "NULL",
}
