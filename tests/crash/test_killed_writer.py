"""SIGKILL at random instants loses no acknowledged record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # kills dozens of processes


def run_rounds(folder: Path, name: str, rounds: int, seed: int) -> tuple[int, int]:
    # In its own process: it forks, and pytest has threads.
    code = (
        f"import sys; from pathlib import Path; from tests.crash.writer_rounds import {name};"
        f"print(*{name}(Path(sys.argv[1]), {rounds}, {seed}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    first, second = map(int, done.stdout.split())
    return first, second


def test_sixty_kills_lose_no_acknowledged_record(tmp_path: Path) -> None:
    fell, records = run_rounds(tmp_path, "crash", 60, 11)
    assert fell >= 30
    assert records > 0


def test_a_journal_opens_after_a_kill_whatever_the_note_of_its_log_says(tmp_path: Path) -> None:
    unknown, records = run_rounds(tmp_path, "crash_logs", 60, 12)
    assert unknown >= 20
    assert records > 0
