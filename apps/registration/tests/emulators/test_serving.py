"""Serving on loopback: a free or a given port, and applications that do not start."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette

from registration.emulators import AddressEmulator, Faults, run_emulators, serve
from registration.providers import AddressBook, Unanswered
from registration.settings import Endpoint, Secret

TOKEN = "token-of-the-service"


async def test_a_port_can_be_used_again_at_once() -> None:
    emulator = AddressEmulator(TOKEN)
    async with serve(emulator.app) as first:
        port = int(first.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with serve(emulator.app, port):
                pass
    for _ in range(2):
        async with serve(emulator.app, port) as again, connect(again) as book:
            assert again == first
            assert await book.look_up("HF12AB", "7")


async def test_an_application_that_does_not_start_is_an_error() -> None:
    @asynccontextmanager
    async def fail(_app: Starlette) -> AsyncIterator[None]:
        raise LookupError
        yield

    with pytest.raises(RuntimeError, match="did not start"):
        async with serve(Starlette(lifespan=fail)):
            pass


@pytest.mark.slow  # takes half a second or more
async def test_a_request_in_progress_does_not_hold_the_end() -> None:
    emulator = AddressEmulator(TOKEN, faults=Faults(["late_act"], late=60))
    async with serve(emulator.app) as address, connect(address) as book:
        request = asyncio.create_task(book.look_up("HF12AB", "7"))
        while not emulator.faults.happened:
            await asyncio.sleep(0.01)
    with pytest.raises(Unanswered):
        await request


async def test_the_ports_of_all_providers_can_be_given() -> None:
    names = ("PAYMENTS", "SMS", "MAIL", "ADDRESSES")
    for port in random.sample(range(20_000, 30_000), 50):
        try:
            async with run_emulators(first_port=port) as emulators:
                addresses = [
                    emulators.environment[f"REGISTRATION_{name}_ADDRESS"] for name in names
                ]
        except OSError:  # somebody else has one of them
            continue
        assert addresses == [f"http://127.0.0.1:{port + place}" for place in range(4)]
        return
    pytest.fail("no four free ports in a row")


async def test_half_a_secret_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "secret.new").write_text("half")
    async with run_emulators(tmp_path) as emulators:
        first = emulators.environment
    async with run_emulators(tmp_path) as emulators:
        second = emulators.environment
    name = "REGISTRATION_WEBHOOK_SECRET"
    assert first[name] == second[name]
    assert len(first[name]) == 64


def connect(address: str) -> AddressBook:
    return AddressBook(Endpoint(address=address, token=Secret(TOKEN), total_seconds=5.0))
