"""Describes each session for a list, from its keys and a few records.

It reads a whole session only if the journal cannot find single records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.effects import closed_key, turn_key
from holdfast.core.events import SessionRewound, SessionTitled, TurnOpened
from holdfast.core.messages import Message
from holdfast.core.question_log import ASKED
from holdfast.journal.port import RunEntry
from holdfast.sessions.names import (
    LONGEST_TITLE,
    TITLES,
    find_related_runs,
    is_session,
    title_run,
    tool_run_range,
)
from holdfast.sessions.session_history import list_surviving_turns
from holdfast.sessions.session_index import SessionIndex

_LONGEST_BEGINNING = 80

SessionStatus: TypeAlias = Literal["closed", "open", "waiting"]
"""The last turn has ended; it has not; or it has not and waits for an answer."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """One session in a list of sessions.

    Args:
        session: its id, as for `agent.run(session=...)`.
        title: its title, or without one the beginning of its first message.
        turns: the number of turns that count: not the rewound ones, but the failed ones.
        messages: the approximate number of messages in these turns, by users, models and tools.
        opened_at: the time of its first record, in seconds since the epoch.
        changed_at: the time of its latest record, in seconds since the epoch.
        status: "closed", "open" (the last turn has not ended) or "waiting" (for an answer).
        agent: the name of the agent of the latest turn.
    """

    session: str
    title: str
    turns: int
    messages: int
    opened_at: float
    changed_at: float
    status: SessionStatus
    agent: str = ""


async def list_entries(
    journal: SessionIndex, limit: int, before: SessionInfo | None
) -> list[RunEntry]:
    """List the sessions of a journal, the latest change first, including those without turns.

    Args:
        journal: the journal.
        limit: the maximum number of sessions.
        before: the last session of the previous page.
    """
    found: list[RunEntry] = []
    position = await _find_position(journal, before) if before is not None else None
    while len(found) < limit:
        page = await journal.recent_runs(limit, position)
        found += [entry for entry in await _select_sessions(journal, page) if entry is not None]
        if len(page) < limit:
            break
        position = (page[-1].changed_at, page[-1].run)
    return found[:limit]


async def _find_position(journal: SessionIndex, before: SessionInfo) -> tuple[float, str]:
    """Return the position of a session in the list of runs."""
    name = before.session
    return before.changed_at, name if await journal.find_runs(name, name) else title_run(name)


async def _select_sessions(
    journal: SessionIndex, page: Sequence[RunEntry]
) -> Sequence[RunEntry | None]:
    """Return the session of each run; None for the titles of a session that has turns."""

    async def select(entry: RunEntry) -> RunEntry | None:
        if not entry.run.endswith(TITLES):
            return entry
        session = entry.run.removesuffix(TITLES)
        return (
            None if await journal.find_runs(session, session) else _make_empty_entry(session, entry)
        )

    return await asyncio.gather(*map(select, page))


def _make_empty_entry(session: str, titles: RunEntry) -> RunEntry:
    return RunEntry(session, 0, titles.opened_at, titles.changed_at)


async def find_entry(journal: SessionIndex, session: str) -> RunEntry | None:
    """Find one session; None if it does not exist."""
    names = (session, title_run(session)) if is_session(session) else ()
    for name in names:
        for entry in await journal.find_runs(name, name):
            return entry if name == session else _make_empty_entry(session, entry)
    return None


async def find_session_runs(journal: SessionIndex, session: str) -> list[str]:
    """Return the names of a session and of the runs that belong to it, of those that exist, sorted."""
    title = title_run(session)
    ranges = (session, session), (title, title), tool_run_range(session)
    found = [journal.find_runs(first, last) for first, last in ranges]
    names = {entry.run for entries in await asyncio.gather(*found) for entry in entries}
    return sorted({*find_related_runs(session, names), *(names & {session})})


async def info_of(journal: SessionIndex, entry: RunEntry) -> SessionInfo:
    """Describe one session."""
    keys = await journal.keys(entry.run) if entry.records else ()
    per_turn, last = _count_messages(keys)
    unclosed = _find_unclosed(keys, last)
    picked = await journal.read_by_keys(entry.run, [turn_key(number) for number in unclosed])
    changes = {
        record.event.key: record.event
        for record in picked
        if not isinstance(record.event, TurnOpened)
    }
    rewinds = {
        number: event.to
        for number in unclosed
        if isinstance(event := changes.get(turn_key(number)), SessionRewound)
    }
    counting = list_surviving_turns(last, rewinds)
    turns = [number for number in counting if turn_key(number) not in changes]
    return SessionInfo(
        session=entry.run,
        title=await _find_title(journal, entry.run, turns),
        turns=len(turns),
        messages=sum(per_turn.get(number, 0) for number in turns),
        opened_at=entry.opened_at,
        changed_at=entry.changed_at,
        status=_get_status(keys) if entry.turn_open else "closed",
        agent=entry.agent,
    )


def _parse_number(key: str) -> int:
    head = key.partition(".")[0].removeprefix("t")
    return int(head) if head.isdecimal() else 0


def _count_messages(keys: Sequence[str]) -> tuple[dict[int, int], int]:
    """Estimate the number of messages per turn from the keys; also return the greatest number."""
    found: dict[int, int] = {}
    for key in keys:
        number = _parse_number(key)
        if key.endswith((".model", ".begun")) or "." not in key:
            found[number] = found.get(number, 0) + 1
    return found, max(found, default=0)


def _find_unclosed(keys: Sequence[str], last: int) -> list[int]:
    """Return the numbers of the turns that have not ended, and of the rewinds and compactions."""
    known = set(keys)
    return [number for number in range(1, last + 1) if closed_key(number) not in known]


def _get_status(keys: Sequence[str]) -> SessionStatus:
    known = set(keys)
    questions = (key.removesuffix(ASKED) for key in keys if key.endswith(ASKED))
    return "waiting" if any(key not in known for key in questions) else "open"


async def _find_title(journal: SessionIndex, session: str, turns: Sequence[int]) -> str:
    titles = await journal.read(title_run(session))
    if titles and isinstance(last := titles[-1].event, SessionTitled):
        return _shorten(last.title, LONGEST_TITLE)  # an imported one may be longer
    for record in await journal.read_by_keys(session, [turn_key(turns[0])] if turns else ()):
        if isinstance(record.event, TurnOpened) and record.event.message is not None:
            return make_title(record.event.message)
    return ""


def make_title(message: Message) -> str:
    r"""Return the title of a session that begins with a message: one line of at most 80 characters.

    >>> from holdfast.core.messages import user
    >>> make_title(user("Two\nlines."))
    'Two lines.'
    """
    line = " ".join(message.text[: _LONGEST_BEGINNING * 4].split())
    return _shorten(line, _LONGEST_BEGINNING)


def _shorten(text: str, longest: int) -> str:
    return f"{text[: longest - 1]}…" if len(text) > longest else text
