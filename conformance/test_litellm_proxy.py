"""The proxy of LiteLLM before the emulator: a turn with a tool, a typed output, and a probe of the proxy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import pytest

from holdfast import Agent, tool
from holdfast.models import ProbeResult, Timeouts, probe_endpoint
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, call
from holdfast.testing.emulator.script import ReplyLike

FOLDER = Path(__file__).parent / "litellm"
PROGRAM = FOLDER / ".venv" / "bin" / "litellm"
PATIENT = Timeouts(first_byte=60.0, between_chunks=60.0, total=120.0)
KEY = "sk-of-the-proxy"

pytestmark = [
    pytest.mark.skipif(
        not PROGRAM.is_file(),
        reason="LITELLM IS NOT INSTALLED: ./run conformance --full installs it",
    ),
    pytest.mark.xdist_group("litellm"),
    pytest.mark.timeout(300),
]


def reply(request: EmulatedRequest) -> ReplyLike:
    """Call the tool that is offered, write the object that is asked for, or answer."""
    if request.messages[-1].role == "tool":
        return f"It is {request.messages[-1].parts[0].text}"  # type: ignore[union-attr]
    if request.tools:
        return call(request.tools[0].name, {"city": "Lisbon"})
    if request.body.get("response_format") is not None:
        return '{"city": "Lisbon"}'
    return "Hello."


@pytest.fixture(scope="module")
def provider() -> Iterator[Emulator]:
    with Emulator(reply) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def base_url(provider: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("litellm")
    model = {"model": "openai/gpt-4o", "api_base": provider.base_url, "api_key": "any"}
    settings = {
        "model_list": [{"model_name": "small", "litellm_params": model}],
        "general_settings": {"master_key": KEY},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    # Without the first one, starting asks the network for prices.
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_COLOR": "1"}
    log = (folder / "log.txt").open("w")
    process = subprocess.Popen(
        [str(PROGRAM), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
        cwd=folder,
        env={**os.environ, **quiet},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_alive(process, f"{address}/health/liveliness", folder / "log.txt")
        yield f"{address}/v1"
    finally:
        process.kill()
        process.wait()
        log.close()


def wait_until_alive(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the proxy answers; it imports for many seconds."""
    for _ in range(1200):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


@dataclass
class Place:
    """What the model names."""

    city: str


@tool(effect="read")
def look_up_weather(city: str) -> str:
    """Look up the weather of a city."""
    return "sunny." if city == "Lisbon" else "unknown."


async def test_a_turn_with_a_tool(base_url: str, provider: Emulator) -> None:
    agent = Agent(
        "openai:small",
        base_url=base_url,
        api_key=KEY,
        instructions="Be brief.",
        tools=[look_up_weather],
        timeouts=PATIENT,
    )
    async with agent.stream("What is the weather in Lisbon?") as run:
        items = [item async for item in run]
    assert items
    assert run.result.output == "It is sunny."
    assert run.result.usage.output
    assert [request.problem for request in provider.requests] == [""] * len(provider.requests)


async def test_an_output_has_its_type(base_url: str) -> None:
    agent = Agent("openai:small", base_url=base_url, api_key=KEY, output=Place, timeouts=PATIENT)
    assert (await agent.run("Name a city of Portugal.")).output == Place("Lisbon")


async def test_a_probe_tells_what_the_proxy_is(base_url: str) -> None:
    found: ProbeResult = await probe_endpoint(base_url, "small", api_key=KEY, timeouts=PATIENT)
    print("\n".join(f"{one.about}: {one.showed}" for one in found.calls))
    answers = {one.trait: one.answer for one in found.findings}
    assert len(found.calls) <= 8
    assert answers["system_role"] == answers["stream_usage"] == answers["tools"] == "yes"
    assert answers["response_format"] == "yes"
