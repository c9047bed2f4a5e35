"""An emulator that got the port of an earlier one was taken for that one, whose circuit was open.

Tests with fake clocks saw it most, in which no time passes until the circuit is tried again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.testing import FakeClock
from holdfast.testing.emulator import Emulator, ErrorResponse
from holdfast.testing.emulator.server import Listen


def agent_at(base_url: str) -> Agent[str]:
    return Agent(
        "openai:gpt-5.2",
        base_url=base_url,
        api_key="k",
        clock=FakeClock(),
    )


async def test_a_new_emulator_has_a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    create = loop.create_server
    async with Emulator(faults=lambda _: ErrorResponse("overloaded")) as down:
        url = down.base_url
        with pytest.raises(Exception, match="overloaded"):
            await agent_at(url).run("Hello")
    port = int(url.split(":")[-1].split("/")[0])
    given: list[int] = []

    async def the_same_port_first(factory: Any, host: str, wanted: int, **more: Any) -> Any:
        given.append(wanted)
        return await create(factory, host, port if len(given) == 1 else wanted, **more)

    monkeypatch.setattr(loop, "create_server", the_same_port_first)
    async with Emulator() as sound:
        assert len(given) > 1  # and more, if the machine gives ports of other tests
        assert set(given) == {0}
        assert sound.base_url != url
        assert (await agent_at(sound.base_url).run("Hello")).output == "You said: Hello"
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_that_was_asked_for_is_had_again() -> None:
    async with Emulator() as first:
        url = first.base_url
    port = int(url.split(":")[-1].split("/")[0])
    async with Emulator(listen=Listen(port=port)) as again:
        assert again.base_url == url
        with pytest.raises(ConfigurationError, match="cannot listen"):
            await Emulator(listen=Listen(port=port)).start()
