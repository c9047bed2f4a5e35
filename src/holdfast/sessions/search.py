"""Searches the messages and titles of all sessions of a journal.

The journal selects records that may contain the text, and this module checks the text itself. There
is no index of words, because it would be a second copy of the messages to delete.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from holdfast.core.effects import TITLES
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    ModelReplied,
    SessionTitled,
    ToolFinished,
    TurnAccepted,
    TurnOpened,
    TurnStopped,
)
from holdfast.sessions.names import is_session
from holdfast.sessions.session_index import SessionIndex

_LONGEST = 1000
_AROUND = 40
_BATCH = 100


class SearchHit(Struct, frozen=True, kw_only=True):
    """One result of a search.

    Args:
        session: the id of the session.
        key: the key of the record, such as "t3.i0.model".
        role: the kind of text: "user", "assistant", "tool", "summary" or "title".
        at: the time of the record, in seconds since the epoch.
        text: the text that was found with some words around it, on one line.
    """

    session: str
    key: str
    role: str
    at: float
    text: str


async def search_sessions(journal: SessionIndex, text: str, limit: int) -> list[SearchHit]:
    """Find the latest records that contain a text in upper or lower case.

    Args:
        journal: the journal to search.
        text: the text to find, as one string.
        limit: the maximum number of results.
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
    """Return the parts of a text that JSON does not escape and whose case does not matter."""
    return "".join(letter if _is_plain(letter) else " " for letter in wanted).split()


def _is_plain(letter: str) -> bool:
    if letter.isascii():
        return letter.isprintable() and letter not in '"\\'
    return letter.isalnum() and letter.upper() == letter.lower() == letter


def _check_query(text: object) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise ConfigurationError("text", f"must have 1 to {_LONGEST} characters and not be blank")
    return text


def _is_public(run: str) -> bool:
    return is_session(run) or run.endswith(TITLES)


def _batch_keys(places: list[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Group successive keys of the same run, in batches of limited size."""
    for run, group in groupby(places, key=lambda place: place[0]):
        keys = [key for _, key in group]
        for start in range(0, len(keys), _BATCH):
            yield run, keys[start : start + _BATCH]


def _find_in_event(run: str, event: Event, wanted: str) -> list[SearchHit]:
    role, text = _get_text(event)
    line = " ".join(text.split())
    folded = line.lower()
    at = folded.find(" ".join(wanted.split()))
    if at < 0:
        return []
    # `lower` can change the length of a text. Then the excerpt is shifted a little.
    start = max(min(at, len(line)) - _AROUND, 0)
    end = at + len(wanted) + _AROUND
    excerpt = ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
    session = run.removesuffix(TITLES)
    return [SearchHit(session=session, key=event.key, role=role, at=event.at, text=excerpt)]


def _get_text(event: Event) -> tuple[str, str]:
    match event:
        case TurnOpened():
            return "user", "" if event.message is None else event.message.text
        case TurnAccepted():
            return "user", "" if event.message is None else event.message.text
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
