"""The note agent, served by a process that kills itself between an act and its answer.

While the file `deadly` is in the folder, the process dies right before or after the journal saves what
is in it: "before" or "after" an act, or the "turn" that an act begins. The file is deleted first. With a
file `front` it drives no turns.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from tests.server.note_agent import LEASE, note_agent

from holdfast import PostgresJournal, SqliteJournal
from holdfast.core.acts import Act
from holdfast.core.events import Event, TurnOpened
from holdfast.journal.port import Journal, Record
from holdfast.server import QueueOptions, create_app

_FLAG: Path


def die_at(moment: str) -> None:
    """Die at once, as at a loss of power, if it is the moment."""
    if _FLAG.exists() and _FLAG.read_text() == moment:
        _FLAG.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyChanges:
    """The changes that a journal makes at once."""

    async def restore(
        self, runs: Mapping[str, Sequence[Record]], *, act: Act | None = None
    ) -> None:
        """Save runs."""
        await _save(super().restore, runs, act=act)  # type: ignore[misc]

    async def delete(self, *runs: str, act: Act | None = None) -> int:
        """Delete runs."""
        return await _save(super().delete, *runs, act=act)  # type: ignore[misc]

    async def save_act(self, act: Act) -> None:
        """Save an act."""
        die_at("before")
        await super().save_act(act)  # type: ignore[misc]
        die_at("after")


async def _save(change: Any, *arguments: Any, act: Act | None) -> Any:
    if act is not None:
        die_at("before")
    done = await change(*arguments, act=act)
    if act is not None:
        die_at("after")
    return done


def _die_after(event: Event) -> None:
    if isinstance(event, TurnOpened) and event.request.startswith("key-"):
        die_at("turn")


class DeadlyFile(DeadlyChanges, SqliteJournal):
    """A file."""

    async def append(
        self, run: str, event: Event, *more: Any, act: Act | None = None, **options: Any
    ) -> None:
        """Save an event."""
        await _save(_options(super().append, options), run, event, *more, act=act)
        _die_after(event)


class DeadlyDatabase(DeadlyChanges, PostgresJournal):
    """A database."""

    async def _append_event(
        self, run: str, event: Event, *more: Any, act: Act | None, **options: Any
    ) -> None:
        await _save(_options(super()._append_event, options), run, event, *more, act=act)
        _die_after(event)


def _options(change: Any, options: Mapping[str, Any]) -> Any:
    async def changed(*arguments: Any, act: Act | None) -> Any:
        return await change(*arguments, act=act, **options)

    return changed


def main() -> None:
    """Serve until the end."""
    global _FLAG  # noqa: PLW0603  # REASON: the program has one
    url, port, model_url, folder, seconds, grace = sys.argv[1:]
    _FLAG = Path(folder) / "deadly"
    journal: Journal
    if url.startswith("postgresql:"):
        journal = DeadlyDatabase(url, lease=LEASE)
    else:
        journal = DeadlyFile(url.removeprefix("sqlite:///"))
    agent = note_agent(model_url, Path(folder), float(seconds))
    queue = QueueOptions(parallel=0) if (Path(folder) / "front").exists() else None
    app = create_app(agent, journal=journal, grace=float(grace), queue=queue)
    uvicorn.run(app, port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
