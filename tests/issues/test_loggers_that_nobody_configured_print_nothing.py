"""A logger that nobody configured prints nothing, also when only a piece of Holdfast is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

PIECES = [
    "Agent",
    "journal.SqliteJournal",
    "middleware.Middleware",
    "resilience.Retry",
    "tools.Tool",
]
PIECES += ["calls.send_message", "calls.ResponseHandler", "testing.Emulator", "models.ModelAt"]
WARN = """
import logging
from holdfast{module} import {name}
for logger in ("holdfast", *logging.root.manager.loggerDict):
    if logger.partition(".")[0] == "holdfast":
        logging.getLogger(logger).warning("nobody asked for this")
"""


@pytest.mark.parametrize("piece", PIECES)
def test_an_unconfigured_logger_prints_nothing(piece: str) -> None:
    module, dot, name = piece.rpartition(".")
    program = WARN.format(module=f".{module}" if dot else "", name=name)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
