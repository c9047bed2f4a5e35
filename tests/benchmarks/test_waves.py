"""A small fleet of real runs under each wave of faults: every run ends, and as it is told."""

from __future__ import annotations

import pytest
from benchmarks.outage.waves import WAVES, Wave, ride_wave

RUNS = 40
ALLOWANCE = 10 + 0.1 * RUNS
"""The retries that the default retry budget allows, without those that time adds."""


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("wave", WAVES, ids=lambda wave: wave.name)
async def test_a_wave_ends_as_it_is_told(wave: Wave) -> None:
    toll = await ride_wave(wave, runs=RUNS, seed=7)
    assert toll.untold == []
    assert toll.completed + len(toll.failed) == RUNS
    assert toll.completed >= 0.7 * RUNS
    assert toll.served == toll.completed
    assert toll.seconds < 90
    if wave.name == "429 with a told wait":
        assert toll.failed == []
        assert toll.refused <= 2
    else:
        assert toll.refused <= RUNS / 3 + 2 * ALLOWANCE
