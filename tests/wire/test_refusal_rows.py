"""Each refusal on record is learnt if the profile chose what was refused; any other one is told in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.wire.refusal_table import REFUSALS, RefusalRow

from holdfast import Agent, ModelAt, ModelSettings, RetryOptions, tool
from holdfast.core.messages import ToolCall
from holdfast.errors import HoldfastError
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, HttpStatus, call

LEARNT = [row for row in REFUSALS if row.changed and row.changed != "output_mode"]
MOVED = [row for row in REFUSALS if row.changed == "output_mode"]
TOLD = [row for row in REFUSALS if not row.changed]
PROFILES: dict[str, dict[str, Any]] = {
    "system_role": {"system_role": "developer"},
    "parallel_calls": {"parallel_calls": "allow"},
}


@tool(effect="read")
def look_up(city: str) -> str:
    """Look up a city."""
    return city


def name_row(row: RefusalRow) -> str:
    return f"{row.endpoint}-{'+'.join(row.sent)}"


def has_trait(row: RefusalRow, request: EmulatedRequest) -> bool:
    """Whether a request has what the endpoint refused."""
    body: Any = request.body
    match row.changed:
        case "system_role":
            return any(message["role"] == "developer" for message in body["messages"])
        case "stream":
            return body.get("stream") is True
        case "stream_usage":
            return "stream_options" in body
        case "parallel_calls":
            return "parallel_tool_calls" in body
        case _:
            return any(name in body for name in row.sent)


def make_agent(row: RefusalRow, base_url: str) -> Agent[str]:
    limit = next((name for name in row.sent if name.startswith("max_")), "max_tokens")
    profile: Any = {"max_tokens_field": limit, **PROFILES.get(row.changed, {})}
    return Agent(
        ModelAt("openai:m", base_url=base_url, profile=profile),
        instructions="Be brief.",
        settings=ModelSettings(max_tokens=50),
        tools=[look_up],
        retry=RetryOptions(max_retries=0),
    )


@pytest.mark.parametrize("row", LEARNT, ids=name_row)
async def test_the_next_form_of_what_was_refused_is_sent(row: RefusalRow) -> None:
    def refuse(request: EmulatedRequest) -> HttpStatus | None:
        return HttpStatus(row.status, body=row.body) if has_trait(row, request) else None

    async with Emulator(["Yes.", "Yes."], faults=refuse, strict=False) as server:
        agent = make_agent(row, server.base_url)
        assert (await agent.run("Hello?")).output == "Yes."
        assert (await agent.run("And now?")).output == "Yes."
        # The first turn learns, and the second one knows.
        assert [entry.status for entry in server.requests] == [row.status, 200, 200]


@dataclass
class Trip:
    city: str


@pytest.mark.parametrize("row", MOVED, ids=lambda row: f"{row.endpoint}-{row.status}")
async def test_an_output_whose_schema_is_refused_is_asked_for_in_the_next_mode(
    row: RefusalRow,
) -> None:
    def refuse(request: EmulatedRequest) -> HttpStatus | None:
        has_schema = "json_schema" in str(request.body.get("response_format"))
        return HttpStatus(row.status, body=row.body) if has_schema else None

    def reply(_: EmulatedRequest) -> ToolCall:
        return call("final_answer", {"city": "Porto"})

    model = f"{PRESET[row.endpoint]}:m"
    async with Emulator(reply, faults=refuse, strict=False) as server:
        agent = Agent(
            ModelAt(model, base_url=server.base_url, profile={"output_mode": "native"}),
            output=Trip,
            retry=RetryOptions(max_retries=0),
        )
        for text in ("Where?", "And now?"):
            assert (await agent.run(text)).output == Trip("Porto")
        # The first turn learns, and the second one knows.
        assert [entry.status for entry in server.requests] == [row.status, 200, 200]


PRESET = {
    "Cerebras": "cerebras",
    "Groq": "groq",
    "vLLM": "vllm",
    "SGLang": "sglang",
    "llama.cpp": "llamacpp",
}


@pytest.mark.parametrize("row", TOLD, ids=name_row)
async def test_what_is_no_matter_of_the_profile_is_told_in_words(row: RefusalRow) -> None:
    def refuse(_: EmulatedRequest) -> HttpStatus:
        return HttpStatus(row.status, body=row.body)

    async with Emulator(["Yes."], faults=refuse, strict=False) as server:
        with pytest.raises(HoldfastError) as caught:
            await make_agent(row, server.base_url).run("Hello?")
        assert len(server.requests) == 1
    assert caught.value.info.status == row.status
