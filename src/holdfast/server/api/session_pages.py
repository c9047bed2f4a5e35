"""Lists and searches sessions page by page, with a bounded amount of work for each page.

The `next` of a page marks its end; a client passes it for the page after it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.session_rows import SessionQuery, SessionRow
from holdfast.server.api.queued_sessions import (
    find_queued,
    is_new,
    mark_queued,
    summarize_new,
)
from holdfast.server.api.request_bodies import SessionsQuery
from holdfast.server.api.session_reading import summarize_session
from holdfast.server.api.views import SessionPage, SessionSummary
from holdfast.sessions.names import title_run
from holdfast.sessions.overview import find_position
from holdfast.sessions.search import SearchHit

MOST_EXAMINED = 1000
"""How many rows of the journal are looked at for one page, if the queue changes them."""

MOST_HITS = 1000
"""How many places are looked at for one page of a search."""


async def list_sessions_page(tenant: TenantService, query: SessionsQuery) -> SessionPage:
    """Return sessions, the latest change first; those that do not fit the query are left out."""
    _check_prices(tenant, query)
    queued = await find_queued(tenant)
    found: list[SessionSummary] = []
    wanted = await _make_filter(tenant, query, queued)
    if wanted.before is None:  # sessions whose first turn is queued stand before all others
        found = [one for one in await summarize_new(tenant, queued) if _fits(one, query)]
    row: SessionRow | None = None
    for _ in range(0, MOST_EXAMINED, query.limit):
        page = await tenant.journal.list_sessions(wanted)
        for row in page:
            if is_new(row, queued):
                continue  # it stands before all others
            summary = mark_queued(summarize_session(tenant, row), queued.get(row.session))
            if _fits(summary, query):
                found.append(summary)
            if len(found) >= query.limit:
                return SessionPage(tuple(found), _write_mark(row))
        if row is None or len(page) < query.limit:
            return SessionPage(tuple(found))
        wanted = replace(wanted, before=(row.changed_at, row.run))
    return SessionPage(tuple(found), UNSET if row is None else _write_mark(row))


async def _make_filter(
    tenant: TenantService, query: SessionsQuery, queued: Mapping[str, InboxEntry]
) -> SessionQuery:
    """Return which rows the journal is asked for. It knows nothing of the queue."""
    before = None
    if query.before is not UNSET:
        mark = read_mark(query.before, "before")
        before = await find_position(tenant.journal, mark.changed_at, mark.session)
    status = None if query.status is UNSET or query.status == "queued" else query.status
    return SessionQuery(
        limit=query.limit,
        before=before,
        agent=None if query.agent is UNSET else query.agent,
        status=status,
        min_cost=None if query.min_cost is UNSET else query.min_cost,
        names=tuple(queued) if query.status == "queued" else None,
        driven=tenant.runner.driven_sessions,
    )


def _fits(summary: SessionSummary, query: SessionsQuery) -> bool:
    """Whether a session fits the filters of a query."""
    costs_enough = query.min_cost is UNSET or (
        summary.turn_cost is not UNSET and summary.turn_cost >= query.min_cost
    )
    is_chosen = query.agent in (UNSET, summary.agent)
    return costs_enough and is_chosen and query.status in (UNSET, summary.turn_status)


def _check_prices(tenant: TenantService, query: SessionsQuery) -> None:
    if query.min_cost is not UNSET and not tenant.has_prices:
        fix = "Pass --prices to holdfast serve, or ServiceOptions(prices=...) to create_app"
        raise ConfigurationError("min_cost", "the service has no prices", fix=fix)


async def find_sessions(tenant: TenantService, query: SessionsQuery, text: str) -> SessionPage:
    """Return the sessions that contain a text, the latest place first."""
    if not text.strip():
        raise ConfigurationError("q", "is blank", fix="Leave it out, or pass a text")
    _check_prices(tenant, query)
    hits = await tenant.sessions.search(text, limit=MOST_HITS)
    first: dict[str, SearchHit] = {}
    for hit in hits:
        first.setdefault(hit.session, hit)
    names = list(first)
    last = read_mark(query.before, "before").session if query.before is not UNSET else None
    start = names.index(last) + 1 if last in names else 0
    return await _pick(tenant, query, [first[name] for name in names[start:]])


async def _pick(
    tenant: TenantService, query: SessionsQuery, hits: Sequence[SearchHit]
) -> SessionPage:
    found: list[SessionSummary] = []
    for start in range(0, len(hits), query.limit):
        part = hits[start : start + query.limit]
        rows = await find_rows(tenant, [hit.session for hit in part])
        for at, hit in enumerate(part, start + 1):
            row = rows.get(hit.session)
            if row is None:
                continue  # it was deleted meanwhile
            summary = summarize_session(tenant, row)
            if _fits(summary, query):
                found.append(replace(summary, found=hit.text))
            if len(found) == query.limit and at < len(hits):
                return SessionPage(tuple(found), _write_mark(row))
    return SessionPage(tuple(found))


async def find_rows(tenant: TenantService, sessions: Sequence[str]) -> Mapping[str, SessionRow]:
    """Return the rows of sessions by their names; those that are not there are left out."""
    names = (*sessions, *map(title_run, sessions))
    wanted = SessionQuery(limit=len(names), names=names)
    return {row.session: row for row in await tenant.journal.list_sessions(wanted)}


def _write_mark(row: SessionRow) -> str:
    return write_mark(PageMark(row.changed_at, row.session))


class PageMark(Struct, frozen=True, array_like=True):
    """The end of a page, which `next` says.

    Args:
        changed_at: the time of the latest record of its last session.
        session: its last session.
    """

    changed_at: float
    session: str


def write_mark(mark: PageMark) -> str:
    """Return a mark as text.

    >>> read_mark(write_mark(PageMark(1.5, "ada")), "before")
    PageMark(changed_at=1.5, session='ada')
    """
    return urlsafe_b64encode(msgspec.json.encode(mark)).decode().rstrip("=")


def read_mark(text: str, field: str) -> PageMark:
    """Return the mark that a client passed.

    Args:
        text: the mark as text.
        field: the field of the query, for the error.

    Raises:
        ConfigurationError: nobody got this text.
    """
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        return msgspec.json.decode(urlsafe_b64decode(padded), type=PageMark)
    except (ValueError, msgspec.DecodeError):
        raise ConfigurationError(
            field, "is not the `next` of a page", fix="Pass `next` as it was given, or nothing"
        ) from None
