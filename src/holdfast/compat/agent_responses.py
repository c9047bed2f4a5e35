"""The answers of the agents of seed 003, as pydantic models: the form that a model is asked for.

This module must never accept a field that the seed does not name: a model that adds one is asked again.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class AgentResponse(BaseModel):
    """An answer of the registration agent; a type for `Agent(output=...)`.

    >>> AgentResponse(agent_final_response="What is your name?", routine_number=2).routine_number
    2
    """

    model_config = ConfigDict(extra="forbid")

    agent_final_response: str = Field(min_length=1)
    routine_number: int = Field(ge=1)


class ReRegistrationAgentResponse(BaseModel):
    """An answer of the re-registration agent, which has no routines."""

    model_config = ConfigDict(extra="forbid")

    agent_final_response: str = Field(min_length=1)
