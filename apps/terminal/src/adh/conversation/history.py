"""Reads the saved records of a conversation into a transcript, with those of the agents that worked in it."""

from __future__ import annotations

import re

from adh.transcript.fold import Transcript
from holdfast import Event, ToolFinished
from holdfast.events import FromAgent, TurnOpened
from holdfast.journal import Journal

_PART = re.compile(r"/(t\d+\.i\d+\.tool\.\d+)")


async def load_history(journal: Journal, session: str, transcript: Transcript) -> bool:
    """Apply all records of a conversation; return whether its last turn has not ended.

    Args:
        journal: its records.
        session: its id.
        transcript: receives them.
    """
    nested = await _read_nested(journal, session)
    for record in await journal.read(session):
        event = record.event
        if isinstance(event, ToolFinished):
            _apply(transcript, nested.pop(event.key, ()))
        transcript.apply(event, event.at)
    for items in nested.values():
        _apply(transcript, items)
    transcript.take_changed()
    return transcript.running


def _apply(transcript: Transcript, items: list[FromAgent] | tuple[()]) -> None:
    for item in items:
        transcript.apply(item, 0.0)


async def _read_nested(journal: Journal, session: str) -> dict[str, list[FromAgent]]:
    """Return the records of agents that worked in tools, by the key of the outermost call."""
    runs = sorted({entry.run for entry in await journal.runs()})
    names: dict[str, str] = {}
    found: dict[str, list[FromAgent]] = {}
    for run in runs:  # a run sorts before those inside of it
        keys = _PART.findall(run.removeprefix(session))
        if not run.startswith(f"{session}/") or not keys:
            continue
        events = [record.event for record in await journal.read(run)]
        names[run] = _find_agent(events)
        chain = tuple(names[outer] for outer in _list_outer(run) if outer in names)
        place = found.setdefault(keys[0], [])
        place.extend(FromAgent(keys[0], chain or ("agent",), event) for event in events)
    return found


def _list_outer(run: str) -> list[str]:
    """Return a nested run and those around it, the outermost first.

    >>> _list_outer("s/t1.i0.tool.0/t1.i1.tool.0")
    ['s/t1.i0.tool.0', 's/t1.i0.tool.0/t1.i1.tool.0']
    """
    ends = [match.end() for match in _PART.finditer(run)]
    return [*(run[:end] for end in ends[:-1]), run]


def _find_agent(events: list[Event]) -> str:
    opened = next((event for event in events if isinstance(event, TurnOpened)), None)
    return (opened.agent if opened is not None else "") or "agent"
