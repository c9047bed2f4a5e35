"""Metrics of calls: counts, retries, errors and latencies, bounded however long the process lives.

Counts are counters; times are a histogram and the newest few; the number of names is limited. Names
and texts of callers must never become labels without a bound.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from threading import Lock

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.redaction import redact
from holdfast.core.type_checks import is_seconds
from holdfast.resilience.pipeline import CallContext, Done, Operation, Outcome, P, T

_log = logging.getLogger("holdfast")

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Upper bounds of the histogram, in seconds."""

_NEWEST = 1024
_MOST_NAMES = 64
_MOST_SESSIONS = 1000
_MOST_ATTEMPTS = 16
_OTHER = "other"


class MetricsSnapshot(Struct, frozen=True):
    """The metrics of one kind of call at one time.

    Args:
        call_type: the kind.
        total_calls: calls that ended, however.
        successful_calls: those that gave a value.
        retry_counts: how many calls took so many attempts; the last key stands for more, too.
        error_types: failures by category.
        response_times: the newest times in seconds, oldest first.
        seconds: all times together.
        buckets: how many times lie in each bucket of `BUCKETS`, and above the last.
    """

    call_type: str
    total_calls: int
    successful_calls: int
    retry_counts: Mapping[int, int]
    error_types: Mapping[str, int]
    response_times: tuple[float, ...]
    seconds: float
    buckets: tuple[int, ...]

    @property
    def success_rate(self) -> float | None:
        """The share of calls that succeeded; None before the first."""
        return self.successful_calls / self.total_calls if self.total_calls else None

    @property
    def average_attempts(self) -> float | None:
        """Attempts for each call, on average; None before the first."""
        calls = sum(self.retry_counts.values())
        if not calls:
            return None
        return sum(attempts * count for attempts, count in self.retry_counts.items()) / calls

    def percentile(self, share: float) -> float | None:
        """The time that this share of the newest calls did not exceed, in seconds.

        Args:
            share: 0.95 for the 95th percentile.
        """
        if not self.response_times:
            return None
        ordered = sorted(self.response_times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class SessionRetries(Struct, frozen=True):
    """How often the calls of one session were tried: `retries` counts attempts after the first."""

    calls: int = 0
    retries: int = 0

    @property
    def average(self) -> float:
        """Retries for each call; 0 before the first."""
        return self.retries / self.calls if self.calls else 0.0


class _Series:
    """The counts of one kind of call."""

    __slots__ = ("buckets", "errors", "newest", "retries", "seconds", "successes", "total")

    def __init__(self) -> None:
        self.total = 0
        self.successes = 0
        self.retries: Counter[int] = Counter()
        self.errors: Counter[str] = Counter()
        self.newest: deque[float] = deque(maxlen=_NEWEST)
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)


class CallMetrics:
    """Counts calls by kind; safe to use from any thread.

    Args:
        on_call: called after each call with the metrics of its kind, for example to raise an alert
            when `success_rate` falls. It must be quick. An exception that it raises is logged.

    >>> metrics = CallMetrics()
    >>> metrics.record_call(success=True, attempts=2, response_time=0.0, call_type="payment")
    >>> metrics.snapshot("payment").retry_counts, metrics.snapshot("payment").response_times
    ({2: 1}, (0.0,))
    """

    __slots__ = ("_lock", "_on_call", "_series", "_sessions")

    def __init__(self, on_call: Callable[[MetricsSnapshot], object] | None = None) -> None:
        check_value("on_call", on_call, Callable | None)
        self._on_call = on_call
        self._lock = Lock()
        self._series: dict[str, _Series] = {}
        self._sessions: OrderedDict[str, SessionRetries] = OrderedDict()

    def record_call(
        self,
        success: bool,
        attempts: int,
        error_type: str | None = None,
        response_time: float | None = None,
        *,
        call_type: str = "default",
        session: str | None = None,
    ) -> None:
        """Count one call that ended.

        Args:
            success: whether it gave a value.
            attempts: how often it was tried.
            error_type: the category of a failure.
            response_time: seconds; any other value does not count.
            call_type: the kind of call; beyond 64 kinds, the rest are counted as "other".
            session: the session of the call. The newest 1,000 sessions are counted.
        """
        with self._lock:
            series = self._series_for(call_type)
            series.total += 1
            series.successes += bool(success)
            series.retries[max(0, min(attempts, _MOST_ATTEMPTS))] += 1
            if error_type:
                known = error_type in series.errors or len(series.errors) < _MOST_NAMES
                series.errors[error_type if known else _OTHER] += 1
            if response_time is not None and is_seconds(response_time):
                series.newest.append(response_time)
                series.seconds += response_time
                series.buckets[bisect_left(BUCKETS, response_time)] += 1
            if session is not None:
                self._count_session(session, attempts)
            seen = None if self._on_call is None else _take_snapshot(call_type, series)
        if seen is not None and self._on_call is not None:
            _notify(self._on_call, seen)

    def _count_session(self, session: str, attempts: int) -> None:
        before = self._sessions.pop(session, SessionRetries())
        retries = before.retries + max(0, attempts - 1)
        self._sessions[session] = SessionRetries(before.calls + 1, retries)
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)

    def session_retries(self, session: str) -> SessionRetries:
        """The counts of one session; zeros for one that was never seen, or long ago."""
        with self._lock:
            return self._sessions.get(session, SessionRetries())

    def count_sessions_by_retries(self) -> Mapping[int, int]:
        """Return how many of the newest 1,000 sessions had how many retries, without their names.

        >>> metrics = CallMetrics()
        >>> metrics.record_call(success=True, attempts=3, session="ada")
        >>> dict(metrics.count_sessions_by_retries())
        {2: 1}
        """
        with self._lock:
            return Counter(one.retries for one in self._sessions.values())

    def _series_for(self, call_type: str) -> _Series:
        series = self._series.get(call_type)
        if series is None:
            if len(self._series) >= _MOST_NAMES:
                call_type = _OTHER
            series = self._series.setdefault(call_type, _Series())
        return series

    def snapshot(self, call_type: str = "default") -> MetricsSnapshot:
        """The metrics of one kind of call now; zeros for a kind that was never seen."""
        with self._lock:
            return _take_snapshot(call_type, self._series.get(call_type) or _Series())

    def snapshots(self) -> tuple[MetricsSnapshot, ...]:
        """The metrics of every kind of call, by name."""
        with self._lock:
            return tuple(
                _take_snapshot(name, series) for name, series in sorted(self._series.items())
            )

    def prometheus(self) -> str:
        """The metrics as Prometheus text (exposition format 0.0.4)."""
        return format_prometheus(self.snapshots())


def _notify(on_call: Callable[[MetricsSnapshot], object], seen: MetricsSnapshot) -> None:
    try:
        on_call(seen)
    except Exception as error:  # noqa: BLE001  # REASON: the user's code must not fail the call
        kind = type(error).__name__
        _log.warning("on_call of CallMetrics raised %s: %s", kind, redact(str(error)))


def _take_snapshot(call_type: str, series: _Series) -> MetricsSnapshot:
    return MetricsSnapshot(
        call_type=call_type,
        total_calls=series.total,
        successful_calls=series.successes,
        retry_counts=dict(sorted(series.retries.items())),
        error_types=dict(sorted(series.errors.items())),
        response_times=tuple(series.newest),
        seconds=series.seconds,
        buckets=tuple(series.buckets),
    )


def format_prometheus(snapshots: tuple[MetricsSnapshot, ...]) -> str:
    """Snapshots as Prometheus text.

    >>> print(format_prometheus(()))
    <BLANKLINE>
    """
    if not snapshots:
        return ""
    lines: list[str] = []
    _append_header(lines, "holdfast_calls_total", "counter", "Calls that ended, by result.")
    for seen in snapshots:
        failed = seen.total_calls - seen.successful_calls
        for result, count in (("success", seen.successful_calls), ("failure", failed)):
            labels = _format_labels(call_type=seen.call_type, result=result)
            lines.append(f"holdfast_calls_total{labels} {count}")
    _append_header(
        lines, "holdfast_call_attempts_total", "counter", "Calls by attempts that they took."
    )
    for seen in snapshots:
        for attempts, count in seen.retry_counts.items():
            labels = _format_labels(call_type=seen.call_type, attempts=str(attempts))
            lines.append(f"holdfast_call_attempts_total{labels} {count}")
    _append_header(lines, "holdfast_call_errors_total", "counter", "Failures by category.")
    for seen in snapshots:
        for category, count in seen.error_types.items():
            labels = _format_labels(call_type=seen.call_type, category=category)
            lines.append(f"holdfast_call_errors_total{labels} {count}")
    _append_header(
        lines, "holdfast_call_seconds", "histogram", "How long calls took, waits included."
    )
    for seen in snapshots:
        _append_histogram(lines, seen)
    return "\n".join(lines) + "\n"


def _append_histogram(lines: list[str], snapshot: MetricsSnapshot) -> None:
    total = 0
    for bound, count in zip((*BUCKETS, "+Inf"), snapshot.buckets, strict=True):
        total += count
        labels = _format_labels(call_type=snapshot.call_type, le=str(bound))
        lines.append(f"holdfast_call_seconds_bucket{labels} {total}")
    labels = _format_labels(call_type=snapshot.call_type)
    lines.append(f"holdfast_call_seconds_sum{labels} {snapshot.seconds:g}")
    lines.append(f"holdfast_call_seconds_count{labels} {total}")


def _append_header(lines: list[str], name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def _format_labels(**labels: str) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


class MetricsRecorder(Struct, frozen=True):
    """The strategy that counts each call."""

    metrics: CallMetrics
    call_type: str = "default"

    @property
    def name(self) -> str:
        """`metrics`"""
        return "metrics"

    def describe(self) -> Mapping[str, object]:
        """The kind of call."""
        return {"call_type": self.call_type}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The act, counted; a cancelled one counts as a failure of the type "cancelled"."""
        metrics, call_type = self.metrics, self.call_type

        async def with_metrics(call: CallContext[P]) -> Outcome[T]:
            began = call.execution.clock.monotonic()
            success, attempts, error = False, 1, "cancelled"
            try:
                outcome = await operation(call)
                attempts, success = outcome.attempts, isinstance(outcome, Done)
                error = "" if isinstance(outcome, Done) else outcome.info.category.value
            finally:
                took = call.execution.clock.monotonic() - began
                metrics.record_call(success, attempts, error, took, call_type=call_type)
            return outcome

        return with_metrics
