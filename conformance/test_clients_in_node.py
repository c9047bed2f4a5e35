"""The vendors' official clients in Node against the emulator: calls, tools, schemas, streams and faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conformance.client_programs import ClientPrograms, Drive
from conformance.conftest import Serve
from conformance.node_clients import needs_node, node_command

CLIENTS = [
    pytest.param("openai", "chat", id="openai-chat"),
    pytest.param("openai", "responses", id="openai-responses"),
    pytest.param("anthropic", "messages", id="anthropic"),
    pytest.param("genai", "gemini", id="google-genai"),
]
TEXT = "You said: one two three four five six seven eight nine ten"

pytestmark = [
    needs_node,
    pytest.mark.parametrize(("client", "api"), CLIENTS),
]


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run scenarios in programs with the clients."""
    with ClientPrograms(lambda client: node_command(f"{client}.mjs")) as programs:
        yield programs.drive


def test_a_call(drive: Drive, client: str, api: str, emulator: str) -> None:
    happened = drive(client, api, "call", emulator)
    assert happened["text"] == TEXT
    assert happened["tokens"] > 0


def test_a_tool(drive: Drive, client: str, api: str, emulator: str) -> None:
    happened = drive(client, api, "tool", emulator)
    assert happened["name"] == "weather"
    assert isinstance(happened["arguments"]["city"], str)
    assert "sunny" in happened["text"]


def test_a_schema(drive: Drive, client: str, api: str, emulator: str) -> None:
    value = drive(client, api, "schema", emulator)["value"]
    assert (type(value["city"]), type(value["days"]), len(value)) == (str, int, 2)


def test_a_stream(drive: Drive, client: str, api: str, emulator: str) -> None:
    happened = drive(client, api, "stream", emulator)
    assert happened["text"] == TEXT
    assert happened["pieces"] > 3


def test_a_rate_limit_is_the_clients_own_error(
    drive: Drive, client: str, api: str, serve: Serve
) -> None:
    url = serve("--fault", "rate-limit")
    happened = drive(client, api, "call", url)
    assert happened["status"] == 429
    assert happened["error"] in ("RateLimitError", "ApiError")
    assert drive(client, api, "call", url)["text"] == TEXT


def test_a_stream_that_breaks_is_an_error_after_its_beginning(
    drive: Drive, client: str, api: str, serve: Serve
) -> None:
    happened = drive(client, api, "stream", serve("--fault", "drop-after=5"))
    assert happened["error"]
    assert TEXT.startswith(happened["text"])
    assert 0 < len(happened["text"]) < len(TEXT)
