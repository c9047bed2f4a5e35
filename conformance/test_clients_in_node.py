"""The vendors' official clients in Node against the emulator: calls, tools, schemas, streams and faults."""

from __future__ import annotations

from typing import Any

import pytest
from conformance.conftest import Serve
from conformance.node_clients import needs_node, run_node

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


def drive(client: str, api: str, scenario: str, url: str) -> dict[str, Any]:
    """Return what happened in a scenario of a client."""
    happened: dict[str, Any] = run_node(f"{client}.mjs", api, scenario, url)
    return happened


def test_a_call(client: str, api: str, emulator: str) -> None:
    happened = drive(client, api, "call", emulator)
    assert happened["text"] == TEXT
    assert happened["tokens"] > 0


def test_a_tool(client: str, api: str, emulator: str) -> None:
    happened = drive(client, api, "tool", emulator)
    assert happened["name"] == "weather"
    assert isinstance(happened["arguments"]["city"], str)
    assert "sunny" in happened["text"]


def test_a_schema(client: str, api: str, emulator: str) -> None:
    value = drive(client, api, "schema", emulator)["value"]
    assert (type(value["city"]), type(value["days"]), len(value)) == (str, int, 2)


def test_a_stream(client: str, api: str, emulator: str) -> None:
    happened = drive(client, api, "stream", emulator)
    assert happened["text"] == TEXT
    assert happened["pieces"] > 3


def test_a_rate_limit_is_the_clients_own_error(client: str, api: str, serve: Serve) -> None:
    url = serve("--fault", "rate-limit")
    happened = drive(client, api, "call", url)
    assert happened["status"] == 429
    assert happened["error"] in ("RateLimitError", "ApiError")
    assert drive(client, api, "call", url)["text"] == TEXT


def test_a_stream_that_breaks_is_an_error_after_its_beginning(
    client: str, api: str, serve: Serve
) -> None:
    happened = drive(client, api, "stream", serve("--fault", "drop-after=5"))
    assert happened["error"]
    assert TEXT.startswith(happened["text"])
    assert 0 < len(happened["text"]) < len(TEXT)
