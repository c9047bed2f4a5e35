"""The tools of development: `./run`, and the limit of time of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # starts ./run and a test run

ROOT = Path(__file__).parents[1]
# Root may write whatever the permissions say, so the disk itself is read-only, in a namespace of its own.
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && exec ./run check'


def can_mount() -> bool:
    tried = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    return shutil.which("unshare") is not None and not subprocess.run(tried, check=False).returncode


@pytest.mark.skipif(not can_mount(), reason="A READ-ONLY DISK CANNOT BE MADE HERE")
def test_a_checkout_that_cannot_be_written_is_reported_at_once(tmp_path: Path) -> None:
    applications = [str(path.relative_to(ROOT)) for path in ROOT.glob("apps/*/pyproject.toml")]
    for application in applications:
        (tmp_path / application).parent.mkdir(parents=True)
    for name in ("run", "requirements.lock", "tools.lock", "pyproject.toml", *applications):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", tmp_path],
        capture_output=True,
        text=True,
        timeout=20,  # the lock would be waited for without an end
        check=False,
    )
    said = f"run: cannot write into {tmp_path}: copy the checkout to a folder that you can write\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


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


def test_a_hung_test_does_not_hold_the_suite(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    limits = ["-o", "timeout=0.5", "-o", "teardown_timeout=0.5", "-n", "1"]
    place = ["-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.hung_tests", *limits, *place],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
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
