"""What the sweep puts again: jobs that an engine has lost, and those that no worker takes from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

import holdfast.worker.sweep as sweep_module
from holdfast import Agent, MemoryJournal
from holdfast.testing import ScriptedModel
from holdfast.worker import Job, JobSlots, WorkerInfo, open_inbox
from holdfast.worker.dispatcher import DirectTurns, Dispatcher
from holdfast.worker.engines.asyncio_engine import AsyncioEngine
from holdfast.worker.sweep import Sweep

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
    sweep = Sweep(inbox, engine, Dispatcher(inbox, engine, NOTHING))
    await sweep._put_lost_again()
    now += after - 0.1
    await sweep._put_lost_again()
    assert engine.jobs == []
    now += 0.1
    await sweep._put_lost_again()
    assert engine.jobs == [Job(run.id, "a")]
