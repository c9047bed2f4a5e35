"""A job runs in another thread, and the task that waits for it is cancelled at any moment."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.journal.handoff import Handoff, finish_all


async def begun(way: Handoff[str]) -> asyncio.Task[str]:
    """Return a task that waits for a job that has begun."""
    task = asyncio.ensure_future(awaited(way))
    await asyncio.sleep(0)
    assert way.claim()
    return task


async def awaited(way: Handoff[str]) -> str:
    return await way


def end(way: Handoff[str], value: str | None, error: BaseException | None = None) -> None:
    way.value, way.error = value, error
    thread = threading.Thread(target=way.finish)
    thread.start()
    thread.join()


async def test_the_outcome_comes_back_from_the_other_thread() -> None:
    way: Handoff[str] = Handoff()
    task = await begun(way)
    end(way, "kept")
    assert await task == "kept"


async def test_an_outcome_that_is_there_already_is_given_at_once() -> None:
    way: Handoff[str] = Handoff()
    end(way, "kept")
    assert await way == "kept"


async def test_an_exception_of_the_job_is_raised() -> None:
    way: Handoff[str] = Handoff()
    task = await begun(way)
    end(way, None, OSError("the disk is full"))
    with pytest.raises(OSError, match="the disk is full"):
        await task


async def test_a_cancellation_before_the_job_begins_withdraws_it() -> None:
    way: Handoff[str] = Handoff()
    task = asyncio.ensure_future(awaited(way))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not way.claim()


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancellation_after_the_job_began_is_raised_at_its_end(times: int) -> None:
    way: Handoff[str] = Handoff()
    task = await begun(way)
    for _ in range(times):
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
    end(way, "kept")
    await asyncio.wait([task])
    assert task.cancelled()
    assert way.value == "kept"


async def test_a_cancellation_as_the_outcome_arrives_is_raised_at_once() -> None:
    way: Handoff[str] = Handoff()
    task = await begun(way)
    end(way, "kept")
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_loop_is_woken_once_for_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe

    def counting(*given: object) -> object:
        calls.append(given)
        return wake(*given)  # type: ignore[arg-type]  # handed on as it is

    monkeypatch.setattr(loop, "call_soon_threadsafe", counting)
    ways: list[Handoff[str]] = [Handoff() for _ in range(5)]
    for number, way in enumerate(ways):
        way.value = f"kept {number}"
    await asyncio.to_thread(finish_all, ways)
    assert [await way for way in ways] == [f"kept {number}" for number in range(5)]
    assert len([given for given in calls if given[1:] == (ways,)]) == 1  # type: ignore[index]


def test_a_job_that_outlives_the_loop_ends_without_an_error() -> None:
    loop = asyncio.new_event_loop()

    async def made() -> Handoff[str]:
        return Handoff()

    way = loop.run_until_complete(made())
    loop.close()
    end(way, "kept")
    assert way.value == "kept"
