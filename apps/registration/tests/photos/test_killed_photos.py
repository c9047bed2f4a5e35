"""A process is killed while it checks a photo: another one ends with one photo and no other file."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # kills processes

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = "apps.registration.tests.photos.killed_photos"


async def run_killed(folder: Path, step: int, *urls: str) -> dict[str, Any]:
    """Kill a process at every `step`-th instant; return what came of it.

    Args:
        folder: where photos are, and SQLite files.
        step: the distance between the instants.
        urls: databases, one for each process; SQLite files if there are none.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", PROGRAM, str(folder), str(step), *urls),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    told: dict[str, Any] = json.loads(output)
    assert told["wrong"] == [], errors.decode()
    return told


async def test_killed_at_a_few_instants(tmp_path: Path) -> None:
    assert (await run_killed(tmp_path, 10))["tried"] >= 4
