"""The query of a base URL ended up in the middle of the address, and its key in `describe()`."""

from __future__ import annotations

import json

import pytest
from tests.transport.raw import Client, RawServer

from holdfast import Agent, ConfigurationError, ModelAt

KEY = "8f7a6b5c4d3e2f1a9b8c7d6e"
REPLY = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()


async def test_the_path_stands_before_the_query() -> None:
    heads: list[bytes] = []

    async def serve(client: Client) -> None:
        heads.append(await client.request())
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(REPLY)}\r\n\r\n".encode()
        await client.send(head + REPLY)

    server = RawServer(serve)
    await server.start()
    address = f"http://127.0.0.1:{server.port}/v1/?key={KEY}&api-version=3"
    agent = Agent("ollama:a", base_url=address)
    assert (await agent.run("hello")).output == "hi"
    await server.stop()
    assert heads[0].startswith(f"POST /v1/chat/completions?key={KEY}&api-version=3 ".encode())
    assert "/v1?key=[redacted]&api-version=3" in agent.describe()
    assert KEY not in repr(ModelAt("ollama:a", base_url=address))


@pytest.mark.parametrize(
    "address",
    [
        f"https://host/v1#{KEY}",
        f"https://bob:a/{KEY}@host/v1",
        f"https:/bob:{KEY}@host/v1",
        f"HTTPS://bob:{KEY}@host/v1",
        f" https://bob:{KEY}@host/v1",
        f"{KEY}://host/v1",
        f"{KEY}",
        f"bob:{KEY}@host",
        f"//:{KEY}@host",
        f"redis://:{KEY}@host",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(address: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("ollama:a", base_url=address)
    assert raised.value.argument == "base_url"
    assert KEY not in str(raised.value)
    assert KEY not in repr(ModelAt("ollama:a", base_url=address))


@pytest.mark.parametrize("user", [f":{KEY}", f"{KEY}", f"bob:x@{KEY}", f"bob:{KEY}:x", f"{KEY}:"])
def test_an_address_with_a_password_is_shown_without_it(user: str) -> None:
    agent = Agent("ollama:a", base_url=f"https://{user}@host/v1")
    assert KEY not in agent.describe()
    assert "https://[redacted]@host/v1" in agent.describe()


@pytest.mark.parametrize(
    "model", [KEY, f"{KEY}:x", f"sk-{KEY}", "3b9e1c52-7f4d-4a86-b0c1-9d2e8f7a6b5c"]
)
def test_a_key_in_the_place_of_a_model_is_not_repeated(model: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent(model)
    assert model.removesuffix(":x") not in str(raised.value)


def test_a_key_in_the_place_of_a_header_name_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ModelAt("ollama:a", headers={KEY: "x\ny"})
    assert KEY not in str(raised.value)
    shown = repr(ModelAt("ollama:a", headers={KEY: "x"}))
    assert KEY not in shown


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://bob:a@{KEY}@host/db",
        f"postgresql://bob:12/{KEY}@host/db",
        f"postgresql:bob:{KEY}@host/db",
        f"{KEY}:bob@host",
        f"{KEY}://host",
        f"sqlite:///talk.db?key={KEY}",
    ],
)
def test_the_address_of_a_journal_is_not_repeated(address: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("ollama:a", journal=address)
    error: BaseException | None = raised.value
    while error is not None:
        assert KEY not in f"{error} {error.args}"
        error = error.__context__


@pytest.mark.parametrize("name", ["on_wait", "on_busy", "fallback", "timeouts", "transport"])
def test_a_key_in_the_place_of_another_setting_is_not_repeated(name: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("openai:a", api_key="x", **{name: KEY})  # type: ignore[arg-type]
    assert raised.value.argument == name
    assert KEY not in str(raised.value)
