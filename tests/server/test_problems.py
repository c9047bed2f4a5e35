"""What a problem says of an error, and what only the log says."""

from __future__ import annotations

import logging

import pytest
from msgspec import UNSET

from holdfast.errors import WaitingError
from holdfast.journal.inbox.inbox_errors import (
    EngineError,
    InboxError,
    QueuedTurnError,
    QueueFullError,
    QuotaReachedError,
    SubmissionError,
)
from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.server.api.request_bodies import NewTurn
from holdfast.server.api.request_reading import decode_body
from holdfast.server.problem_responses import ProblemError, respond_problem, to_problem


def test_a_journal_that_is_away_is_named_in_the_log_and_not_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = JournalUnreachableError("postgresql://me@db.internal/runs", "cannot be reached")
    with caplog.at_level(logging.WARNING, "holdfast.server"):
        response = respond_problem(to_problem(error))
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "2"
    assert b"db.internal" not in bytes(response.body)
    assert "db.internal" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry_after", "field"),
    [
        (QueueFullError("tenant acme", "has 4 turns already", 7.2), 429, "queue_full", "8", None),
        (QuotaReachedError("acme", "4 turns", 90.0), 429, "quota", "90", None),
        (SubmissionError("order-7"), 409, "request_conflict", None, "Idempotency-Key"),
        (QueuedTurnError("order-7", "dropped", ""), 409, "dropped", None, "Idempotency-Key"),
        (EngineError("nats", "cannot be reached at db.internal"), 503, "queue", "2", None),
    ],
)
def test_what_the_queue_refuses_names_the_wait_or_the_fix(
    error: InboxError, status: int, kind: str, retry_after: str | None, field: str | None
) -> None:
    problem = to_problem(error)
    response = respond_problem(problem)
    assert (response.status_code, problem.kind) == (status, kind)
    assert response.headers.get("Retry-After") == retry_after
    assert problem.field == (UNSET if field is None else field)
    assert (problem.fix is UNSET) == (field is None)
    assert b"db.internal" not in bytes(response.body)


@pytest.mark.parametrize(
    ("name", "fix"), [("mesage", "Did you mean message?"), ("zzz", "Leave it out")]
)
def test_the_problem_of_a_misspelled_field_names_the_right_one(name: str, fix: str) -> None:
    with pytest.raises(ProblemError) as caught:
        decode_body(f'{{"agent": "a", "message": "Hi", "{name}": 1}}'.encode(), NewTurn)
    assert (caught.value.problem.field, caught.value.problem.fix) == (name, fix)


@pytest.mark.parametrize(
    ("keys", "fix"),
    [(("t1.i0.tool.0.ask.0",), "Answer it, or abandon it"), ((), "Resume it, or abandon it")],
)
def test_the_problem_of_a_waiting_turn_names_operations_of_the_service(
    keys: tuple[str, ...], fix: str
) -> None:
    problem = to_problem(WaitingError("ada", keys))
    assert (problem.status, problem.kind, problem.fix) == (409, "waiting", fix)
    assert "agent." not in problem.detail
    assert all(key in problem.detail for key in keys)
