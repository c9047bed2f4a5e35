"""A keyword that an agent or a run does not have says where it belongs, before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.core.errors import ConfigurationError
from holdfast.testing import ScriptedModel

SETTING = ", but a setting of the model. Write settings=ModelSettings"
RUNS: list[tuple[str, str]] = [
    ("temperature", f"temperature: is not an argument of Agent.run{SETTING}(temperature=...)"),
    ("max_output_tokens", f"is not an argument of Agent.run{SETTING}(max_tokens=...)"),
    ("max_turns", "; limits has it. Write limits=Limits(iterations=...)"),
    ("connect", "; timeouts has it. Write Agent(..., timeouts=Timeouts(connect=...))"),
    ("system_prompt", "Agent.run. Write instructions=..."),
    ("retry", ", but of Agent. Write Agent(..., retry=...)"),
    ("model_settings", "Agent.run. Write settings=..."),
    ("message_history", "Agent.run. Write history=..."),
    ("output_type", "Agent.run. Write output=..."),
    ("usage_limits", "Agent.run. Write limits=..."),
    ("sesion", "Agent.run. Did you mean session?"),
    ("metdata", "Agent.run. Did you mean metadata?"),
    (
        "zzz",
        "Agent.run. It has by, deps, history, instructions, limits, metadata, model, output, request",
    ),
]


@pytest.mark.parametrize(("keyword", "message"), RUNS)
async def test_of_a_run(keyword: str, message: str) -> None:
    model = ScriptedModel()
    given: dict[str, Any] = {keyword: 1}
    for start in (Agent(model).run, Agent(model).run_sync, Agent(model).stream):
        with pytest.raises(ConfigurationError) as caught:
            await start("Hi", **given)  # type: ignore[misc]
        assert message in str(caught.value)
        assert caught.value.argument == keyword
    assert model.requests == []


AGENTS: list[tuple[str, str]] = [
    ("temperature", f"temperature: is not an argument of Agent{SETTING}(temperature=...)"),
    ("max_iterations", "; limits has it. Write limits=Limits(iterations=...)"),
    ("session", ", but of a run. Write agent.run(..., session=...)"),
    ("metadata", ", but of a run. Write agent.run(..., metadata=...)"),
    ("system_prompt", "Agent. Write instructions=..."),
    ("fallbacks", "Agent. Did you mean fallback?"),
]


@pytest.mark.parametrize(("keyword", "message"), AGENTS)
def test_of_an_agent(keyword: str, message: str) -> None:
    given: dict[str, Any] = {keyword: 1}
    with pytest.raises(ConfigurationError) as caught:
        Agent(ScriptedModel(), **given)
    assert message in str(caught.value)


SAVED = "; it is saved with the turn. Leave it out"


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("settings", SAVED),
        ("metadata", SAVED),
        ("limits", SAVED),
        ("temperature", ", but a setting of the model"),
        ("tool", "Did you mean tools?"),
    ],
)
async def test_of_a_turn_that_continues(keyword: str, message: str) -> None:
    agent = Agent(ScriptedModel(), journal=MemoryJournal())
    given: dict[str, Any] = {keyword: 1}
    for continuing in (agent.resume, agent.resume_stream):
        with pytest.raises(ConfigurationError) as caught:
            await continuing("s", **given)  # type: ignore[misc]
        assert message in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        await agent.recover(**given)
    assert message in str(caught.value)
