import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, os, subprocess, sys
from adh.commands.program import hide_process
if os.geteuid() == 0:  # root may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "hidden":
    assert hide_process()
subprocess.run(["/bin/cat", f"/proc/{os.getpid()}/environ"], check=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is about /proc")
@pytest.mark.parametrize("kind", ["hidden", "open"])
def test_a_command_cannot_read_the_environment_of_the_program(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind],
        env={**os.environ, "SOME_API_KEY": "0f1e2d3c"},
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
    )
    assert ("0f1e2d3c" in done.stdout) == (kind == "open")
    assert ("Permission denied" in done.stderr) == (kind == "hidden")


@pytest.mark.skipif(sys.platform != "linux", reason="it is about /proc")
def test_the_program_hides_its_environment() -> None:
    program = "import ctypes; from adh.commands.program import run_program\n"
    program += "run_program(['policies']); print('dumpable', ctypes.CDLL(None).prctl(3))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.endswith("dumpable 0\n")
