"""A club whose service is killed again and again, while the parties outside go on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import aiohttp
from apps.registration.tests.flow.chat_club import KEYS
from apps.registration.tests.http.prepared import BEFORE_SEASON, prepare_session
from apps.registration.tests.http.served_club import Served
from apps.registration.tests.http.whole_registrations import accept_photo, find_step
from tests.free_ports import free_port

from holdfast.testing import Emulator
from registration.club.codes import RegistrationCode
from registration.emulators.emulated_providers import run_emulators
from registration.emulators.faults import Fault, Faults
from registration.emulators.model import choose_reply
from registration.store import Transaction, open_database
from registration.store.registrations import find_of_session
from registration.store.teams import Team, save_team

ROOT = Path(__file__).parents[4]
MESSAGES = (
    (28, "yes"),
    (29, "15"),
    (30, "yes"),
    (32, "9/10"),
    (33, "7"),
    (34, "Wait"),
    (35, "Bye"),
)
"""What a parent writes at each step, from the last question to the end; at 34 a photo follows."""


class KillingFaults(Faults):
    """Faults of a provider that kill the service while it waits for an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.club: MortalClub | None = None
        self.left = 0
        self.acts = False
        self.request = ""

    def take(self, method: str, path: str, key: str) -> Fault | None:
        """Kill, when it is time; then the provider acts, or does not."""
        if self.club is None or not self.left or f"{method} {path}" != self.request:
            return None
        self.left -= 1
        if self.left:
            return None
        self.club.kill()
        return None if self.acts else "error"


class Child:
    """A child that is registered from the last question on."""

    def __init__(self, name: str, session: str, token: str) -> None:
        self.name = name
        self.session = session
        self.token = token
        self.sent = count(1)


class MortalClub(Served):
    """A client of a service that dies; it sends a message again until it is answered."""

    program: asyncio.subprocess.Process
    environment: dict[str, str]
    port: int
    pid = 0
    other: tuple[int, int] | None = None
    kills = 0
    seconds = 0.0

    async def start(self) -> None:
        """Start the service, and wait until it listens."""
        job = {"environment": self.environment, "port": self.port, "seconds": self.seconds}
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(json.dumps(job).encode() + b"\n")
        self.pid = json.loads(await self.program.stdout.readline())["pid"]
        assert self.pid, "the service did not start"

    async def restart(self) -> None:
        """Start the process again that died; the other one, if there is one, gets what comes next."""
        self.kills += 1
        await self.start()
        self.turn_to_other()

    def turn_to_other(self) -> None:
        """Send to the other process from now on, if there is one."""
        if self.other is not None:
            self.other, (self.pid, self.port) = (self.pid, self.port), self.other
            self.address = f"http://127.0.0.1:{self.port}"

    async def start_other(self) -> None:
        """Start a second process on the same database and journal."""
        self.other = (self.pid, self.port)
        self.port = free_port()
        await self.start()
        self.turn_to_other()

    def kill(self) -> None:
        """Kill the service."""
        if self.pid:  # 0 would be this process
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def arm(self, **body: Any) -> None:
        """Say when the service dies."""
        try:
            await self.call("POST", "/arm", body)
        except aiohttp.ClientError:  # it died after its last answer
            await self.restart()
            await self.call("POST", "/arm", body)

    async def put_forward(self, seconds: float) -> None:
        """Put the clock of the service forward, so that leases of dead processes end."""
        self.seconds += seconds
        await self.arm(seconds=seconds)

    async def insist(self, child: Child, text: str) -> dict[str, Any]:
        """Send a message until it is answered; a dead service is started again."""
        name = f"m{next(child.sent)}"
        for _ in range(400):
            self.session, self.token = child.session, child.token
            try:
                reply = await self.say(text, message_id=name)
            except aiohttp.ClientError:
                await self.restart()
                continue
            if reply.status == 200:
                answer: dict[str, Any] = reply.json
                return answer
            assert reply.json["error"]["retryable"], reply.json
            await asyncio.sleep(0.05)
        raise TimeoutError(reply.json)

    async def begin_child(self, name: str, step: int = 28) -> Child:
        """Store a conversation of a child, in a team of their own."""
        team = f"Team{name}"
        await self.database.transact(
            lambda tx: save_team(tx, Team("2526", team, "u10s", kit_needed=True))
        )
        code = RegistrationCode("200", team, "u10s", "2526")
        return Child(name, *await prepare_session(self.database, name, step, code))


def name_children(prefix: str) -> Iterator[str]:
    """Yield names, none of which is part of another."""
    return (prefix + "".join(letters) for letters in product(ascii_lowercase, repeat=3))


@asynccontextmanager
async def open_mortal_club(folder: Path, database: str, journal: str) -> AsyncIterator[MortalClub]:
    """Run everything but the service; it is started by the first message."""
    faults = {"payments": KillingFaults(), "sms": KillingFaults()}
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(
            run_emulators(folder / "providers", faults=faults, now=BEFORE_SEASON.now)
        )
        model = stack.enter_context(Emulator(choose_reply))
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        )
        opened = await open_database(database)
        stack.push_async_callback(opened.close)
        port = free_port()
        club = MortalClub(http, f"http://127.0.0.1:{port}", model, providers, opened)
        club.port = port
        club.environment = {
            **providers.environment,
            **KEYS,
            "REGISTRATION_DATABASE": database,
            "REGISTRATION_JOURNAL": journal,
            "REGISTRATION_MODEL_ADDRESS": model.base_url,
            "REGISTRATION_MODEL_KEY": "key",
            "REGISTRATION_REQUESTS_PER_WINDOW": "100000",
        }
        club.program = await _start_program()
        stack.push_async_callback(_end_program, club)
        for one in faults.values():
            one.club = club
        providers.payments.send_webhooks_to(f"{club.address}/webhooks/payments")
        await club.start()
        yield club


async def _start_program() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apps.registration.tests.http.mortal_program"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _end_program(club: MortalClub) -> None:
    club.kill()
    club.turn_to_other()
    club.kill()
    club.program.kill()
    await club.program.wait()


async def register_with_deaths(club: MortalClub, child: Child, kind: str, number: int) -> int:
    """Register a child, with a death at the n-th instant of each message; return how many died."""
    before = club.kills
    for step, text in MESSAGES:
        club.session = child.session
        assert await find_step(club) == step
        await club.arm(kind=kind, left=number)
        answer = await club.insist(child, text)
        assert answer["response"]
        await club.arm()
        if step == 34:
            club.session = child.session
            await accept_photo(club)
    return club.kills - before


_LINK = re.compile(r"/pay/\S+")


async def check_child(club: MortalClub, child: Child) -> str:
    """Check that a child has one payment, one record, and one message; return the payment link."""
    session = child.session
    registration = await club.database.read(lambda tx: find_of_session(tx, session))
    assert registration is not None
    assert (registration.shirt_number, registration.kit_size) == (7, "9/10")
    mine = {"registration": registration.id}
    requests = [one.id for one in club.providers.payments.requests if one.metadata == mine]
    assert requests == [registration.billing_request]
    texts = [one.text for one in club.providers.sms.inbox if child.name in one.text]
    (link,) = [found[0] for text in texts if (found := _LINK.search(text))]
    assert len(await club.database.read(lambda tx: _find_records(tx, child.name))) == 1
    return link


def _find_records(tx: Transaction, first: str) -> list[object]:
    rows = tx.execute("SELECT id FROM registrations WHERE player_first = ?", first)
    return [row["id"] for row in rows]
