"""A real PgBouncer before a PostgreSQL server for tests; on loopback. It refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from tests.free_ports import free_port
from tests.postgres_server import CannotRun, PostgresServer

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={to}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
admin_users = postgres
{settings}
"""

_databases = count(1)


class PgBouncer:
    """Started by the constructor; `stop` ends it and removes its files.

    Args:
        postgres: the server behind it.
        settings: its settings, such as `pool_mode="session"`.
    """

    def __init__(self, postgres: PostgresServer, **settings: str) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise CannotRun("pgbouncer is not installed")
        self._postgres = postgres
        self._home = Path(tempfile.mkdtemp(prefix="holdfast-pgbouncer-"))
        self.port = free_port()
        lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
        file = self._home / "pgbouncer.ini"
        users = self._home / "users"
        users.write_text('"postgres" ""\n')
        text = _SETTINGS.format(to=postgres.port, port=self.port, users=users, settings=lines)
        file.write_text(text)
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        if user:
            os.chown(self._home, pwd.getpwnam("nobody").pw_uid, -1)
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen([program, *user, file], stdout=log, stderr=log)
        # Should the tests be killed, the pipe ends, and with it PgBouncer.
        last = f"read _; kill -9 {self._process.pid}; rm -rf {self._home}"
        self._watcher = subprocess.Popen(["/bin/sh", "-c", last], stdin=subprocess.PIPE)
        try:
            self._wait_until_it_answers()
        except CannotRun:
            self.stop()
            raise

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + 90
        while True:
            try:
                return self.execute("SHOW VERSION")
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise CannotRun((self._home / "log").read_text()[-500:]) from error
            time.sleep(0.02)

    def execute(self, command: str) -> None:
        """Execute a command of its console."""
        with psycopg.connect(self.address("pgbouncer"), autocommit=True) as connection:
            psycopg.ClientCursor(connection).execute(command.encode())

    def address(self, database: str) -> str:
        """Return the address of a database through it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_url(self) -> str:
        """Return the address, through it, of a new and empty database.

        Not of a new schema: PgBouncer passes no search path on.
        """
        name = f"pooled{next(_databases)}"
        self._postgres.rows(self._postgres.address(), f"CREATE DATABASE {name}")
        return self.address(name)

    def stop(self) -> None:
        """End it, and remove its files."""
        self._watcher.kill()
        self._watcher.communicate()
        self._process.kill()
        self._process.wait(30)
        shutil.rmtree(self._home, ignore_errors=True)


@contextmanager
def run_pgbouncer(postgres: PostgresServer, **settings: str) -> Iterator[PgBouncer]:
    """Run a PgBouncer until the block ends; skip the test where there is none."""
    try:
        pgbouncer = PgBouncer(postgres, **settings)
    except CannotRun as error:
        pytest.skip(f"NO TEST OF POOLERS RUNS HERE: {error}")
    try:
        yield pgbouncer
    finally:
        pgbouncer.stop()
