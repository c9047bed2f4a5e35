"""Gives the results of a caller's tools to the run that waits for them, once.

A request that is sent again finds its results saved, and gets the same continuation. This module
must never start a run.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.core.client_tools import ClientToolQuestion, ClientToolResult
from holdfast.core.questions import AnyAnswer, AnyQuestion
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.tenant_service import TenantService
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.server.protocols.openai_shapes import SegmentName
from holdfast.server.protocols.turn_reading import SavedTurn, TurnReading


class GivenAnswers(Struct, frozen=True):
    """The answers of a request to the questions of one segment.

    Args:
        name: the segment that asked.
        values: the answers, by the keys of the questions.
        field: the field of the request, for errors.
        by: who gives them.
    """

    name: SegmentName
    values: Mapping[str, object]
    field: str
    by: str = ""


async def give_answers(
    tenant: TenantService, reading: TurnReading, given: GivenAnswers
) -> tuple[SegmentName, SavedTurn]:
    """Give answers, and return the segment with which the turn goes on.

    Raises:
        ProblemError: 409 if other answers were given before; 400 if nobody waits for them any more.
    """
    name = given.name
    agent = await tenant.agent_of(name.session)
    questions = {one.key: one for one in await agent.questions(name.session)}
    answers = [
        _make_answer(questions[key], value, given)
        for key, value in given.values.items()
        if key in questions
    ]
    receipts = await tenant.answer_all(name.session, answers)
    saved = await reading.require_segment(name, given.field)
    for receipt in receipts:
        if receipt.reason == "late":
            detail = "nobody waits for this result any more"
            raise ProblemError(make_problem(400, "too_late", detail, field=given.field))
    _check_saved(saved, given)
    following = msgspec.structs.replace(name, segment=name.segment + 1)
    return following, saved


def _make_answer(question: AnyQuestion, value: object, given: GivenAnswers) -> AnyAnswer:
    if isinstance(question, ClientToolQuestion) and not isinstance(value, ClientToolResult):
        raise ProblemError(
            make_problem(400, "wrong_answer", "is not the result of a tool", field=given.field)
        )
    return question.answer(value, by=given.by)


def _check_saved(saved: SavedTurn, given: GivenAnswers) -> None:
    """Raise ProblemError unless the answers that were saved are those of the request."""
    for key, value in given.values.items():
        if key in saved.segmented.open_keys:
            detail = "the run did not accept this result"
            raise ProblemError(make_problem(409, "conflict", detail, field=given.field))
        if isinstance(value, ClientToolResult) and saved.segmented.answers.get(key) != value:
            detail = "another result was given before, and the run went on with it"
            raise ProblemError(make_problem(409, "already_answered", detail, field=given.field))


def require_agent(tenant: TenantService, name: str) -> AnyAgent:
    """Return the agent that a request names as its model. Raises ProblemError with 404."""
    agent = tenant.find_agent(name)
    if agent is None:
        detail = f"The model {name!r} does not exist."
        raise ProblemError(make_problem(404, "model_not_found", detail, field="model"))
    return agent
