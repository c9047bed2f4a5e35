"""A limit stands still while it is paused, and counts again afterwards."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.resilience.timeout.pausable_timeout import (
    PausableTimeout,
    pause_timeout,
)


async def thinks_and_hangs(scope: asyncio.Timeout) -> None:
    async with scope:
        with PausableTimeout(scope):
            with pause_timeout():
                await asyncio.sleep(0.15)
            assert not scope.expired()
            await asyncio.Event().wait()


async def test_a_paused_limit_does_not_strike_and_strikes_afterwards() -> None:
    with pytest.raises(TimeoutError):
        await thinks_and_hangs(asyncio.timeout(0.05))


async def test_pauses_may_overlap() -> None:
    async with asyncio.timeout(60) as scope:
        await asyncio.sleep(0)
        with PausableTimeout(scope) as patience:
            first, second = patience.pause(), patience.pause()
            first.__enter__()
            second.__enter__()
            first.__exit__(None, None, None)
            assert scope.when() is None
            second.__exit__(None, None, None)
            assert scope.when() is not None


async def test_without_a_limit_there_is_nothing_to_pause() -> None:
    with pause_timeout():
        pass
    async with asyncio.timeout(None) as scope:
        await asyncio.sleep(0)
        with PausableTimeout(scope), pause_timeout():
            assert scope.when() is None
        assert scope.when() is None


async def test_a_pause_that_outlives_its_limit_harms_nothing() -> None:
    async with asyncio.timeout(60) as scope:
        await asyncio.sleep(0)
        with PausableTimeout(scope) as patience:
            pause = patience.pause()
            pause.__enter__()
    pause.__exit__(None, None, None)
    with patience.pause():
        pass


async def struck(scope: asyncio.Timeout) -> None:
    async with scope:
        try:
            await asyncio.Event().wait()
        finally:
            with PausableTimeout(scope).pause():
                assert scope.expired()


async def test_a_limit_that_struck_is_not_taken_back() -> None:
    with pytest.raises(TimeoutError):
        await struck(asyncio.timeout(0.01))


async def test_a_share_is_paused_with_the_limit_that_it_is_of() -> None:
    async with (
        asyncio.timeout(60) as scope,
        asyncio.timeout(40) as early,
        asyncio.timeout(9) as late,
    ):
        await asyncio.sleep(0)
        with PausableTimeout(scope) as whole, PausableTimeout(early, within=whole) as share:
            with whole.pause(), share.pause(), whole.pause():
                assert (scope.when(), early.when()) == (None, None)
                with PausableTimeout(late, within=whole) as begun_meanwhile:
                    assert late.when() is None
                    assert begun_meanwhile.seconds_left == pytest.approx(9, abs=5)
                assert whole.seconds_left == pytest.approx(60, abs=5)
            assert scope.when() is not None
            assert early.when() is not None
