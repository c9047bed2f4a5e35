"""The contract of a dispatch engine as tests: inherit from the class and define a fixture.

    class TestMyEngine(EngineConformance):
        @pytest.fixture
        def carrier(self):
            return EngineCarrier(make=lambda: MyEngine(...), lose_jobs=my_lose_jobs)

Nothing here may know how an engine carries jobs, and nothing may wait for longer than an engine that
counts a worker as dead after one second. The tests are coroutines, run by anyio's plugin for pytest.
"""

# ruff: noqa: S101  # REASON: these are tests that ship with the package

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from holdfast.journal.inbox.dispatch_engine import DispatchEngine, Job
from holdfast.journal.inbox.job_slots import JobSlots

_SECONDS = 30.0
"""The longest time in which anything may happen."""

ODD_QUEUES = (
    "planner",
    "planner\x1facme",
    "planner\x1facme.corp * > \u00fc\U0001f9ff \x00",
    "Planner",
    "p" * 300,
    "p" * 301,
    "",
)
"""Names of queues that no engine may confuse or refuse."""


class EngineCarrier(Struct, frozen=True):
    """An engine under test.

    Args:
        make: makes an engine for one process; those of one carrier share their jobs. An engine that
            gives up a worker that it does not hear of does so after two seconds.
        lose_jobs: loses all jobs, as if the storage of the engine was emptied. Engines stay usable.
    """

    make: Callable[[], DispatchEngine]
    lose_jobs: Callable[[], Awaitable[None]]


class _Handler:
    """Does jobs, and knows what was delivered; jobs wait while `gate` is closed."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: Counter[int] = Counter()

    async def __call__(self, entry: int) -> None:
        self.begun.append(entry)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            await asyncio.sleep(0.002)
            if self.failures[entry]:
                self.failures[entry] -= 1
                raise ValueError(entry)
            self.ended.append(entry)
        finally:
            self.running -= 1


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SECONDS):
        while not holds():  # noqa: ASYNC110  # REASON: any condition of a test
            await asyncio.sleep(0.01)


async def _until_lost(engine: DispatchEngine, ids: Sequence[int]) -> None:
    async with asyncio.timeout(_SECONDS):
        while set(await engine.find_lost(ids)) != set(ids):  # noqa: ASYNC110  # REASON: it is asked
            await asyncio.sleep(0.02)


@asynccontextmanager
async def _open(carrier: EngineCarrier) -> AsyncIterator[DispatchEngine]:
    engine = carrier.make()
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def _running(
    engine: DispatchEngine, handler: _Handler, queues: Sequence[str] = ("q",), parallel: int = 4
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(engine.run(handler, queues, JobSlots(parallel)))
    try:
        yield task
    finally:
        handler.gate.set()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class EngineConformance:
    """The contract of `holdfast.journal.inbox.dispatch_engine.DispatchEngine`; define a fixture `carrier`."""

    async def test_jobs_are_delivered_and_forgotten(self, carrier: EngineCarrier) -> None:
        """Those put before the run begins and those put later; afterwards none of them is live."""
        handler, ids = _Handler(), list(range(1, 41))
        async with _open(carrier) as engine:
            await engine.put([Job(entry, "q") for entry in ids[:20]])
            async with _running(engine, handler):
                await engine.put([Job(entry, "q") for entry in ids[20:39]])
                await engine.put([])
                await engine.put([Job(40, "q")])
                await _until(lambda: sorted(set(handler.ended)) == ids)
                await _until_lost(engine, ids)

    async def test_one_process_puts_and_another_one_runs(self, carrier: EngineCarrier) -> None:
        """Each job reaches one of two runs; both get some."""
        first, second = _Handler(), _Handler()
        async with (
            _open(carrier) as putting,
            _open(carrier) as one,
            _open(carrier) as other,
            _running(one, first),
            _running(other, second),
        ):
            first.gate.clear()
            second.gate.clear()
            await putting.put([Job(entry, "q") for entry in range(8)])
            await _until(lambda: len(first.begun) + len(second.begun) == 8)
            assert (first.most, second.most) == (4, 4)
            assert sorted(first.begun + second.begun) == list(range(8))

    async def test_the_parallel_limit_is_kept_and_reached(self, carrier: EngineCarrier) -> None:
        """Over all queues of the run together."""
        handler = _Handler()
        async with _open(carrier) as engine:
            await engine.put([Job(entry, f"q{entry % 3}") for entry in range(30)])
            async with _running(engine, handler, ("q0", "q1", "q2"), parallel=3):
                handler.gate.clear()
                await _until(lambda: handler.running == 3)
                await asyncio.sleep(0.05)
                handler.gate.set()
                await _until(lambda: len(set(handler.ended)) == 30)
        assert handler.most == 3

    async def test_a_job_waits_for_a_slot_that_the_caller_has_taken(
        self, carrier: EngineCarrier
    ) -> None:
        """It is not fetched meanwhile, so that another run may have it; each slot is given back."""
        first, second, slots = _Handler(), _Handler(), JobSlots(2)
        async with _open(carrier) as engine, _open(carrier) as other:
            assert slots.take(2) == 2
            run = asyncio.create_task(engine.run(first, ["q"], slots))
            await engine.put([Job(1, "q")])
            await asyncio.sleep(0.2)
            async with _running(other, second):
                await _until(lambda: second.ended == [1])
            assert not first.begun
            await engine.put([Job(2, "q")])
            slots.release(2)
            await _until(lambda: first.ended == [2])
            await _until(lambda: slots.free == 2)
            run.cancel()
            await asyncio.wait([run])

    async def test_queues_are_kept_apart(self, carrier: EngineCarrier) -> None:
        """Names of any text and length differ, and a job of another queue stays where it is."""
        handler, others = _Handler(), _Handler()
        async with _open(carrier) as engine:
            await engine.put([Job(number, queue) for number, queue in enumerate(ODD_QUEUES)])
            async with _running(engine, handler, (ODD_QUEUES[1], ODD_QUEUES[4])):
                await _until(lambda: len(set(handler.ended)) == 2)
                await asyncio.sleep(0.1)
                assert sorted(set(handler.begun)) == [1, 4]
                left = [number for number in range(len(ODD_QUEUES)) if number not in (1, 4)]
                assert set(await engine.find_lost(left)) == set()
            async with _running(engine, others, [ODD_QUEUES[number] for number in left]):
                await _until(lambda: sorted(set(others.ended)) == left)

    async def test_a_job_that_was_not_done_is_delivered_again(self, carrier: EngineCarrier) -> None:
        """Later, to the same process or another one; other jobs do not wait until it is done."""
        handler = _Handler()
        handler.failures.update({6: 1, 7: 1_000})
        async with _open(carrier) as engine, _running(engine, handler, parallel=1):
            await engine.put([Job(7, "q")])
            await _until(lambda: handler.begun == [7] and not handler.running)
            await engine.put([Job(6, "q"), Job(8, "q")])
            await _until(lambda: set(handler.ended) == {6, 8})
            await _until(lambda: handler.begun.count(7) > 1)

    async def test_a_job_whose_handler_was_cancelled_is_delivered_again(
        self, carrier: EngineCarrier
    ) -> None:
        """The run goes on meanwhile."""
        handler = _Handler()

        async def cancel_first(entry: int) -> None:
            if not handler.begun:
                handler.begun.append(entry)
                raise asyncio.CancelledError
            await handler(entry)

        async with _open(carrier) as engine:
            task = asyncio.create_task(engine.run(cancel_first, ["q"], JobSlots(1)))
            await engine.put([Job(7, "q")])
            await _until(lambda: handler.ended == [7])
            assert not task.done()
            task.cancel()
            await asyncio.wait([task])

    async def test_a_cancelled_run_awaits_its_handlers(self, carrier: EngineCarrier) -> None:
        """Even if it is cancelled twice; it delivers nothing more, and what is left is there."""
        handler, rest = _Handler(), _Handler()
        async with _open(carrier) as engine:
            async with _running(engine, handler, parallel=2) as run:
                handler.gate.clear()
                await engine.put([Job(entry, "q") for entry in range(4)])
                await _until(lambda: handler.running == 2)
                run.cancel()
                await asyncio.sleep(0.05)
                run.cancel()
                await asyncio.sleep(0.05)
                assert not run.done()
                handler.gate.set()
                await asyncio.wait([run], timeout=_SECONDS)
                assert run.cancelled()
            assert handler.running == 0
            assert len(handler.ended) == len(handler.begun) == 2
            async with _running(engine, rest):
                await _until(lambda: {*handler.ended, *rest.ended} == set(range(4)))

    async def test_a_job_that_is_put_twice_is_not_lost(self, carrier: EngineCarrier) -> None:
        """It may be delivered twice, also while it is being done."""
        handler = _Handler()
        async with _open(carrier) as engine:
            await engine.put([Job(1, "q"), Job(1, "q")])
            await engine.put([Job(1, "q")])
            async with _running(engine, handler):
                handler.gate.clear()
                await _until(lambda: handler.running > 0)
                await engine.put([Job(1, "q")])
                handler.gate.set()
                await _until_lost(engine, [1])
        assert 1 <= len(handler.ended) <= 4

    async def test_a_job_may_be_put_again_when_it_was_done(self, carrier: EngineCarrier) -> None:
        """At once: no memory of it swallows the new one."""
        handler = _Handler()
        async with _open(carrier) as engine, _running(engine, handler):
            for times in range(1, 4):
                await engine.put([Job(1, "q")])
                await _until(lambda times=times: len(handler.ended) >= times)  # type: ignore[misc]

    async def test_lost_jobs_are_found_and_can_be_put_again(self, carrier: EngineCarrier) -> None:
        """While the engine is running, and without opening it again."""
        handler = _Handler()
        async with _open(carrier) as engine:
            await engine.put([Job(entry, "q") for entry in (1, 2, 3)])
            assert set(await engine.find_lost([1, 2, 3])) == set()
            assert set(await engine.find_lost([1, 99])) == {99}
            assert list(await engine.find_lost([])) == []
            await carrier.lose_jobs()
            await _until_lost(engine, [1, 2, 3])
            async with _running(engine, handler):
                await engine.put([Job(entry, "q") for entry in (1, 2)])
                await _until(lambda: set(handler.ended) == {1, 2})
                await carrier.lose_jobs()
                await engine.put([Job(3, "q")])
                await _until(lambda: 3 in handler.ended)

    async def test_jobs_that_are_lost_while_they_are_done_disturb_nothing(
        self, carrier: EngineCarrier
    ) -> None:
        """The handler returns, and the run goes on."""
        handler = _Handler()
        async with _open(carrier) as engine, _running(engine, handler) as run:
            handler.gate.clear()
            await engine.put([Job(1, "q")])
            await _until(lambda: handler.running == 1)
            await carrier.lose_jobs()
            handler.gate.set()
            await _until(lambda: handler.ended == [1])
            await engine.put([Job(2, "q")])
            await _until(lambda: 2 in handler.ended)
            assert not run.done()

    async def test_a_long_job_is_not_lost(self, carrier: EngineCarrier) -> None:
        """It is delivered once, however often the engine would give up a silent worker."""
        handler = _Handler()
        async with (
            _open(carrier) as engine,
            _open(carrier) as other,
            _running(engine, handler) as run,
            _running(other, handler),
        ):
            handler.gate.clear()
            await engine.put([Job(1, "q")])
            await _until(lambda: handler.running == 1)
            for part in range(25):
                await asyncio.sleep(0.2)
                assert set(await other.find_lost([1])) == set()
                if part == 12:
                    run.cancel()  # a worker that stops is still alive
            assert handler.begun == [1]

    async def test_any_number_of_processes_open_it_at_once(self, carrier: EngineCarrier) -> None:
        """And one that is there already."""
        engines = [carrier.make() for _ in range(6)]
        await asyncio.gather(*(engine.open() for engine in engines))
        await engines[0].open()
        await engines[5].put([Job(1, "q")])
        assert set(await engines[0].find_lost([1, 2])) == {2}
        assert len({engine.name for engine in engines}) == 1
        for engine in engines:
            await engine.close()

    async def test_it_may_be_closed_twice(self, carrier: EngineCarrier) -> None:
        """And without having been opened; another process goes on."""
        await carrier.make().close()
        handler = _Handler()
        async with _open(carrier) as engine, _running(engine, handler):
            other = carrier.make()
            await other.open()
            await other.close()
            await other.close()
            await engine.put([Job(1, "q")])
            await _until(lambda: handler.ended == [1])
