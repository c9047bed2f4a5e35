"""The pytest plugin: the fixtures `emulator`, `fake_clock`, `fixed_rng`, `no_waits` and `pure_folds`.

pytest loads this module in every project that has Holdfast installed. It imports Holdfast only when
a fixture is used, and does not affect a project that uses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.emulator import Emulator
    from holdfast.testing.fake_clock import FakeClock, FixedRng


@pytest.fixture
def emulator() -> Iterator[Callable[..., Emulator]]:
    """A function that starts emulators, with the arguments of `Emulator`; they stop with the test.

    Each runs in its own thread, so that sync and async tests can use it.
    """
    from holdfast.testing.emulator import Emulator

    with ExitStack() as running:

        def start(*args: object, **settings: object) -> Emulator:
            return running.enter_context(Emulator(*args, **settings))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock whose time advances only while all tasks sleep."""
    from holdfast.testing.fake_clock import FakeClock

    return FakeClock()


@pytest.fixture
def no_waits() -> Iterator[FakeClock]:
    """Removes the waits between attempts in this test; the value is the clock with its `sleeps`."""
    from holdfast.testing.fake_clock import no_waits as without

    with without() as clock:
        yield clock


@pytest.fixture
def pure_folds() -> Iterator[None]:
    """Makes a turn fail if a middleware's fold is not pure, for agents created in this test."""
    from holdfast.middleware.folds import folding_twice

    with folding_twice():
        yield


@pytest.fixture
def fixed_rng() -> FixedRng:
    """A source of randomness that always returns 0.5."""
    from holdfast.testing.fake_clock import FixedRng

    return FixedRng(0.5)
