"""Processes that drive runs are killed at any instant; the runs end as they do without a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]  # kills hundreds of processes

KILLS = 500

CODE = """
import sys
from pathlib import Path
from tests.crash.provider import provider
from tests.crash.forked_work import kill_in_workers
{broken}
with provider() as base_url:
    tally = kill_in_workers(Path(sys.argv[1]), base_url, int(sys.argv[2]), 7)
print(tally.table())
print(*tally.problems, sep=chr(10))
sys.exit(bool(tally.problems) or tally.kills.total() < int(sys.argv[2]))
"""


BROKEN = """
from tests.crash import kills
kills.ENOUGH = 1
from holdfast.runtime import perform
perform._may_repeat = lambda run, effect: True
"""


def kill(folder: Path, kills: int, broken: str = "") -> subprocess.CompletedProcess[str]:
    # In its own process: it forks, and pytest has threads.
    return subprocess.run(
        [sys.executable, "-c", CODE.format(broken=broken), folder, str(kills)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def test_five_hundred_kills_lose_nothing_and_repeat_no_write(tmp_path: Path) -> None:
    done = kill(tmp_path, KILLS)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_repeated_write_is_detected(tmp_path: Path) -> None:
    done = kill(tmp_path, 50, BROKEN)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "pay ran 2 times" in done.stdout or "book ran 2 times" in done.stdout, done.stdout
