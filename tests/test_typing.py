"""The typing suite under pyright. `./run check` runs it under mypy strict."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parent / "typing"
PYRIGHT = shutil.which("pyright")


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_pyright_sees_the_same_types_as_mypy() -> None:
    command = [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, "-p", str(SUITE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    report = json.loads(done.stdout)
    found = [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1} {one['message']}"
        for one in report["generalDiagnostics"]
    ]
    assert found == []
    assert report["summary"]["filesAnalyzed"] == len(list(SUITE.glob("*.py")))
