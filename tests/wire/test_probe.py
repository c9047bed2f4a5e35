"""A probe of a server over HTTP, and the command that prints it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.wire.obedient import obey

from holdfast import Agent
from holdfast.cli.main import main
from holdfast.core.errors import ConfigurationError
from holdfast.models import probe_endpoint
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    CloseBeforeHeaders,
    DropAfter,
    Html200,
    HttpStatus,
    NoTerminator,
    Stall,
    TruncatedJson,
)
from holdfast.transport.port import Timeouts

KEY = "sk-a-secret-of-mine-0123456789"


@pytest.mark.parametrize(
    "dress", ["openai-reasoning", "databricks", "snowflake", "lmstudio", "mistral"]
)
async def test_the_profile_that_is_found_works(dress: str) -> None:
    async with Emulator(obey, dress=dress) as server:
        result = await probe_endpoint(server.base_url, "m")
        assert len(server.requests) == len(result.calls) <= 8
        changed = {**result.changes}
    expected = {
        "openai-reasoning": {"max_tokens_field": "max_completion_tokens"},
        "databricks": {"stream_usage": False},
        "snowflake": {"max_tokens_field": "max_completion_tokens"},
        "lmstudio": {"forces_tools": "required"},
        "mistral": {"stream_usage": False},
    }
    assert changed == expected[dress]


async def test_a_model_that_is_not_named_is_the_first_one() -> None:
    async with Emulator(obey, models=["small", "large"]) as server:
        result = await probe_endpoint(server.base_url)
        assert result.model == "small"
        assert server.requests[0].method == "GET"
        assert len(server.requests) <= 8
    async with Emulator(obey, models=[]) as server:
        with pytest.raises(ConfigurationError, match="the server lists no models: the answer has"):
            await probe_endpoint(server.base_url)
    with pytest.raises(ConfigurationError, match="anthropic has another wire"):
        await probe_endpoint("http://localhost", "m", provider="anthropic")


@pytest.mark.parametrize(
    "fault",
    [
        Html200(),
        CloseBeforeHeaders(),
        DropAfter(0),
        TruncatedJson(),
        Stall(0, 60.0),
        HttpStatus(429),
        HttpStatus(503),
        HttpStatus(400, body="<html>Blocked by your administrator</html>"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_what_could_not_be_asked_is_unknown(fault: object) -> None:
    async with Emulator(obey, faults=[fault] * 8) as server:  # type: ignore[list-item]
        timeouts = Timeouts(first_byte=0.2, total=0.5)
        result = await probe_endpoint(server.base_url, "m", timeouts=timeouts)
    assert {one.answer for one in result.findings} == {"unknown"}
    assert result.changes == {}


async def test_a_stream_that_was_cut_changes_nothing() -> None:
    async with Emulator(obey, faults=[None, NoTerminator()]) as server:
        result = await probe_endpoint(server.base_url, "m")
    assert result.changes == {}


def run_probe(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["models", "probe", *arguments])
    out = capsys.readouterr()
    return status, out.out + out.err


def test_the_command_prints_an_agent_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with Emulator(obey, dress="snowflake") as server:
        status, printed = run_probe(capsys, server.base_url, "--model", "m", "--key-env", "MY_KEY")
        assert status == 0
        assert tomllib.loads(printed) == {
            "model": "openai:m",
            "base_url": server.base_url,
            "api_key_env": "MY_KEY",
            "profile": {"max_tokens_field": "max_completion_tokens"},
        }
        assert "# max_tokens_field: yes: max_tokens has no effect" in printed
        assert KEY not in printed
        assert server.requests[0].headers["authorization"] == "[masked]"
        file = tmp_path / "agent.toml"
        file.write_text(printed)
        assert Agent.from_file(file).run_sync("Hello?").output == "Hello."


def test_a_server_that_repeats_the_key_does_not_get_it_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    body = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    with Emulator(obey, faults=[HttpStatus(401, body=body)]) as server:
        status, printed = run_probe(capsys, server.base_url, "--model", "m", "--key-env", "MY_KEY")
    assert status == 1
    assert "Incorrect API key provided" in printed
    assert KEY not in printed
    assert "# system_role: unknown: " in printed


def test_no_key_of_the_environment_is_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Emulator(obey) as server:
        assert run_probe(capsys, server.base_url)[0] == 0
        assert all("authorization" not in entry.headers for entry in server.requests)
    status, printed = run_probe(capsys, "http://localhost:1", "--key-env", "NOT_SET")
    assert (status, "'NOT_SET' is not set" in printed) == (2, True)
