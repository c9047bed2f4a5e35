"""The metrics of calls: retries of a session, and a function that is told of each call."""

from __future__ import annotations

import logging

import pytest

from holdfast import ConfigurationError
from holdfast.compat import CallOptions, retry_ai_call_with_parsing
from holdfast.resilience import CallMetrics, MetricsSnapshot


def test_the_retries_of_a_session_are_counted() -> None:
    metrics = CallMetrics()
    options = CallOptions(metrics=metrics, sleep=lambda _: None)
    answers: list[object] = [None, None, "first", "second"]
    for _ in range(2):
        retry_ai_call_with_parsing(lambda: answers.pop(0), session_id="ana", options=options)
    seen = metrics.session_retries("ana")
    assert (seen.calls, seen.retries, seen.average) == (2, 2, 1.0)
    assert metrics.session_retries("unknown").calls == 0


def test_sessions_are_counted_by_their_retries_without_their_names() -> None:
    metrics = CallMetrics()
    for session, attempts in (("ana", 1), ("bea", 3), ("cy", 2), ("bea", 1), ("dan", 2)):
        metrics.record_call(success=True, attempts=attempts, session=session)
    assert metrics.count_sessions_by_retries() == {0: 1, 1: 2, 2: 1}


def test_only_the_newest_sessions_are_kept() -> None:
    metrics = CallMetrics()
    for number in range(1001):
        metrics.record_call(success=True, attempts=1, session=str(number))
    assert metrics.session_retries("0").calls == 0
    assert metrics.session_retries("1000").calls == 1


def test_an_alert_is_raised_when_a_rate_falls() -> None:
    alerts: list[str] = []

    def watch(seen: MetricsSnapshot) -> None:
        if seen.success_rate is not None and seen.success_rate < 0.5:
            alerts.append(seen.call_type)

    metrics = CallMetrics(on_call=watch)
    for success in (True, False, False):
        metrics.record_call(success=success, attempts=1, call_type="payment")
    assert alerts == ["payment"]


def test_a_watcher_that_raises_harms_no_call(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: MetricsSnapshot) -> None:
        raise ValueError("no pager")

    with caplog.at_level(logging.WARNING, "holdfast"):
        CallMetrics(on_call=broken).record_call(success=True, attempts=1)
    assert "on_call of CallMetrics raised ValueError: no pager" in caplog.text
    with pytest.raises(ConfigurationError, match="on_call"):
        CallMetrics(on_call="pager")  # type: ignore[arg-type]
