"""Describes each session for a list, from its keys and a few records.

It reads a whole session only if the journal cannot find single records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.effects import closed_key, turn_key
from holdfast.core.events import SessionRewound, SessionTitled, TurnOpened
from holdfast.core.question_log import ASKED
from holdfast.journal.port import RunEntry
from holdfast.sessions.names import TITLES, is_session, title_run
from holdfast.sessions.session_history import list_surviving_turns
from holdfast.sessions.session_index import SessionIndex

_LONGEST_TITLE = 80

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


async def list_entries(journal: SessionIndex) -> list[RunEntry]:
    """List the sessions of a journal, the latest change first, including those without turns."""
    runs = await journal.runs()
    with_turns = {entry.run for entry in runs if is_session(entry.run)}
    found = []
    for entry in runs:
        if entry.run in with_turns:
            found.append(entry)
        elif entry.run.endswith(TITLES) and entry.run.removesuffix(TITLES) not in with_turns:
            session = entry.run.removesuffix(TITLES)
            found.append(RunEntry(session, 0, entry.opened_at, entry.changed_at))
    return sorted(found, key=lambda entry: (-entry.changed_at, entry.run))


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
        return last.title
    for record in await journal.read_by_keys(session, [turn_key(turns[0])] if turns else ()):
        if isinstance(record.event, TurnOpened) and record.event.message is not None:
            line = " ".join(record.event.message.text[: _LONGEST_TITLE * 4].split())
            short = line[: _LONGEST_TITLE - 1] + "…"
            return short if len(line) > _LONGEST_TITLE else line
    return ""
