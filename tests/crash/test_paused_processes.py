"""Two processes drive runs over PostgreSQL: kills and pauses lose nothing and repeat no write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]  # kills and pauses processes

FAULTS = 36

CODE = """
import sys
from pathlib import Path
from tests.crash.provider import provider
from tests.crash.paused_processes import disturb_runs
with provider() as base_url:
    tally = disturb_runs(Path(sys.argv[1]), (base_url, sys.argv[2]), int(sys.argv[3]), 5)
print(tally.table())
print(*tally.problems, sep=chr(10))
sys.exit(bool(tally.problems))
"""


def test_runs_with_two_drivers_end_as_with_one(tmp_path: Path, postgres: PostgresServer) -> None:
    # In its own process: it forks, and pytest has threads.
    done = subprocess.run(
        [sys.executable, "-c", CODE, tmp_path, postgres.new_url(), str(FAULTS)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
