"""Finds text in what was said, in any session of a journal.

A journal only says where the text may be; whether it is there is seen in the text itself. There is
no index of words: a second copy of what people said would have to be forgotten with the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    ModelReplied,
    SessionTitled,
    ToolFinished,
    TurnOpened,
    TurnStopped,
)
from holdfast.sessions.names import TITLES, is_session
from holdfast.sessions.session_index import SessionIndex

_LONGEST = 1000
_AROUND = 40
_BATCH = 100


class SearchHit(Struct, frozen=True, kw_only=True):
    """One place where something was said.

    Args:
        session: where.
        key: the record, such as "t3.i0.model".
        role: who said it: "user", "assistant", "tool", "summary", or "title".
        at: when, in seconds since the epoch.
        text: some words before it, itself, and some words after it, on one line.
    """

    session: str
    key: str
    role: str
    at: float
    text: str


async def search_sessions(journal: SessionIndex, text: str, limit: int) -> list[SearchHit]:
    """The latest places where the text was said, whatever its case.

    Args:
        journal: where to look.
        text: what was said, as one piece.
        limit: the most places.
    """
    wanted = _check_query(text).lower()
    found: list[SearchHit] = []
    places = await journal.find_words(_split_words(wanted))
    for run, keys in _batch_keys([place for place in places if _is_public(place[0])]):
        records = await journal.read_by_keys(run, keys)
        for record in reversed(records):
            found += _find_in_event(run, record.event, wanted)
            if len(found) >= limit:
                return found[:limit]
    return found


def _split_words(wanted: str) -> list[str]:
    """The pieces that stand in a JSON text as they are, whatever case they were written in."""
    return "".join(letter if _is_plain(letter) else " " for letter in wanted).split()


def _is_plain(letter: str) -> bool:
    if letter.isascii():
        return letter.isprintable() and letter not in '"\\'
    return letter.isalnum() and letter.upper() == letter.lower() == letter


def _check_query(text: object) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise ConfigurationError(
            "text", f"must have 1 to {_LONGEST} characters, and not only spaces"
        )
    return text


def _is_public(run: str) -> bool:
    return is_session(run) or run.endswith(TITLES)


def _batch_keys(places: list[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Keys of the same run that follow each other, not too many at once."""
    for run, group in groupby(places, key=lambda place: place[0]):
        keys = [key for _, key in group]
        for start in range(0, len(keys), _BATCH):
            yield run, keys[start : start + _BATCH]


def _find_in_event(run: str, event: Event, wanted: str) -> list[SearchHit]:
    role, said = _get_text(event)
    line = " ".join(said.split())
    folded = line.lower()
    at = folded.find(" ".join(wanted.split()))
    if at < 0:
        return []
    # Lowering can change the length of a text; then the words around it are a little off.
    start = max(min(at, len(line)) - _AROUND, 0)
    end = at + len(wanted) + _AROUND
    excerpt = ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
    session = run.removesuffix(TITLES)
    return [SearchHit(session=session, key=event.key, role=role, at=event.at, text=excerpt)]


def _get_text(event: Event) -> tuple[str, str]:
    match event:
        case TurnOpened():
            return "user", event.message.text
        case ModelReplied():
            return "assistant", event.reply.text
        case ToolFinished():
            return "tool", event.result.text
        case TurnStopped():
            return "assistant", event.text
        case HistoryCompacted():
            return "summary", event.summary
        case SessionTitled():
            return "title", event.title
        case _:
            return "", ""
