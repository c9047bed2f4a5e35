"""A queued run from other processes than its worker's: its text, its end, and that a request is one run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec
import pytest
from tests.worker.paying_worker import Ledger, PayingSettings, final_text, make_agent
from tests.worker.worker_cluster import WorkerCluster, serve_model

from holdfast import PostgresJournal
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Status, ToolFinished
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox_errors import SubmissionError

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # starts and kills workers

ORDER, READERS, SECONDS = "t0/s0/0", 8, 60.0


class Reader:
    """A process that follows the run of an order."""

    def __init__(self, settings: PayingSettings) -> None:
        program = [sys.executable, "-m", "tests.worker.streaming_reader"]
        given = msgspec.json.encode(settings).decode()
        self._process = subprocess.Popen(
            [*program, given, ORDER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def read_line(self) -> str:
        """Return its next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    async def read_found(self) -> dict[str, object]:
        """Return what it found when the run has ended."""
        text, _ = await asyncio.to_thread(self._process.communicate, None, SECONDS)
        found: dict[str, object] = msgspec.json.decode(text.splitlines()[-1])
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.4) as url:
        yield url


@pytest.fixture(params=["postgres", "nats"])
def settings(
    request: pytest.FixtureRequest, model: str, url: str, tmp_path: Path
) -> PayingSettings:
    is_nats = request.param == "nats"
    engine = request.getfixturevalue("nats_server").url if is_nats else None
    ledger = str(tmp_path / "ledger.db")
    return PayingSettings(journal=url, model=model, ledger=ledger, lease=4.0, engine=engine)


async def test_text_is_exact_in_other_processes_also_when_the_worker_is_killed(
    settings: PayingSettings, tmp_path: Path
) -> None:
    async with WorkerCluster(settings, tmp_path, 1) as cluster:
        with Reader(settings) as first, Reader(settings) as second:
            while await asyncio.to_thread(first.read_line) != "text\n":
                pass
            await cluster.replace(cluster.workers[0])
            results = [await first.read_found(), await second.read_found()]
    for found in results:
        assert found["replies"] == ["I look.", f"I pay {ORDER}.", final_text(ORDER)]
        assert found["result"] == final_text(ORDER)
    with PostgresJournal(settings.journal) as journal:
        records = await journal.for_tenant("t0").read("s0")
    events = [record.event for record in records]
    payments = [
        event.result
        for event in events
        if isinstance(event, ToolFinished) and event.result.name == "pay"
    ]
    assert len(payments) == 1
    # On a slow machine the kill may come when it pays.
    paid = len(Ledger(Path(settings.ledger)).read("pay"))
    assert paid == 1 or (paid == 0 and payments[0].in_doubt)


async def test_one_request_of_many_processes_is_one_run_and_another_body_a_conflict(
    settings: PayingSettings, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(Reader(settings)) for _ in range(READERS)]
        async with WorkerCluster(settings, tmp_path, 1):
            ends = [await reader.read_found() for reader in readers]
            assert [end["result"] for end in ends] == [final_text(ORDER)] * READERS
            with pytest.raises(SubmissionError):
                await make_agent(settings).submit("other", session="s0", tenant="t0", request=ORDER)
    assert len(Ledger(Path(settings.ledger)).read("pay")) == 1


async def test_another_process_cancels_a_turn_in_progress(
    settings: PayingSettings, tmp_path: Path
) -> None:
    run = await make_agent(settings).submit("t0/s0/0", session="s0", tenant="t0")
    async with WorkerCluster(settings, tmp_path, 1):
        async for _ in run.events():
            break  # it has begun
        await run.cancel(by="ann")
        with pytest.raises(HoldfastError, match="cancelled") as caught:
            await run.wait(SECONDS)
        assert caught.value.result.status is Status.CANCELLED  # type: ignore[attr-defined]
        while (await run.read_state()) is EntryState.ADMITTED:
            await asyncio.sleep(0.05)
        assert await run.read_state() is EntryState.DONE
    assert not Ledger(Path(settings.ledger)).read("pay")
