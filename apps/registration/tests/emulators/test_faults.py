"""Faults: each kind over real HTTP, the script before the chance, and the same chance each time."""

import asyncio
from typing import get_args

import pytest

from registration.emulators import CHAOS, Fault, Faults, SmsEmulator, serve
from registration.providers import ProviderFailure, Refused, SmsProvider, Unanswered
from registration.settings import Endpoint, Secret

TOKEN = "token-of-the-service"
NUMBER = "+447700900123"

# Fault: what the client learns, and whether the message is in the inbox in the end.
OUTCOMES: dict[Fault, tuple[type[ProviderFailure], str, bool]] = {
    "refuse": (Refused, "refused", False),
    "busy": (Refused, "busy", False),
    "error": (Unanswered, "server_error", False),
    "error_after": (Unanswered, "server_error", True),
    "drop_before": (Unanswered, "connection_lost", False),
    "drop_after": (Unanswered, "connection_lost", True),
    "late": (Unanswered, "timeout", True),
    "late_act": (Unanswered, "timeout", True),
    "nonsense": (Unanswered, "nonsense", True),
}


def make_endpoint(address: str) -> Endpoint:
    return Endpoint(address=address, token=Secret(TOKEN), connect_seconds=0.15, total_seconds=0.15)


def test_every_fault_has_an_outcome() -> None:
    assert set(OUTCOMES) == set(get_args(Fault))
    assert set(CHAOS) == set(OUTCOMES) - {"refuse"}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("fault", OUTCOMES)
async def test_what_a_client_learns_and_what_happened(fault: Fault) -> None:
    kind, reason, acted = OUTCOMES[fault]
    emulator = SmsEmulator(TOKEN, faults=Faults([fault], late=0.3))
    async with serve(emulator.app) as address, SmsProvider(make_endpoint(address)) as sms:
        with pytest.raises(kind, match=reason):
            await sms.send("key", NUMBER, "hello")
        async with asyncio.timeout(60):
            while acted and not emulator.inbox:
                await asyncio.sleep(0.01)
        # The same key again: it is sent once, whatever happened to the first request.
        sent = await sms.send("key", NUMBER, "hello")
        found = await sms.find("key")
        assert found is not None
        assert found.id == sent
    assert len(emulator.inbox) == 1
    assert [one.fault for one in emulator.faults.happened] == [fault]
    emulator.close()


@pytest.mark.slow  # takes half a second or more
async def test_a_request_that_acts_late_is_not_found_before() -> None:
    may_go = asyncio.Event()

    class Held(Faults):
        async def wait(self) -> None:
            await may_go.wait()

    emulator = SmsEmulator(TOKEN, faults=Held(["late_act"]))
    async with serve(emulator.app) as address, SmsProvider(make_endpoint(address)) as sms:
        with pytest.raises(Unanswered):
            await sms.send("key", NUMBER, "hello")
        assert await sms.find("key") is None
        sent = await sms.send("key", NUMBER, "hello")
        may_go.set()
        await asyncio.sleep(0.1)
        assert [message.id for message in emulator.inbox] == [sent]
    emulator.close()


async def test_pages_meet_no_faults() -> None:
    faults = Faults(chance=1.0, kinds=["refuse"])
    emulator = SmsEmulator(TOKEN, faults=faults)
    assert faults.take("POST", "/v1/messages", "") == "refuse"
    import aiohttp

    async with (
        serve(emulator.app) as address,
        aiohttp.ClientSession() as session,
        session.get(address + "/inbox") as response,
    ):
        assert response.status == 200
    emulator.close()


def draw(faults: Faults, keys: list[str]) -> dict[tuple[str, int], Fault | None]:
    return {(key, n): faults.take("POST", "/v1/messages", key) for n in range(5) for key in keys}


def test_chance_depends_on_the_request_and_not_on_the_order() -> None:
    keys = [f"key-{number}" for number in range(200)]
    first = draw(Faults(chance=0.3, seed=7), keys)
    assert first == draw(Faults(chance=0.3, seed=7), keys[::-1])
    assert first != draw(Faults(chance=0.3, seed=8), keys)
    met = [fault for fault in first.values() if fault is not None]
    assert 0.25 < len(met) / len(first) < 0.35
    assert set(met) == set(CHAOS)


def test_the_script_comes_first_and_counts_what_it_is_for() -> None:
    faults = Faults(["busy", None, "late"], only="POST /v1/messages")
    assert faults.take("GET", "/v1/messages", "") is None
    taken = [faults.take("POST", "/v1/messages", "") for _ in range(4)]
    assert taken == ["busy", None, "late", None]
    faults.add("error")
    assert faults.take("POST", "/v1/messages", "") == "error"
    assert [one.fault for one in faults.happened] == ["busy", "late", "error"]


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
def test_a_chance_is_between_0_and_1(chance: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Faults(chance=chance)


async def test_a_server_of_another_kind_breaks_off() -> None:
    import uvicorn

    emulator = SmsEmulator(TOKEN, faults=Faults(["drop_before"]))
    config = uvicorn.Config(emulator.app, port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with SmsProvider(make_endpoint(f"http://127.0.0.1:{port}")) as sms:
        with pytest.raises(Unanswered, match="connection_lost"):
            await sms.send("key", NUMBER, "hello")
    server.should_exit = True
    await task
    emulator.close()
