"""The answers of the registration agent are types that an agent can be asked for."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from holdfast import Agent, StructuredOutput
from holdfast.compat import AgentResponse, ReRegistrationAgentResponse
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize(
    "given",
    [
        {"agent_final_response": "", "routine_number": 1},
        {"agent_final_response": "Hi", "routine_number": 0},
        {"agent_final_response": "Hi"},
        {"agent_final_response": "Hi", "routine_number": 1, "mood": "good"},
    ],
)
def test_an_answer_of_another_form_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AgentResponse.model_validate(given)


def test_an_answer_without_routines_refuses_a_routine() -> None:
    with pytest.raises(ValidationError):
        ReRegistrationAgentResponse.model_validate(
            {"agent_final_response": "Hi", "routine_number": 1}
        )


async def test_an_agent_is_asked_for_such_an_answer_and_asked_again_for_a_wrong_one() -> None:
    model = ScriptedModel(
        json.dumps({"agent_final_response": "Hi", "routine_number": 0}),
        json.dumps({"agent_final_response": "", "routine_number": 2}),
        json.dumps({"agent_final_response": "Hi", "routine_number": 2}),
    )
    result = await Agent(model, output=AgentResponse).run("Hello")
    assert result.output == AgentResponse(agent_final_response="Hi", routine_number=2)
    assert len(model.requests) == 3
    asked = [request.messages[-1].text for request in model.requests]
    assert ["routine_number" in text for text in asked] == [False, True, False]
    assert ["agent_final_response" in text for text in asked] == [False, False, True]
    schema = model.requests[0].output
    assert schema is not None
    assert schema.schema["additionalProperties"] is False
    assert schema.schema["required"] == ["agent_final_response", "routine_number"]


async def test_the_name_of_the_schema_can_be_the_one_of_the_seed() -> None:
    model = ScriptedModel('{"agent_final_response": "Hi"}')
    output = StructuredOutput(ReRegistrationAgentResponse, name="re_registration_response")
    await Agent(model, output=output).run("Hello")
    schema = model.requests[0].output
    assert schema is not None
    assert schema.name == "re_registration_response"
