"""Whoever writes `mesage` was told to leave it out."""

from __future__ import annotations

import pytest

from holdfast.server.api.request_bodies import NewTurn
from holdfast.server.api.request_reading import decode_body
from holdfast.server.problem_responses import ProblemError


@pytest.mark.parametrize(
    ("name", "fix"), [("mesage", "Did you mean message?"), ("zzz", "Leave it out")]
)
def test_the_problem_names_the_field_that_was_meant(name: str, fix: str) -> None:
    with pytest.raises(ProblemError) as caught:
        decode_body(f'{{"agent": "a", "message": "Hi", "{name}": 1}}'.encode(), NewTurn)
    assert (caught.value.problem.field, caught.value.problem.fix) == (name, fix)
