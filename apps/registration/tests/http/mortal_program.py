"""Serves registrations in forks that can be killed at a chosen instant.

A line of standard input is a service to begin; a line of standard output tells when it listens. What the
service imports is imported once, so that a new process begins at once. `POST /arm` says when it dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apps.registration.tests.http.prepared import BEFORE_SEASON, no_wait
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from registration.emulators.serving import serve
from registration.http.app import create_app
from registration.http.running import Time
from registration.providers import mcp_addresses as _imported_once  # noqa: F401  # REASON: half a second a fork
from registration.settings import read_settings
from registration.store import database as database_module
from registration.store.postgres import PostgresConnection
from registration.store.sqlite import SqliteConnection

LEASE = 1.0
"""Seconds after which another process goes on with a conversation."""


class Deadly:
    """Kills the process at the n-th instant of a kind, counted from when it was armed.

    The kinds: before and after each record of the journal, before and after each commit of a turn.
    """

    def __init__(self) -> None:
        self.kind = ""
        self.left = 0
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._thread = threading.local()

    def reach(self, kind: str) -> None:
        """Die here, if it is time."""
        with self._lock:
            if kind != self.kind:
                return
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def now(self) -> float:
        """The time of the service, which a test can put forward."""
        return BEFORE_SEASON.now() + self.seconds

    async def arm(self, request: Request) -> Response:
        """Choose the instant, and put the clock forward."""
        body = await request.json()
        self.kind, self.left = body.get("kind", ""), body.get("left", 0)
        self.seconds += body.get("seconds", 0.0)
        return JSONResponse({})

    def install(self) -> None:
        """Count the instants of this process."""
        self._count_records(SqliteJournal, "append")
        self._count_records(PostgresJournal, "_append_event")
        self._count_commits(SqliteConnection)
        self._count_commits(PostgresConnection)
        self._note_turns()

    def _count_records(self, journal: type, name: str) -> None:
        append = getattr(journal, name)

        async def append_or_die(*args: Any, **named: Any) -> None:
            self.reach("before a record")
            await append(*args, **named)
            self.reach("after a record")

        setattr(journal, name, append_or_die)

    def _count_commits(self, connection: Any) -> None:
        commit = connection.commit

        def commit_or_die(one: Any) -> None:
            counts = getattr(self._thread, "is_of_turn", False)
            if counts:
                self.reach("before a commit")
            commit(one)
            if counts:
                self.reach("after a commit")

        connection.commit = commit_or_die

    def _note_turns(self) -> None:
        workers: Any = database_module._Workers
        perform = workers._perform_once
        together = database_module.perform_together

        def perform_once(one: Any, work: Any, running: Any, write: bool) -> Any:
            with self._counting(write, [work]):
                return perform(one, work, running, write)

        def perform_together(connection: Any, group: Any) -> bool:
            with self._counting(True, [one.work for one in group]):
                return together(connection, group)

        workers._perform_once = perform_once
        database_module.perform_together = perform_together

    @contextmanager
    def _counting(self, write: bool, works: list[Any]) -> Iterator[None]:
        # The worker and the webhooks are not part of the turn, and come at any time.
        names = [work.__qualname__ for work in works]
        of_turn = [name for name in names if not name.startswith(("DatabaseJobs.", "receive"))]
        self._thread.is_of_turn = write and bool(of_turn)
        try:
            yield
        finally:
            self._thread.is_of_turn = False


def _shorten_leases() -> None:
    begin: Any = PostgresJournal.__init__
    journal: Any = PostgresJournal
    journal.__init__ = lambda one, url, **named: begin(one, url, **{"lease": LEASE, **named})


async def serve_until_killed(job: dict[str, Any]) -> None:
    """Serve; tell when the service listens."""
    deadly = Deadly()
    deadly.install()
    _shorten_leases()
    deadly.seconds = job["seconds"]
    time = Time(deadly.now, no_wait, (0.1, 0.1, 0.1, 0.1, 0.1, 0.1))
    app = create_app(read_settings(job["environment"]), time)
    app.router.routes.append(Route("/arm", deadly.arm, methods=["POST"]))
    async with serve(app, job["port"]):
        print(json.dumps({"pid": os.getpid()}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Fork a service for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    for line in sys.stdin:
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            os.close(0)
            asyncio.run(serve_until_killed(json.loads(line)))
        except BaseException:  # noqa: BLE001  # REASON: nobody is above a fork
            traceback.print_exc()
            print(json.dumps({"pid": 0}), flush=True)
        os._exit(1)


if __name__ == "__main__":
    main()
