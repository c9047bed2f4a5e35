"""A turn that kills whoever drives it, its neighbours, and the next message of its session."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.worker.poison_worker import LEASE, PoisonSettings, Supervisor, answer, make_agent

from holdfast import PostgresJournal
from holdfast.core.events import Status, ToolFinished, TurnClosed, TurnInterrupted, TurnOpened
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox_errors import QueuedTurnError
from holdfast.testing.emulator import Emulator

_SECONDS = 120.0


async def check_poison(
    url: str, engine: str | None, kind: str, folder: Path, neighbours: int
) -> list[int]:
    """Submit a turn that kills its workers between others; return the statuses of the dead workers."""
    with Emulator(answer) as emulator:
        settings = PoisonSettings(journal=url, model=emulator.base_url, engine=engine)
        agent = make_agent(settings)
        poison = await agent.submit(f"poison {kind}", session="p", request="poison")
        others = [
            await agent.submit("work", session=f"n{number}", request=f"n{number}")
            for number in range(neighbours)
        ]
        after = await agent.submit("Hello?", session="p")
        async with Supervisor(settings, folder / "workers.log") as supervisor:
            with pytest.raises(QueuedTurnError) as refused:
                await poison.wait(_SECONDS)
            assert (await after.wait(_SECONDS)).text == "Done."
            for run in others:
                result = await run.wait(_SECONDS)
                assert (result.status, result.text) == (Status.COMPLETED, "Done.")
            later = await agent.submit("And now?", session="p")
            assert (await later.wait(_SECONDS)).text == "Done."
        assert (refused.value.state, "workers died" in refused.value.why) == ("parked", True)
        entry = await poison.read_entry()
        assert entry.state is EntryState.PARKED
        assert len(supervisor.deaths) <= 4, supervisor.deaths
        with PostgresJournal(url, lease=LEASE) as journal:
            for number in range(neighbours):
                events = [record.event for record in await journal.read(f"n{number}")]
                for once in (TurnOpened, ToolFinished, TurnClosed):
                    assert sum(isinstance(event, once) for event in events) == 1
            events = [record.event for record in await journal.read("p")]
            (interrupted,) = [event for event in events if isinstance(event, TurnInterrupted)]
            assert (interrupted.reason, interrupted.why) == ("parked", refused.value.why)
            assert not await journal.runs(turn_open=True)
        return supervisor.deaths
