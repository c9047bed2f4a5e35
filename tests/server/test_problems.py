"""What a problem says of an error, and what only the log says."""

from __future__ import annotations

import logging

import pytest

from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.server.problem_responses import respond_problem, to_problem


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
