"""What a list shows of each session, made of keys and a few records: no journal is folded for it.

This module must never read the whole of a session when its journal can do with less.
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
from holdfast.sessions.session_index import SessionIndex, list_heads

_LONGEST_TITLE = 80

SessionStatus: TypeAlias = Literal["closed", "open", "waiting"]
"""Its last turn is over; it is not; it is not, and somebody is asked something."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """One session in a list of sessions.

    Args:
        session: its id, which `agent.run(session=...)` takes.
        title: as it was named; without that, the beginning of what was said first.
        turns: how many count; those that were rewound do not, failed ones do.
        messages: how many were said in them, by people, models and tools.
        opened_at: when it began, in seconds since the epoch.
        changed_at: when something happened last.
        status: whether a turn is under way, or was left.
        agent: the name of the agent that was asked last.
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
    """The sessions of a journal, the one that changed last first; also those with a title only."""
    runs = await list_heads(journal)
    there = {entry.run for entry in runs if is_session(entry.run)}
    found = []
    for entry in runs:
        if entry.run in there:
            found.append(entry)
        elif entry.run.endswith(TITLES) and entry.run.removesuffix(TITLES) not in there:
            named = entry.run.removesuffix(TITLES)
            found.append(RunEntry(named, 0, entry.opened_at, entry.changed_at))
    return sorted(found, key=lambda entry: (-entry.changed_at, entry.run))


async def info_of(journal: SessionIndex, entry: RunEntry) -> SessionInfo:
    """What a list shows of one session."""
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
    """About how many messages each number brought, and the greatest number."""
    found: dict[int, int] = {}
    for key in keys:
        number = _parse_number(key)
        if key.endswith((".model", ".begun")) or "." not in key:
            found[number] = found.get(number, 0) + 1
    return found, max(found, default=0)


def _find_unclosed(keys: Sequence[str], last: int) -> list[int]:
    """The numbers that are no turn, or a turn that is not over."""
    there = set(keys)
    return [number for number in range(1, last + 1) if closed_key(number) not in there]


def _get_status(keys: Sequence[str]) -> SessionStatus:
    there = set(keys)
    asked = (key.removesuffix(ASKED) for key in keys if key.endswith(ASKED))
    return "waiting" if any(key not in there for key in asked) else "open"


async def _find_title(journal: SessionIndex, session: str, turns: Sequence[int]) -> str:
    titles = await journal.read(title_run(session))
    if titles and isinstance(last := titles[-1].event, SessionTitled):
        return last.title
    for record in await journal.read_by_keys(session, [turn_key(turns[0])] if turns else ()):
        if isinstance(record.event, TurnOpened):
            line = " ".join(record.event.message.text[: _LONGEST_TITLE * 4].split())
            short = line[: _LONGEST_TITLE - 1] + "…"
            return short if len(line) > _LONGEST_TITLE else line
    return ""
