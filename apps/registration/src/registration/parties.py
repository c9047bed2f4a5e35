"""Everything outside of the service, emulated on this machine, and the service as a process of its own.

This module must never be used for real registrations: its keys are known.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from holdfast.testing import Emulator
from registration.club.time_zone import LONDON
from registration.emulators.courier import WebhookPlan
from registration.emulators.emulated_providers import EmulatedProviders, run_emulators
from registration.emulators.faults import Faults
from registration.emulators.model import ModelFaults, choose_reply
from registration.fixtures import season_of, seed_club
from registration.store import open_database

ADMIN_KEY = "demo-office-key-0000"
_KEYS = {"REGISTRATION_ADMIN_KEY": ADMIN_KEY, "REGISTRATION_LINK_SECRET": "demo-link-secret-0000"}
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


class Trouble(Struct, frozen=True, kw_only=True):
    """The faults of the parties.

    Args:
        providers: the faults by name: "payments", "sms", "mail", "addresses".
        model: returns the fault that a request to the model meets.
        webhooks: how the webhooks of payments arrive.
    """

    providers: Mapping[str, Faults] = {}
    model: ModelFaults | None = None
    webhooks: WebhookPlan | None = None


class Parties(Struct, frozen=True, kw_only=True):
    """The parties while they run.

    Args:
        providers: payments, SMS, mail, addresses.
        environment: the variables of a service that uses them, secrets included.
        season: the season that registers now.
    """

    providers: EmulatedProviders
    environment: Mapping[str, str]
    season: str

    def __repr__(self) -> str:
        return "Parties(***)"


@asynccontextmanager
async def emulate_parties(
    folder: Path, port: int, journal: str | None = None, trouble: Trouble | None = None
) -> AsyncIterator[Parties]:
    """Run everything outside of the service, and store the teams of the club.

    Args:
        folder: where the parties keep their records, and the service its files.
        port: the port of the service.
        journal: the URL of a PostgreSQL database for journal and database; None for SQLite files.
        trouble: the faults; by default there are none.

    Raises:
        DatabaseUnavailable: the database cannot be opened.
    """
    trouble = trouble or Trouble()
    service, season = f"http://127.0.0.1:{port}", season_of(datetime.now(LONDON).date())
    database = journal or f"sqlite:///{folder}/club.db"
    opened = await open_database(database)
    try:
        await opened.transact(lambda tx: seed_club(tx, season))
    finally:
        await opened.close()
    emulators = run_emulators(folder / "providers", faults=trouble.providers, plan=trouble.webhooks)
    async with emulators as providers:
        with Emulator(choose_reply, faults=trouble.model or ()) as model:
            providers.payments.send_webhooks_to(f"{service}/webhooks/payments")
            environment = {
                **providers.environment,
                **_KEYS,
                "REGISTRATION_SEASON": season,
                "REGISTRATION_PUBLIC_ADDRESS": service,
                "REGISTRATION_DATABASE": database,
                "REGISTRATION_JOURNAL": journal or f"sqlite:///{folder}/conversations.db",
                "REGISTRATION_PHOTO_FOLDER": f"{folder}/photos",
                "REGISTRATION_MODEL_ADDRESS": model.base_url,
                "REGISTRATION_MODEL_KEY": "emulated",
            }
            yield Parties(providers=providers, environment=environment, season=season)


class ServiceProcess:
    """The service as a process of its own, which can be killed and started again.

    Args:
        environment: its settings.
        port: its port.
        processes: how many processes answer at the port.
        log: the file that it writes its log to.
    """

    def __init__(
        self, environment: Mapping[str, str], port: int, *, processes: int = 1, log: Path
    ) -> None:
        self._environment = {**os.environ, **environment}
        self._port = port
        self._processes = processes
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None  # noqa: S101  # REASON: it was started
        return self._process.pid

    async def start(self) -> None:
        """Start, and wait until it answers.

        Raises:
            RuntimeError: it ended, or does not answer.
        """
        numbers = ("--port", str(self._port), "--processes", str(self._processes))
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "registration", "serve", *numbers),
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._answers():
                    if self._process.returncode is not None:
                        raise RuntimeError(f"the service did not start; {self._log} says why")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise RuntimeError("the service does not answer") from None

    async def kill(self) -> None:
        """End it at this instant, as a power cut does."""
        process = self._process
        assert process is not None  # noqa: S101  # REASON: it was started
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()

    async def stop(self) -> None:
        """Let it finish its work, and end it."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            await self.kill()

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True


def check_port(port: int) -> None:
    """Check that nobody listens at a port of this machine.

    Raises:
        OSError: somebody does.
    """
    with socket.create_server(("127.0.0.1", port)):
        pass


def find_port() -> int:
    """Return a port of this machine that is free now.

    It is below those that systems give to connections: one of those might be taken while the service restarts.
    """
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(10_000, 32_000)
        with suppress(OSError):
            check_port(port)
            return port
