"""What every journal must do, as tests for whoever writes one: inherit and give a factory.

    class TestMyJournal(JournalConformance):
        @pytest.fixture
        def journal(self):
            journal = MyJournal(...)
            yield journal
            journal.close()

Nothing here may know how a journal keeps its records. The tests are coroutines, run by anyio's
plugin for pytest.
"""

# ruff: noqa: S101  # REASON: these are tests that ship with the package

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from holdfast.core.effects import CallModel, digest
from holdfast.core.errors import ConflictError
from holdfast.core.events import ModelReplied, Status, TurnClosed, TurnOpened
from holdfast.core.messages import Media, Reply, Text, ToolCall, user
from holdfast.journal.port import Journal

_ODD = "héllo \U0001f9ff \x00 \u2028 \ud800"


def opened(number: int, text: str = "hi", at: float = 1.0) -> TurnOpened:
    """An event to append; each number has its own key."""
    return TurnOpened(f"t{number}", at, user(text))


async def keys(journal: Journal, run: str) -> Sequence[str]:
    """The keys of a run, in order."""
    return [record.event.key for record in await journal.read(run)]


class JournalConformance:
    """The contract of `holdfast.journal.port.Journal`; give a fixture `journal`, new for each test."""

    async def test_an_unknown_run_is_empty(self, journal: Journal) -> None:
        """Reading makes nothing."""
        assert list(await journal.read("nobody")) == []
        assert list(await journal.runs()) == []
        assert await journal.delete("nobody") == 0

    async def test_records_come_back_equal_and_in_order(self, journal: Journal) -> None:
        """Bytes, vendor state and text of any kind included."""
        effect = CallModel("t1.i0.model", 0, 1)
        picture = Media("image/png", data=b"\x00\xff", extra={"id": [1, {"deep": None}]})
        reply = Reply((Text(_ODD), ToolCall("", "pay", '{"sum": 1'), picture), model="m")
        events = (
            opened(1, _ODD),
            ModelReplied("t1.i0.model", 2.5, reply, 3),
            TurnClosed("t1.closed", 3.0, Status.COMPLETED),
        )
        for event in events:
            await journal.append("r", event, effect if event.key == effect.key else None)
        kept = await journal.read("r")
        assert tuple(record.event for record in kept) == events
        assert [record.digest for record in kept] == ["", digest(effect), ""]

    async def test_reading_can_skip_what_is_known(self, journal: Journal) -> None:
        """`after` counts records."""
        for number in range(1, 6):
            await journal.append("r", opened(number))
        assert [record.event.key for record in await journal.read("r", 3)] == ["t4", "t5"]
        assert list(await journal.read("r", 5)) == []
        assert list(await journal.read("r", 99)) == []

    async def test_a_key_is_kept_once(self, journal: Journal) -> None:
        """The second of two drivers learns that it lost, and changes nothing."""
        await journal.append("r", opened(1, "first"))
        await _refused(journal, "r", opened(1, "second"))
        await journal.append("r", opened(2))
        assert [record.event for record in await journal.read("r")] == [
            opened(1, "first"),
            opened(2),
        ]

    async def test_of_many_at_once_one_wins(self, journal: Journal) -> None:
        """The others are told, and the winner's record is the one that was acknowledged."""
        rivals = [opened(1, f"rival {number}") for number in range(20)]
        outcomes = await asyncio.gather(
            *(journal.append("r", rival) for rival in rivals), return_exceptions=True
        )
        won = [rival for rival, lost in zip(rivals, outcomes, strict=True) if lost is None]
        assert [type(lost) for lost in outcomes if lost is not None] == [ConflictError] * 19
        assert [record.event for record in await journal.read("r")] == won

    async def test_runs_do_not_mix(self, journal: Journal) -> None:
        """The same key in two runs is two facts."""
        await asyncio.gather(
            *(journal.append(f"run {n % 3}", opened(n, at=float(n))) for n in range(30))
        )
        for run in range(3):
            wanted = [f"t{n}" for n in range(30) if n % 3 == run]
            assert sorted(await keys(journal, f"run {run}")) == sorted(wanted)

    async def test_runs_are_listed_by_name(self, journal: Journal) -> None:
        """With how much they hold, and from when to when."""
        await journal.append("b", opened(1, at=5.0))
        await journal.append("a", opened(1, at=2.0))
        await journal.append("a", opened(2, at=7.0))
        listed = await journal.runs()
        assert [(e.run, e.records, e.opened_at, e.changed_at) for e in listed] == [
            ("a", 2, 2.0, 7.0),
            ("b", 1, 5.0, 5.0),
        ]

    async def test_a_deleted_run_is_gone_and_its_name_is_free(self, journal: Journal) -> None:
        """Other runs stay."""
        await journal.append("a", opened(1))
        await journal.append("a", opened(2))
        await journal.append("b", opened(1))
        assert await journal.delete("a") == 2
        assert list(await journal.read("a")) == []
        assert [entry.run for entry in await journal.runs()] == ["b"]
        await journal.append("a", opened(1, "again"))
        assert await keys(journal, "a") == ["t1"]

    async def test_names_may_be_anything(self, journal: Journal) -> None:
        """Quotes, spaces, nothing at all: a name is never a command."""
        names = ["", " ", "a'; DROP TABLE records; --", "ü/..\\", "%", "x" * 5000]
        for name in names:
            await journal.append(name, opened(1, name))
        for name in names:
            assert [record.event for record in await journal.read(name)] == [opened(1, name)]

    async def test_a_cancelled_append_is_kept_or_not_and_harms_nobody(
        self, journal: Journal
    ) -> None:
        """When it has raised, reading says which, and nothing comes later."""
        for number in range(40):
            task = asyncio.ensure_future(journal.append("r", opened(number)))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            kept = await keys(journal, "r")
            assert task.cancelled() or f"t{number}" in kept
            await journal.append("r", opened(1000 + number))
            assert await keys(journal, "r") == [*kept, f"t{1000 + number}"]

    async def test_threads_with_loops_of_their_own_may_share_it(self, journal: Journal) -> None:
        """Nothing is lost between them, and each reads its own writes."""
        failures: list[BaseException] = []

        async def work(run: str) -> None:
            for number in range(10):
                await journal.append(run, opened(number))
                assert len(await journal.read(run)) == number + 1

        def in_thread(run: str) -> None:
            try:
                asyncio.run(work(run))
            except BaseException as error:  # noqa: BLE001  # REASON: told to the test's own thread
                failures.append(error)

        threads = [threading.Thread(target=in_thread, args=(f"run {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert failures == []
        assert [entry.records for entry in await journal.runs()] == [10] * 4


async def _refused(journal: Journal, run: str, event: TurnOpened) -> None:
    try:
        await journal.append(run, event)
    except ConflictError:
        return
    raise AssertionError(f"{event.key} was accepted twice")
