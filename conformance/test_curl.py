"""The emulator from `curl`, as a program without any client sees it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from conformance.conftest import Serve

CURL = shutil.which("curl")
QUESTION = {"model": "demo", "messages": [{"role": "user", "content": "one two three four"}]}
PARTIAL = (18, 56)
"""The exit statuses of curl for a body that ends early."""

pytestmark = pytest.mark.skipif(CURL is None, reason="CURL IS NOT INSTALLED")


def ask(url: str, **more: object) -> subprocess.CompletedProcess[str]:
    """Ask once; the status of the response is the last line."""
    body = json.dumps({**QUESTION, **more})
    command = [
        str(CURL),
        "--silent",
        "--no-buffer",
        "--max-time",
        "30",
        "--write-out",
        "\n%{http_code}",
    ]
    command += ["--json", body, f"{url}/chat/completions"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def answer(url: str, **more: object) -> dict[str, Any]:
    """Return the message of a reply."""
    body, _, status = ask(url, **more).stdout.rpartition("\n")
    assert status == "200"
    message: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return message


def test_a_call(emulator: str) -> None:
    assert answer(emulator)["content"] == "You said: one two three four"


def test_a_tool(emulator: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
    (called,) = answer(emulator, tools=[tool])["tool_calls"]
    assert called["function"]["name"] == "weather"
    assert json.loads(called["function"]["arguments"]).keys() == {"city"}


def test_a_schema(emulator: str) -> None:
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "trip", "schema": schema}}
    assert type(json.loads(answer(emulator, response_format=wanted)["content"])["days"]) is int


def test_a_stream_ends_with_done(emulator: str) -> None:
    lines = [line for line in ask(emulator, stream=True).stdout.splitlines() if line]
    assert lines[-2:] == ["data: [DONE]", "200"]
    assert all(line.startswith("data: ") for line in lines[:-1])


def test_a_rate_limit_has_its_status_once(serve: Serve) -> None:
    url = serve("--fault", "rate-limit")
    body, _, status = ask(url).stdout.rpartition("\n")
    assert (status, "error" in json.loads(body)) == ("429", True)
    assert answer(url)["content"] == "You said: one two three four"


def test_a_stream_that_breaks_is_no_whole_body(serve: Serve) -> None:
    done = ask(serve("--fault", "drop-after=3"), stream=True)
    assert done.returncode in PARTIAL
    assert "[DONE]" not in done.stdout
