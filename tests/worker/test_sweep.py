"""What the sweep puts again: jobs that an engine has lost, and those that no worker takes from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

import holdfast.worker.sweep as sweep_module
from holdfast import Agent, MemoryJournal
from holdfast.journal.inbox.inbox import InboxChanges
from holdfast.testing import ScriptedModel
from holdfast.worker import Job, JobSlots, WorkerInfo, open_inbox
from holdfast.worker.dispatcher import DirectTurns, Dispatcher
from holdfast.worker.engines.asyncio_engine import AsyncioEngine
from holdfast.worker.sweep import SteadyBeats, Sweep

NOTHING = DirectTurns("w", (), JobSlots(0), lambda _entry: None)


class ForgetfulEngine(AsyncioEngine):
    """Keeps no job, and says which of them it has lost."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Job] = []
        self.lost: list[int] = []

    async def put(self, jobs: Sequence[Job]) -> None:
        self.jobs += jobs

    async def find_lost(self, ids: Collection[int]) -> Collection[int]:
        return [entry for entry in ids if entry in self.lost]


@pytest.mark.parametrize(("says_lost", "after"), [(True, 2.0), (False, 30.0)])
async def test_a_job_that_nobody_has_begun_is_put_again(
    monkeypatch: pytest.MonkeyPatch, says_lost: bool, after: float
) -> None:
    now = 100.0
    monkeypatch.setattr(sweep_module, "monotonic", lambda: now)
    journal, engine = MemoryJournal(), ForgetfulEngine()
    run = await Agent(ScriptedModel(), name="a", journal=journal).submit("Hi.")
    inbox = open_inbox(journal)
    worker = WorkerInfo(
        id="w", host="h", process=1, agents=("a",), slots=1, engine="asyncio", started_at=0.0
    )
    await inbox.note_worker(worker)
    await inbox.admit()
    engine.lost = [run.id] if says_lost else []
    sweep = Sweep(inbox, engine, Dispatcher(inbox, InboxChanges(), engine, NOTHING))
    await sweep._put_lost_again()
    now += after - 0.1
    await sweep._put_lost_again()
    assert engine.jobs == []
    now += 0.1
    await sweep._put_lost_again()
    assert engine.jobs == [Job(run.id, "a")]


async def test_after_an_outage_nothing_is_taken_from_workers_that_may_be_alive() -> None:
    """They all count as gone, and the first to be heard again must not count their deaths."""
    journal, engine = MemoryJournal(), ForgetfulEngine()
    run = await Agent(ScriptedModel(), name="a", journal=journal).submit("Hi.")
    inbox = open_inbox(journal)
    other = WorkerInfo(
        id="o", host="h", process=1, agents=("a",), slots=1, engine="asyncio", started_at=0.0
    )
    await inbox.note_worker(other)
    await inbox.admit()
    assert await inbox.begin(run.id, "o") is not None
    await inbox.note_worker(replace(other, seconds_to_live=-1.0))
    now = 0.0
    beats = SteadyBeats(10.0, lambda: now)
    sweep = Sweep(inbox, engine, Dispatcher(inbox, InboxChanges(), engine, NOTHING))
    sweep.may_take_over = beats.are_steady
    taken: list[float] = []
    for now in (0.0, 2.0, 20.0, 22.0, 24.0, 26.0, 28.0, 29.9):  # REASON: the clock reads it
        beats.note_beat()
        if now > 2.0:
            await sweep._put_lost_again()
            taken += [now] if engine.jobs else []
    assert taken == []
    now = 30.0
    await sweep._put_lost_again()
    assert [job.id for job in engine.jobs] == [run.id]


def test_a_worker_that_cannot_beat_now_takes_nothing_over() -> None:
    now = 0.0
    beats = SteadyBeats(10.0, lambda: now)
    assert not beats.are_steady()
    beats.note_beat()
    assert beats.are_steady()  # it has just started: nothing says that there was an outage
    now = 5.1
    assert not beats.are_steady()
