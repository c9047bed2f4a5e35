"""SIGKILL at random instants loses nothing that was acknowledged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_sixty_kills_lose_nothing(tmp_path: Path) -> None:
    # In a process of its own: the writers are forks, and pytest has threads.
    code = (
        "import sys; from pathlib import Path; from tests.crash.rounds import crash;"
        "print(*crash(Path(sys.argv[1]), 60, 11))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    fell, records = map(int, done.stdout.split())
    assert fell >= 30
    assert records > 0
