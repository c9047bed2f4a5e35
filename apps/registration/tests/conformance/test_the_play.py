"""The play in its short form: three children, one kill, and 30 % of all requests outside fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_three_children_end_as_they_should(tmp_path: Path) -> None:
    full = "HOLDFAST_FULL" in os.environ
    children, kills = ("10", "2") if full else ("3", "1")
    command = [sys.executable, "-m", "registration", "demo", "--play", "--folder", str(tmp_path)]
    ended = subprocess.run(
        [*command, "--children", children, "--kills", kills],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{children} of {children} children ended as they should" in ended.stdout
    # What is printed, and what the service logs, names nobody.
    told = ended.stdout + (tmp_path / "service.log").read_text()
    for personal in ("Jones", "07700", "example.com", "Mill Lane"):
        assert personal not in told
