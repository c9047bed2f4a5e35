"""A server of llama.cpp with a small model: a turn, tools, a typed output, and a probe of the server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from holdfast import Agent, ModelSettings, tool
from holdfast.models import ProbeResult, Timeouts, probe_endpoint

FOLDER = Path(__file__).parent / "servers"
PYTHON = FOLDER / ".venv" / "bin" / "python"
# It reads a few tokens in a second where other tests run beside it.
PATIENT = Timeouts(first_byte=600.0, between_chunks=600.0, total=900.0)

pytestmark = [
    pytest.mark.skipif(
        not PYTHON.is_file(), reason="LLAMA.CPP IS NOT INSTALLED: ./run conformance installs it"
    ),
    pytest.mark.xdist_group("llama_cpp"),
]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    process = subprocess.Popen(
        [str(PYTHON), "llama_cpp.py"],
        cwd=FOLDER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip() + "/v1"
    finally:
        process.kill()
        process.communicate()


@dataclass
class Place:
    """What the model names."""

    city: Literal["Lisbon", "Porto"]


CALLS: list[str] = []


@tool(effect="read")
def look_up_weather(city: Literal["Lisbon", "Porto"]) -> str:
    """Look up the weather of a city."""
    CALLS.append(city)
    return "Sunny."


def make_settings(most: int = 48, tool_choice: str | None = None) -> ModelSettings:
    return ModelSettings(max_tokens=most, temperature=0.0, seed=1, tool_choice=tool_choice)


async def test_a_turn_has_an_answer(base_url: str) -> None:
    agent = Agent(
        "openai:smollm2",
        base_url=base_url,
        instructions="Be brief.",
        settings=make_settings(),
        timeouts=PATIENT,
    )
    result = await agent.run("Say hello.")
    assert result.output
    assert result.usage.output


async def test_tools_that_the_chat_template_drops_end_in_an_answer(base_url: str) -> None:
    # The template of these weights has no place for tools, and the server drops them in silence, also if a call is
    # required. So no call can be seen here.
    agent = Agent(
        "llamacpp:smollm2",
        base_url=base_url,
        tools=[look_up_weather],
        settings=make_settings(256, "required"),
        timeouts=PATIENT,
    )
    result = await agent.run("What is the weather in Lisbon?")
    assert result.output
    assert CALLS == []


async def test_an_output_has_its_type(base_url: str) -> None:
    agent = Agent(
        "llamacpp:smollm2",
        base_url=base_url,
        output=Place,
        settings=make_settings(),
        timeouts=PATIENT,
    )
    assert isinstance((await agent.run("Name a city of Portugal.")).output, Place)


async def test_a_probe_tells_what_the_server_is(base_url: str) -> None:
    found: ProbeResult = await probe_endpoint(base_url, timeouts=PATIENT)
    answers = {one.trait: one.answer for one in found.findings}
    print("\n".join(f"{call.about}: {call.showed}" for call in found.calls))
    assert len(found.calls) < 8
    assert answers["system_role"] == "yes"
    assert (answers["max_tokens_field"], found.profile.max_tokens_field) == ("yes", "max_tokens")
    assert answers["stream_usage"] == "yes"
    assert answers["response_format"] == "yes"
    # Tools that it drops are not told from a model that does not call: it is not said that calls are forced.
    assert answers["tool_choice"] != "yes"
    assert (answers["images"], found.profile.images) == ("no", "none")
