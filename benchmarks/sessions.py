"""What it costs to open a long session, next to reading its rows: `python -m benchmarks.sessions`.

Every opening is in a process of its own, as when a server starts again. The raw side reads the same
rows with the same library and decodes their JSON into the same types, which is the least that any
reader of them must do. Sides take turns, and the middle of each is printed.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from holdfast import (
    Agent,
    Event,
    ModelReplied,
    Reply,
    Sessions,
    SqliteJournal,
    Text,
    TurnClosed,
    Usage,
    user,
)
from holdfast.core.effects import effect_digest
from holdfast.core.machine import SessionMachine
from holdfast.core.output import OutputType
from holdfast.events import TurnOpened
from holdfast.journal import Effect, Record
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.testing import ScriptedModel

SAID = "It will be sunny in Porto, with a light wind from the north and 24 degrees at noon. " * 2
TURNS, EVENTS, ROUNDS = 2500, 10_000, 9
_OUTPUT: OutputType | None = None


async def write(journal: SqliteJournal, session: str, events: int) -> None:
    """A session of short turns, with the digests that a run would have kept."""
    machine = SessionMachine()
    records: list[Record] = []
    while len(records) < events:
        effect = next(iter(machine.pending_effects()), None)
        event = _next(machine, effect)
        machine.apply(event)
        records.append(_record(event, effect))
    await journal.restore({session: records})


def _next(machine: SessionMachine, effect: Effect | None) -> Event:
    at = float(machine.turn)
    if effect is None:
        return TurnOpened(f"t{machine.turn + 1}", at, user(SAID))
    if effect.key.endswith(".model"):
        reply = Reply((Text(SAID),), usage=Usage(900, 120), model="bench")
        return ModelReplied(effect.key, at, reply)
    return TurnClosed(effect.key, at, effect.status)  # type: ignore[union-attr]  # it closes the turn


def _record(event: Event, effect: Effect | None) -> Record:
    return Record(event, effect_digest(effect) if effect is not None else "")


def now() -> tuple[float, float]:
    """By the clock, and by what this process used of a processor."""
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> tuple[float, float]:
    """Seconds of both."""
    wall, used = now()
    return wall - start[0], used - start[1]


def raw(path: str, session: str) -> tuple[float, float]:
    """Seconds to read the rows and to decode each into its type."""
    members: tuple[type[msgspec.Struct], ...] = Event.__args__
    decoders = {str(m.__struct_config__.tag): msgspec.json.Decoder(m) for m in members}
    connection = sqlite3.connect(path)
    start = now()
    query = (
        "SELECT key, digest, type, at, event FROM records"
        " WHERE run = (SELECT id FROM runs WHERE name = ?) ORDER BY seq"
    )
    rows = connection.execute(query, (session,)).fetchall()
    kept = [decoders[tag].decode('{"key":"","at":0,' + event[1:]) for _, _, tag, _, event in rows]
    took = since(start)
    connection.close()
    assert kept
    return took


async def opened(path: str, session: str) -> tuple[float, float]:
    """Seconds until a session is ready for its next turn."""
    with SqliteJournal(path) as journal:
        conversations = SessionPool(journal, _OUTPUT)
        start = now()
        async with conversations.open_session(session):
            return since(start)


def side(name: str, path: str, session: str) -> tuple[float, float]:
    """One measurement, in this process."""
    gc.collect()
    return raw(path, session) if name == "raw" else asyncio.run(opened(path, session))


def measured(sides: dict[str, tuple[str, str, str]]) -> dict[str, tuple[float, float]]:
    """The middle of some rounds of each, in milliseconds."""
    found: dict[str, list[list[float]]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, arguments in sides.items():
            command = [sys.executable, "-m", "benchmarks.sessions", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name].append([float(word) * 1e3 for word in done.stdout.split()])
    middle = statistics.median
    return {
        name: (middle(wall for wall, _ in times), middle(used for _, used in times))
        for name, times in found.items()
    }


async def prepare(path: str) -> None:
    """A session that an agent has worked in, the same without a snapshot, and a large one."""
    with SqliteJournal(path) as journal:
        await write(journal, "long", (TURNS - 1) * 3)
        agent = Agent(ScriptedModel(SAID), journal=journal)
        await agent.run(SAID, session="long")
        await Sessions(journal).fork("long", to="folded")
        await write(journal, "large", EVENTS)


def main(folder: str) -> None:
    """Measure in this folder, and print."""
    path = str(Path(folder) / "bench.db")
    asyncio.run(prepare(path))
    found = measured(
        {
            "nothing": ("open", path, "nobody"),
            "raw long": ("raw", path, "long"),
            "long": ("open", path, "long"),
            "folded": ("open", path, "folded"),
            "raw large": ("raw", path, "large"),
            "large": ("open", path, "large"),
        }
    )
    print(f"{'':48}    wall     CPU")
    print(f"{'an empty session':48} {_shown(found['nothing'])}")
    for what, name, floor in (
        (f"{2 * TURNS} messages, opened as an agent left them", "long", "raw long"),
        (f"{2 * TURNS} messages, all records folded", "folded", "raw long"),
        (f"{EVENTS} events, all folded", "large", "raw large"),
    ):
        ratio = found[name][1] / found[floor][1]
        print(f"{what:48} {_shown(found[name])}")
        print(f"{'  its rows, read and decoded':48} {_shown(found[floor])}  {ratio:.2f} x in CPU")


def _shown(times: tuple[float, float]) -> str:
    wall, used = times
    return f"{wall:6.1f}  {used:6.1f} ms"


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(*side(*sys.argv[1:]))
    else:
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else ".") as place:
            main(place)
