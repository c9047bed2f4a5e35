"""The pytest plugin: the fixtures `emulator`, `fake_clock`, `fixed_rng`, `no_waits` and `pure_folds`.

pytest loads this module in every project that has Holdfast installed, so it must import nothing
until a fixture is used, and must change nothing of a project that uses none.
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

    Each runs in a thread of its own, so that sync and async tests use it alike.
    """
    from holdfast.testing.emulator import Emulator

    with ExitStack() as running:

        def start(*args: object, **settings: object) -> Emulator:
            return running.enter_context(Emulator(*args, **settings))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock whose time passes only when everybody sleeps."""
    from holdfast.testing.fake_clock import FakeClock

    return FakeClock()


@pytest.fixture
def no_waits() -> Iterator[FakeClock]:
    """Nothing that has no clock of its own waits in this test; gives the clock, with its `sleeps`."""
    from holdfast.testing.waits import no_waits as without

    with without() as clock:
        yield clock


@pytest.fixture
def pure_folds() -> Iterator[None]:
    """A turn fails when the fold of a middleware is not pure, for agents that this test makes."""
    from holdfast.middleware.folds import folding_twice

    with folding_twice():
        yield


@pytest.fixture
def fixed_rng() -> FixedRng:
    """Dice that always show 0.5."""
    from holdfast.testing.fake_clock import FixedRng

    return FixedRng(0.5)
