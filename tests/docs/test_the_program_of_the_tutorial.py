"""The program in a file of the tutorial prints what the page shows; the blocks before it run in a console."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PROGRAM = re.compile(
    r'```python title="(?P<name>[^"]+)"\n(?P<text>.*?)```\n\n```console\n\$ python (?P=name)\n(?P<shown>.*?)```',
    re.DOTALL,
)


@pytest.mark.slow  # starts a program or a server
def test_it_prints_what_the_page_shows(tmp_path: Path) -> None:
    (program,) = PROGRAM.finditer(PAGE.read_text("utf-8"))
    (tmp_path / program["name"]).write_text(program["text"])
    done = subprocess.run(
        [sys.executable, program["name"]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, program["shown"], "")
