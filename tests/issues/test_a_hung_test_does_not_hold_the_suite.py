"""A test of an endless task hit its limit of time, and then held the whole suite in its teardown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import asyncio
import pytest

@pytest.fixture
async def opened():
    yield

@pytest.mark.anyio
async def test_endless(opened):
    while True:
        await asyncio.sleep(0.01)

def test_after_it():
    pass
"""


def test_the_others_run_and_the_run_ends(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    limits = ["-o", "timeout=0.5", "-o", "teardown_timeout=0.5", "-n", "1"]
    place = ["-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.hung_tests", *limits, *place],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "Timeout (>0.5s) from pytest-timeout" in done.stdout
    assert "worker 'gw0' crashed while running 'test_them.py::test_endless[asyncio]'" in done.stdout
    assert "1 passed" in done.stdout
