"""A server of llama.cpp with a small model: a turn, tools, a typed output, and a probe of the server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from holdfast import Agent, ModelAt, ModelSettings, StructuredOutput, tool
from holdfast.errors import HoldfastError
from holdfast.middleware import BeforeIteration, Middleware, Patch
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
    """A server with the template of the weights, which has no place for tools."""
    with serve() as address:
        yield address


@pytest.fixture(scope="module")
def tools_url() -> Iterator[str]:
    """A server with a template that has one; a token of these weights begins a call, and another one ends it."""
    with serve("with_tools.jinja") as address:
        yield address


@contextmanager
def serve(*template: str) -> Iterator[str]:
    process = subprocess.Popen(
        [str(PYTHON), "llama_cpp.py", *template],
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


@tool(effect="read")
def look_up_time(city: Literal["Lisbon", "Porto"]) -> str:
    """Look up the time in a city."""
    raise AssertionError(city)


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
    # required.
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


CALL_BEGINS, REPLY_ENDS = 13, 2  # tokens of these weights: <jupyter_code>, <|im_end|>
BIASED = {"logit_bias": [[CALL_BEGINS, 100], [REPLY_ENDS, 200]]}
"""A model of this size begins no call by itself. The end weighs more, so that only a forced call comes before it."""


class ForceOnce(Middleware):
    """Forces a call of a tool before the first result."""

    async def before_iteration(self, context: BeforeIteration[object]) -> Patch | None:
        """Ask for an answer after the call."""
        return None if context.is_first_iteration else Patch(settings=make_settings(48))


async def test_a_forced_tool_runs_and_its_result_is_sent(tools_url: str) -> None:
    CALLS.clear()
    forced = ModelSettings(max_tokens=96, seed=1, tool_choice="look_up_weather", extra=BIASED)
    agent = Agent(
        "llamacpp:smollm2",
        base_url=tools_url,
        tools=[look_up_weather, look_up_time],
        settings=forced,
        middleware=[ForceOnce()],
        timeouts=PATIENT,
    )
    result = await agent.run("What is the weather in Lisbon?")
    assert len(CALLS) == 1
    assert result.output
    assert [message.role for message in result.messages] == [
        *("user", "assistant", "tool", "assistant"),
    ]


async def test_an_output_is_asked_for_by_a_forced_tool(tools_url: str) -> None:
    agent = Agent(
        "llamacpp:smollm2",
        base_url=tools_url,
        output=StructuredOutput(Place, mode="tool"),
        settings=ModelSettings(max_tokens=96, seed=1, extra=BIASED),
        timeouts=PATIENT,
    )
    assert isinstance((await agent.run("Name a city of Portugal.")).output, Place)


async def test_a_choice_that_names_a_tool_has_no_effect_there(tools_url: str) -> None:
    # llama.cpp#26535: a server that reads names can be told so by `forces_tools="named"`.
    CALLS.clear()
    named = ModelAt("llamacpp:smollm2", base_url=tools_url, profile={"forces_tools": "named"})
    settings = ModelSettings(max_tokens=48, seed=1, tool_choice="look_up_weather", extra=BIASED)
    agent = Agent(named, tools=[look_up_weather], settings=settings, timeouts=PATIENT)
    with suppress(HoldfastError):  # the model ends its reply at once
        await agent.run("What is the weather in Lisbon?")
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
    assert len(found.calls) <= 8
    assert answers["system_role"] == "yes"
    assert (answers["max_tokens_field"], found.profile.max_tokens_field) == ("yes", "max_tokens")
    assert answers["stream_usage"] == "yes"
    assert answers["response_format"] == "yes"
    # Tools that it drops are not told from a model that does not call: it is not said that calls are forced.
    assert answers["tool_choice"] != "yes"
    assert (answers["images"], found.profile.images) == ("no", "none")
