"""Deleting, forking, renaming and importing a session: complete or absent, wherever it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow  # kills a process at every statement


@pytest.mark.parametrize("change", ["delete", "fork", "rename", "import"])
@pytest.mark.parametrize("store", ["sqlite", "sqlite, long", "postgres"])
def test_a_killed_change_is_complete_or_absent(
    tmp_path: Path, change: str, store: str, request: pytest.FixtureRequest
) -> None:
    """A process is killed at every statement: a session lost its title when it was deleted.

    A change of long runs is made in many transactions, and yet it is complete or absent.
    """
    store, _, size = store.partition(", ")
    if store == "sqlite":
        address = str(tmp_path / "store")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        address = server.new_url()
    command = [sys.executable, "-W", "ignore", "-m", "tests.crash.changes", address, change, size]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= 2
