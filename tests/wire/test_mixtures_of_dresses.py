"""A turn before an endpoint with a random mixture of traits ends with its answer, or with the server's words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, ModelAt, ModelSettings, RetryOptions, tool
from holdfast.errors import HoldfastError
from holdfast.testing import Emulator
from holdfast.testing.emulator import DRESSES, Dress

CHOSEN = ["max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls"]
SET_BY_THE_USER = ["temperature", "seed"]
WORDS = [dress.words for dress in DRESSES.values()]
MOST_CHANGES = 4


@tool(effect="read")
def look_up(city: str) -> str:
    """Look up a city."""
    return city


@st.composite
def mixtures(draw: st.DrawFn) -> Dress:
    roles = draw(st.sampled_from([["system"], ["system", "developer"], ["developer"], []]))
    return Dress(
        refuses=tuple(
            draw(st.lists(st.sampled_from(CHOSEN + SET_BY_THE_USER), unique=True, max_size=3))
        ),
        roles=(*roles, "user", "assistant", "tool"),
        words=draw(st.sampled_from(WORDS)),
        usage=draw(st.sampled_from(["asked", "always", "never"])),
        end_marker=draw(st.booleans()),
    )


profiles = st.fixed_dictionaries(
    {
        "system_role": st.sampled_from(["system", "developer"]),
        "max_tokens_field": st.sampled_from(["max_tokens", "max_completion_tokens"]),
        "parallel_calls": st.sampled_from(["", "allow", "forbid"]),
    }
)


def has_what_the_user_set(body: Any) -> bool:
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    said = str(body["messages"])
    return (body["temperature"], body["seed"], limit) == (0.5, 7, 50) and "Be brief." in said


@pytest.mark.slow  # an emulator for each example
@given(mixtures(), profiles)
async def test_an_answer_or_the_words_of_the_server(dress: Dress, profile: Any) -> None:
    async with Emulator(["Yes.", "Yes."], dress=dress) as server:
        agent = Agent(
            ModelAt("openai:m", base_url=server.base_url, profile=profile),
            instructions="Be brief.",
            settings=ModelSettings(temperature=0.5, seed=7, max_tokens=50),
            tools=[look_up],
            retry=RetryOptions(max_retries=0),
        )
        outputs: list[str] = []
        failure: HoldfastError | None = None
        try:
            outputs += [(await agent.run(text)).output for text in ("Hello?", "And now?")]
        except HoldfastError as error:
            failure = error
        if failure is not None:
            assert failure.info.status in (400, 422, 500)
            assert len(server.requests) <= 1 + MOST_CHANGES
        else:
            assert outputs == ["Yes.", "Yes."]
            # What was learnt in the first turn is not asked again.
            assert [entry.status for entry in server.requests][-2:] == [200, 200]
            assert len(server.requests) <= 2 + MOST_CHANGES
            assert not {*SET_BY_THE_USER} & {*dress.refuses}
        for entry in server.requests:
            assert has_what_the_user_set(entry.body)
            if profile["parallel_calls"] == "forbid":
                assert entry.body["parallel_tool_calls"] is False
