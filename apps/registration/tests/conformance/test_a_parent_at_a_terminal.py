"""`python -m registration chat` goes on when the service was killed and started again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from apps.registration.tests.conformance.page.browser_club import KillableClub

pytestmark = pytest.mark.timeout(120)


def test_the_service_is_killed_and_started_again(tmp_path: Path) -> None:
    club = KillableClub(tmp_path)
    club.start()
    terminal = subprocess.Popen(
        [sys.executable, "-m", "registration", "chat", "--address", club.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert terminal.stdin is not None
    assert terminal.stdout is not None

    def wait_for(words: str) -> None:
        for line in terminal.stdout or ():
            if words in line:
                return
        raise AssertionError(f"the terminal client ended before it showed {words!r}")

    def write(text: str) -> None:
        assert terminal.stdin is not None
        terminal.stdin.write(f"{text}\n")
        terminal.stdin.flush()

    try:
        write(club.code)
        wait_for("[step 1 of 35]")
        club.kill()
        write("Sarah Jones")
        wait_for("I cannot reach the club")
        club.start()
        wait_for("[step 2 of 35]")
        write("/saved")
        wait_for("Your name: Sarah Jones")
        terminal.stdin.close()
        assert terminal.wait(timeout=60) == 0
    finally:
        terminal.kill()
        terminal.wait()
        terminal.stdout.close()
        club.kill()
