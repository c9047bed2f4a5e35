"""The mode of the agents: addresses are looked up in the process, or with the tool of an MCP server."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx2
import pytest
from apps.registration.tests.flow.chat_club import KEYS
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.http.whole_registrations import find_step
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from registration.emulators.address_emulator import PATH, McpEmulator, SearchBody, normalize
from registration.emulators.faults import Faults
from registration.emulators.serving import serve
from registration.providers.connection import Refused, Unanswered
from registration.providers.mcp_addresses import McpAddressBook
from registration.settings import Endpoint, Secret


async def choose_mode(club: Served, mode: str) -> None:
    token, club.token = club.token, KEYS["REGISTRATION_ADMIN_KEY"]
    assert (await club.call("POST", "/agent/mode", {"mode": mode})).json == {"mode": mode}
    status = (await club.call("GET", "/agent/status")).json
    assert (status["mode"], status["modes"]) == (mode, ["local", "mcp"])
    club.token = token


@pytest.mark.slow  # starts a program or a server
async def test_an_address_is_looked_up_by_mcp_also_after_a_restart(tmp_path: Path) -> None:
    away = Faults(chance=1.0, seed=1, kinds=("refuse",))
    async with serve_club(tmp_path) as club:
        await choose_mode(club, "mcp")
    async with serve_club(tmp_path, provider_faults={"addresses": away}) as club:
        await club.say_all(*TO_HOUSE)
        reply = await club.say("12")
        assert "12 Mill Lane" in reply.json["response"]
        assert await find_step(club) == 15
        assert club.providers.mcp.calls == 1
        await choose_mode(club, "local")
        assert club.providers.mcp.calls == 1


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("fault", ["error", "drop_after", "nonsense", "busy"])
async def test_without_an_answer_of_the_mcp_server_the_parent_types_the_address(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Faults(chance=1.0, seed=1, kinds=(fault,))  # type: ignore[arg-type]
    async with serve_club(tmp_path, provider_faults={"mcp": failing}) as club:
        await choose_mode(club, "mcp")
        await club.say_all(*TO_HOUSE)
        reply = await club.say("12")
        assert reply.status == 200
        assert await find_step(club) == 14
    assert "HF1 2AB" not in caplog.text
    assert "HF12AB" not in caplog.text


@pytest.mark.slow  # starts a program or a server
async def test_a_wrong_token_is_no_answer(tmp_path: Path) -> None:
    async with serve_club(tmp_path, mcp_token="some-other-token-0000") as club:
        await choose_mode(club, "mcp")
        await club.say_all(*TO_HOUSE)
        await club.say("12")
        assert await find_step(club) == 14
        assert club.providers.mcp.calls == 0


async def test_a_client_of_the_protocol_finds_the_tool() -> None:
    handlers = list(logging.getLogger().handlers)
    emulator = McpEmulator("a token of a provider")
    headers = {"Authorization": "Bearer a token of a provider"}
    async with (
        serve(emulator.app) as address,
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(address + PATH, http_client=http)) as client,
    ):
        (tool,) = (await client.list_tools()).tools
        found = await client.call_tool(tool.name, {"postcode": "hf1 2ab", "house": "12"})
        assert found.structured_content["address"]["line_1"] == "12 Mill Lane"
        none = await client.call_tool(tool.name, {"postcode": "HF1 2AB", "house": "999"})
        assert (none.is_error, none.structured_content) == (False, {"address": None})
        assert (await client.call_tool(tool.name, {"postcode": 5})).is_error
    assert logging.getLogger().handlers == handlers, "the log of the process is not its own"


@pytest.mark.slow  # starts a program or a server
async def test_a_refusal_and_an_answer_that_cannot_be_read_are_told_apart() -> None:
    emulator = McpEmulator("a token of a provider")
    async with serve(emulator.app) as address:
        token = Secret("a token of a provider")
        book = McpAddressBook(Endpoint(address=address + PATH, token=token))
        assert (await book.look_up("HF1 2AB", "999")) is None
        with pytest.raises(Refused):
            await book.look_up("HF1 2AB", "x" * 101)
        emulator._addresses = {normalize("HF1 2AB", "1"): SearchBody("HF12AB", "1")}  # type: ignore[dict-item]
        with pytest.raises(Unanswered):
            await book.look_up("HF1 2AB", "1")
