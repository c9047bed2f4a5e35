"""The demo: the whole service on this machine, with emulated parties outside, without keys or a network.

This module must never be used for real registrations: its keys are known.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.server import make_server_config
from registration.emulators.serving import serve
from registration.fixtures import list_codes
from registration.http.app import create_app
from registration.parties import (
    ADMIN_KEY,
    Parties,
    ServiceProcess,
    check_port,
    emulate_parties,
    find_port,
)
from registration.settings import read_settings
from registration.store import DatabaseUnavailable


class Demo(Struct, frozen=True, kw_only=True):
    """How the demo runs.

    Args:
        folder: where everything is saved; None for a temporary folder.
        port: the port of the service; 0 for a free one.
        journal: the URL of a PostgreSQL database; None for SQLite files in the folder.
        processes: how many processes serve; more than one need PostgreSQL.
    """

    folder: str | None = None
    port: int = 8000
    journal: str | None = None
    processes: int = 1


def run_demo(demo: Demo) -> int:
    """Serve the demo until Ctrl-C; return the exit status.

    Args:
        demo: how it runs.
    """
    if demo.port == 0:
        demo = replace(demo, port=find_port())
    with ExitStack() as stack:
        folder = demo.folder
        if folder is None:
            made = tempfile.TemporaryDirectory(prefix="registration-")
            folder = stack.enter_context(made)
        place = Path(folder).absolute()
        try:
            check_port(demo.port)
            place.mkdir(parents=True, exist_ok=True)
            asyncio.run(_serve(demo, place))
        except DatabaseUnavailable as error:
            print(f"registration: the database cannot be used: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            print(
                f"registration: {error.strerror or error}; --port and --folder choose other ones",
                file=sys.stderr,
            )
            return 1
    return 0


async def _serve(demo: Demo, folder: Path) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, ended.set)
    async with (
        emulate_parties(folder, demo.port, demo.journal) as parties,
        _run_service(demo, parties, folder),
    ):
        _announce(demo, parties, folder)
        await ended.wait()


@asynccontextmanager
async def _run_service(demo: Demo, parties: Parties, folder: Path) -> AsyncIterator[None]:
    if demo.processes == 1:
        app = create_app(read_settings(parties.environment))
        async with serve(app, demo.port, make_server_config(app).http):
            yield
        return
    service = ServiceProcess(
        parties.environment, demo.port, processes=demo.processes, log=folder / "service.log"
    )
    try:
        await service.start()
        yield
    finally:
        await service.stop()


def _announce(demo: Demo, parties: Parties, folder: Path) -> None:
    service, environment = f"http://127.0.0.1:{demo.port}", parties.environment
    kept = "" if demo.folder else " (removed at the end; --folder keeps it)"
    lines = [
        f"Register a child:    {service}/",
        f"Codes to type:       {', '.join(list_codes(parties.season))}",
        f"The club's office:   {service}/office   key: {ADMIN_KEY}",
        f"Text messages sent:  {environment['REGISTRATION_SMS_ADDRESS']}/inbox",
        f"E-mails sent:        {environment['REGISTRATION_MAIL_ADDRESS']}/inbox",
        f"The bank:            {environment['REGISTRATION_PAYMENTS_ADDRESS']}/",
        f"Everything is in:    {folder}{kept}",
        "Ctrl-C ends it.",
    ]
    print("\n".join(lines), flush=True)
