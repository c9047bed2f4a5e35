from __future__ import annotations

import asyncio
import logging
import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resilience.operations import OK, Bench, C, Script, fail, never

from holdfast import ConfigurationError
from holdfast.compat import CallOptions, retry_ai_call_with_parsing
from holdfast.resilience import MetricsSnapshot
from holdfast.resilience.metrics import BUCKETS, CallMetrics, MetricsRecorder, format_prometheus
from holdfast.resilience.retry.strategy import Retry


def test_the_fields_are_those_of_seed_003() -> None:
    metrics = CallMetrics()
    metrics.record_call(True, 1, None, 0.4)
    metrics.record_call(False, 4, "server_error", 7.5)
    seen = metrics.snapshot()
    assert (seen.total_calls, seen.successful_calls) == (2, 1)
    assert seen.retry_counts == {1: 1, 4: 1}
    assert seen.error_types == {"server_error": 1}
    assert seen.response_times == (0.4, 7.5)
    assert (seen.success_rate, seen.average_attempts) == (0.5, 2.5)


def test_flaw_a_time_of_zero_is_a_time() -> None:
    metrics = CallMetrics()
    metrics.record_call(True, 1, response_time=0.0)
    assert metrics.snapshot().response_times == (0.0,)


def test_flaw_nothing_grows_without_end() -> None:
    metrics = CallMetrics()
    for number in range(5000):
        metrics.record_call(False, number, f"error {number}", float(number), call_type="payment")
        metrics.record_call(True, 1, call_type=f"kind {number}")
    seen = metrics.snapshot("payment")
    assert len(seen.response_times) == 1024
    assert len(seen.retry_counts) <= 17
    assert len(seen.error_types) <= 65
    assert len(metrics.snapshots()) <= 65
    assert (seen.total_calls, sum(seen.error_types.values())) == (5000, 5000)
    assert sum(one.total_calls for one in metrics.snapshots()) == 10_000


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, "1", True])
def test_what_is_no_time_is_not_counted(bad: Any) -> None:
    metrics = CallMetrics()
    metrics.record_call(True, 1, response_time=bad)
    assert metrics.snapshot().response_times == ()


def test_percentiles() -> None:
    metrics = CallMetrics()
    for number in range(100):
        metrics.record_call(True, 1, response_time=float(number))
    seen = metrics.snapshot()
    assert [seen.percentile(share) for share in (0, 0.5, 0.95, 1)] == [0, 50, 95, 99]
    assert CallMetrics().snapshot().percentile(0.5) is None


def test_it_is_exact_across_threads() -> None:
    metrics = CallMetrics()

    def count() -> None:
        for _ in range(2000):
            metrics.record_call(True, 1, response_time=0.1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.snapshot().total_calls == sum(metrics.snapshot().buckets) == 8000


def test_the_text_is_what_prometheus_reads() -> None:
    metrics = CallMetrics()
    metrics.record_call(True, 2, None, 0.3, call_type="payment")
    metrics.record_call(False, 4, "timeout", 30.0, call_type="payment")
    lines = metrics.prometheus().splitlines()
    assert "# TYPE holdfast_call_seconds histogram" in lines
    assert 'holdfast_calls_total{call_type="payment",result="success"} 1' in lines
    assert 'holdfast_calls_total{call_type="payment",result="failure"} 1' in lines
    assert 'holdfast_call_attempts_total{call_type="payment",attempts="4"} 1' in lines
    assert 'holdfast_call_errors_total{call_type="payment",category="timeout"} 1' in lines
    assert 'holdfast_call_seconds_bucket{call_type="payment",le="0.25"} 0' in lines
    assert 'holdfast_call_seconds_bucket{call_type="payment",le="0.5"} 1' in lines
    assert 'holdfast_call_seconds_bucket{call_type="payment",le="+Inf"} 2' in lines
    assert 'holdfast_call_seconds_sum{call_type="payment"} 30.3' in lines
    assert 'holdfast_call_seconds_count{call_type="payment"} 2' in lines
    assert metrics.prometheus().endswith("\n")
    assert format_prometheus(()) == ""


def test_a_name_cannot_break_out_of_its_label() -> None:
    metrics = CallMetrics()
    metrics.record_call(True, 1, call_type='a"} 1\nb\\')
    lines = metrics.prometheus().splitlines()
    assert 'holdfast_calls_total{call_type="a\\"} 1\\nb\\\\",result="success"} 1' in lines
    assert all(line.startswith(("#", "holdfast_")) for line in lines)


@given(st.lists(st.floats(0, 1000), max_size=50))
def test_the_buckets_count_what_lies_below_their_bounds(times: list[float]) -> None:
    metrics = CallMetrics()
    for seconds in times:
        metrics.record_call(True, 1, response_time=seconds)
    seen, below = metrics.snapshot(), 0
    for bound, count in zip((*BUCKETS, math.inf), seen.buckets, strict=True):
        below += count
        assert below == sum(seconds <= bound for seconds in times)


class TestStrategy:
    async def test_it_counts_what_the_caller_sees(self) -> None:
        metrics = CallMetrics()
        for outcome in (OK, fail(C.AUTH_ERROR)):
            await Bench().run(Script(outcome), MetricsRecorder(metrics, "chat"), Retry())
        late = Bench()
        late.clock.advance(100.0)
        await late.run(Script(fail(), OK), MetricsRecorder(metrics, "chat"), Retry())
        seen = metrics.snapshot("chat")
        assert (seen.total_calls, seen.successful_calls) == (3, 2)
        assert seen.retry_counts == {1: 2, 2: 1}
        assert seen.error_types == {"auth_error": 1}
        assert seen.response_times == (0.0, 0.0, 1.0)
        assert seen.average_attempts == 4 / 3

    async def test_a_cancelled_call_is_counted_as_one(self) -> None:
        metrics = CallMetrics()
        task = asyncio.ensure_future(Bench().run(never, MetricsRecorder(metrics)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert metrics.snapshot().error_types == {"cancelled": 1}


# The retries of a session, and a function that gets each call.


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


def test_a_call_counts_in_the_bucket_of_the_next_greater_bound() -> None:
    metrics = CallMetrics()
    bounds = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, *(10.0 * 2**times for times in range(6)))
    for bound in bounds:
        metrics.record_call(True, 1, response_time=bound + 0.001)
    assert metrics.snapshot().buckets == (0, *[1] * len(bounds))
    for bound in bounds:
        metrics.record_call(True, 1, response_time=bound)
    assert metrics.snapshot().buckets == (1, *[2] * (len(bounds) - 1), 1)
