"""A service whose disk is full says that it is not ready, also where a small write still succeeds."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import aiohttp
import psycopg
import pytest
from tests.postgres_server import PostgresServer
from tests.server.serving import serve

from holdfast import Agent, PostgresJournal, SqliteJournal
from holdfast.journal.port import Journal
from holdfast.server import create_app
from holdfast.server.health import readiness
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

MakeDisk = Callable[[Path, str], Path]


@pytest.fixture
def make_disk() -> Iterator[MakeDisk]:
    """Mounts file systems in memory, of a size."""
    mounted: list[Path] = []

    def mount(path: Path, size: str) -> Path:
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", str(path)]
        if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(autouse=True)
def ask_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_REMEMBERED_SECONDS", 0.0)


def fill(disk: Path) -> Path:
    """Fill a file system; return the file that does it."""
    path = disk / "full"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return path


def reuse_log(store: Path) -> None:
    """Let SQLite write to its log from the beginning, which needs no new space."""
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0


async def check_ready(
    journal: Journal, disk: Path, prepare: Callable[[], None] = lambda: None
) -> None:
    """Check that `/ready` tells of a full disk, and of the room that is made."""
    app = create_app(Agent(ScriptedModel()), journal=journal)
    async with serve(app) as base, aiohttp.ClientSession() as http:

        async def ask() -> tuple[int, object]:
            async with http.get(f"{base}/ready") as response:
                return response.status, await response.json()

        for _ in range(50):  # so that the files have room for more rows
            assert await ask() == (200, {"status": "ready"})
        prepare()
        full = fill(disk)
        status, said = await ask()
        assert status == 503, said
        assert "store" in str(said)
        assert str(disk) not in str(said)
        full.unlink()
        assert await ask() == (200, {"status": "ready"})


async def test_a_full_disk_under_sqlite(tmp_path: Path, make_disk: MakeDisk) -> None:
    disk = make_disk(tmp_path / "disk", "4m")
    with SqliteJournal(disk / "journal.db") as journal:
        await check_ready(journal, disk, lambda: reuse_log(disk / "journal.db-service.db"))
    left = {path.name.partition(".")[0] for path in disk.iterdir()}
    assert left == {"journal"}


@pytest.mark.slow  # starts a program or a server
async def test_a_full_disk_under_postgresql(postgres: PostgresServer, make_disk: MakeDisk) -> None:
    disk = make_disk(postgres.home / "disk", "64m")
    space = disk / "space"
    space.mkdir(mode=0o777)
    os.chown(space, postgres.home.stat().st_uid, postgres.home.stat().st_gid)
    with psycopg.connect(postgres.address(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{space}'".encode())
        connection.execute(b"CREATE DATABASE full_disk TABLESPACE small")
    try:
        with PostgresJournal(postgres.address("full_disk")) as journal:
            await check_ready(journal, disk)
    finally:
        with psycopg.connect(postgres.address(), autocommit=True) as connection:
            connection.execute(b"DROP DATABASE full_disk WITH (FORCE)")
            connection.execute(b"DROP TABLESPACE small")
