"""A client of the service was told to call `agent.answer(...)`, which it does not have."""

from __future__ import annotations

import pytest

from holdfast.errors import WaitingError
from holdfast.server.problem_responses import to_problem


@pytest.mark.parametrize(
    ("keys", "fix"),
    [(("t1.i0.tool.0.ask.0",), "Answer it, or abandon it"), ((), "Resume it, or abandon it")],
)
def test_the_problem_names_acts_of_the_service(keys: tuple[str, ...], fix: str) -> None:
    problem = to_problem(WaitingError("ada", keys))
    assert (problem.status, problem.kind, problem.fix) == (409, "waiting", fix)
    assert "agent." not in problem.detail
    assert all(key in problem.detail for key in keys)
