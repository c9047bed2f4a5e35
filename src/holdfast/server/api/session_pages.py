"""Lists and searches sessions page by page, with a bounded amount of work for each page."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.hosting.tenant_service import TenantService
from holdfast.server.api.page_marks import PageMark, read_mark, write_mark
from holdfast.server.api.queued_sessions import find_queued, mark_queued, summarize_new
from holdfast.server.api.request_bodies import SessionsQuery
from holdfast.server.api.session_reading import summarize_session
from holdfast.server.api.views import SessionPage, SessionSummary
from holdfast.sessions.overview import SessionInfo
from holdfast.sessions.search import SearchHit

MOST_EXAMINED = 1000
"""How many sessions are looked at for one page."""

MOST_HITS = 1000
"""How many places are looked at for one page of a search."""


async def list_sessions_page(tenant: TenantService, query: SessionsQuery) -> SessionPage:
    """Return sessions, the latest change first; those that do not fit the query are left out."""
    found: list[SessionSummary] = []
    before = _read_mark(query.before) if query.before is not UNSET else None
    _check_prices(tenant, query)
    is_filtered = any(one is not UNSET for one in (query.agent, query.status, query.min_cost))
    queued = await find_queued(tenant)
    if before is None:  # sessions whose first turn is queued stand before all others
        found = [one for one in await summarize_new(tenant, queued) if _fits(one, query)]
    for _ in range(0, MOST_EXAMINED, query.limit):
        page = await tenant.sessions.list(limit=query.limit, before=before)
        for info in page:
            before = info
            if query.agent is UNSET or query.agent == info.agent:
                summary = mark_queued(
                    await summarize_session(tenant, info), queued.get(info.session)
                )
                if _fits(summary, query):
                    found.append(summary)
            if len(found) >= query.limit:
                return SessionPage(tuple(found), _write_mark(info))
        if len(page) < query.limit:
            return SessionPage(tuple(found))
        if not is_filtered:
            break
    return SessionPage(tuple(found), UNSET if before is None else _write_mark(before))


def _fits(summary: SessionSummary, query: SessionsQuery) -> bool:
    """Whether a session fits the filters of a query."""
    costs_enough = query.min_cost is UNSET or (
        summary.turn_cost is not UNSET and summary.turn_cost >= query.min_cost
    )
    is_chosen = query.agent in (UNSET, summary.agent)
    return costs_enough and is_chosen and query.status in (UNSET, summary.turn_status)


def _check_prices(tenant: TenantService, query: SessionsQuery) -> None:
    if query.min_cost is not UNSET and not tenant.prices:
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
    last = _read_mark(query.before).session if query.before is not UNSET else None
    start = names.index(last) + 1 if last in names else 0
    return await _pick(tenant, query, [first[name] for name in names[start:]])


async def _pick(
    tenant: TenantService, query: SessionsQuery, hits: Sequence[SearchHit]
) -> SessionPage:
    found: list[SessionSummary] = []
    for at, hit in enumerate(hits, 1):
        try:
            info = await tenant.sessions.info(hit.session)
        except ConfigurationError:
            continue  # it was deleted meanwhile
        if query.agent is UNSET or query.agent == info.agent:
            summary = await summarize_session(tenant, info)
            if _fits(summary, query):
                found.append(replace(summary, found=hit.text))
        if len(found) == query.limit and at < len(hits):
            return SessionPage(tuple(found), _write_mark(info))
    return SessionPage(tuple(found))


def _write_mark(info: SessionInfo) -> str:
    return write_mark(PageMark(info.changed_at, info.session))


def _read_mark(text: str) -> SessionInfo:
    """Return the last session of a page. Raises ConfigurationError if nobody got this text."""
    mark = read_mark(text, "before")
    return SessionInfo(
        session=mark.session,
        title="",
        turns=0,
        messages=0,
        opened_at=0.0,
        changed_at=mark.changed_at,
        status="closed",
    )
