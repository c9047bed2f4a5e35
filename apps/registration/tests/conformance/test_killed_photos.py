"""A process is killed at every instant of a photo."""

from __future__ import annotations

from pathlib import Path

from apps.registration.tests.photos.test_killed_photos import run_killed


async def test_killed_at_every_instant(tmp_path: Path) -> None:
    told = await run_killed(tmp_path, 1)
    assert told["tried"] == told["instants"] >= 40
