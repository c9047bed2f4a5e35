"""Many turns against servers that fail and die at random: none is lost, nothing is done twice, each doubt is told."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests.mcp.chaos import CALLS, run_turns

from holdfast.testing.mcp_emulator import McpEra


@pytest.mark.slow  # it starts and kills servers
@pytest.mark.timeout(600)
@pytest.mark.parametrize("era", get_args(McpEra))
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_no_turn_is_lost_no_write_is_done_twice_and_every_doubt_is_told(
    tmp_path: Path, kind: str, era: McpEra
) -> None:
    tally = await run_turns(tmp_path, kind, era, turns=25, share=0.2, kills=5, seed=7)
    assert (tally.lost_turns, tally.twice, tally.untold, tally.false) == (0, 0, 0, 0), tally
    assert tally.done + tally.doubts + tally.failures == 25 * CALLS, tally
    assert tally.kills
