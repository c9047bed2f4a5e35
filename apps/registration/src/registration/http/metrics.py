"""The counts of the service, as Prometheus text.

No label holds the name of a session, of a registration, or of a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from registration.flow.parts import Counts
from registration.http.admission import RequestCounts
from registration.http.health import list_breakers, list_providers
from registration.http.running import Running
from registration.store import StoreError, Transaction
from registration.store.office import count_by_status
from registration.store.outbox import count_jobs, find_oldest_due
from registration.store.photo_jobs import count_photos
from registration.store.tasks import count_tasks

_STATES = ("closed", "open", "half_open", "isolated")


class _Stored(Struct, frozen=True):
    """The counts from the database."""

    jobs: Mapping[tuple[str, str], int]
    overdue: float
    photos: Mapping[str, int]
    tasks: Mapping[str, int]
    registrations: Mapping[str, int]


async def write_metrics(running: Running, requests: RequestCounts) -> str:
    """Return all metrics. Without the database, those of this process."""
    parts = running.parts
    now, season = parts.now(), parts.settings.season

    def read(tx: Transaction) -> _Stored:
        since = find_oldest_due(tx, now)
        overdue = 0.0 if since is None else max(now - since, 0.0)
        return _Stored(
            count_jobs(tx), overdue, count_photos(tx), count_tasks(tx), count_by_status(tx, season)
        )

    try:
        stored: _Stored | None = await parts.database.read(read)
    except StoreError:
        stored = None
    up = write_metric(
        "registration_database_up", "1 if the database answers.", [({}, float(stored is not None))]
    )
    return "".join(
        (
            parts.calls.metrics.prometheus(),
            _write_retries(running),
            _write_counts(parts.counts),
            _write_parties(running),
            _write_requests(requests),
            up,
            "" if stored is None else _write_stored(stored),
        )
    )


def _write_retries(running: Running) -> str:
    counted = running.parts.calls.metrics.count_sessions_by_retries()
    samples: list[Sample] = [({"retries": str(r)}, n) for r, n in sorted(counted.items())]
    return write_metric(
        "registration_sessions_by_retries",
        "The newest 1,000 sessions, by how often calls of the model were repeated in them.",
        samples,
    )


def _write_counts(counts: Counts) -> str:
    read = counts.read()
    turns: list[Sample] = [
        ({"status": status}, read.get(f"turns_{status}", 0)) for status in ("ok", "degraded")
    ]
    return (
        write_metric("registration_turns_total", "Turns that were answered.", turns, "counter")
        + write_metric(
            "registration_routines_overruled_total",
            "Replies of the model that named another step than the server's.",
            [({}, read.get("routines_overruled", 0))],
            "counter",
        )
        + write_metric(
            "registration_client_steps_ignored_total",
            "Messages whose client named another step than the server's.",
            [({}, read.get("client_steps_ignored", 0))],
            "counter",
        )
        + write_metric(
            "registration_messages_superseded_total",
            "Messages that were written for an earlier question than the open one.",
            [({}, read.get("messages_superseded", 0))],
            "counter",
        )
    )


def _write_parties(running: Running) -> str:
    breakers: list[Sample] = [
        ({"target": target, "state": state}, float(state == current))
        for target, current in sorted(list_breakers().items())
        for state in _STATES
    ]
    failures: list[Sample] = [
        ({"provider": name}, client.health.failures)
        for name, client in list_providers(running.parts).items()
    ]
    return write_metric(
        "registration_breaker_state",
        "1 for the state that the circuit breaker of a model has.",
        breakers,
    ) + write_metric(
        "registration_provider_failures",
        "Requests in a row that a provider did not answer.",
        failures,
    )


def _write_requests(requests: RequestCounts) -> str:
    read = sorted(requests.read().items())
    named = [
        ({"method": method, "route": route, "status": str(status)}, times)
        for (method, route, status), times in read
    ]
    return write_metric(
        "registration_requests_total",
        "Requests that were answered.",
        [(labels, times.count) for labels, times in named],
        "counter",
    ) + write_metric(
        "registration_request_seconds_total",
        "Seconds that requests took together.",
        [(labels, times.seconds) for labels, times in named],
        "counter",
    )


def _write_stored(stored: _Stored) -> str:
    jobs: list[Sample] = [
        ({"kind": kind, "state": state}, number)
        for (kind, state), number in sorted(stored.jobs.items())
    ]
    return "".join(
        (
            write_metric("registration_jobs", "Jobs of the outbox.", jobs),
            write_metric(
                "registration_job_overdue_seconds",
                "For how long the job waits that has been due longest.",
                [({}, stored.overdue)],
            ),
            _write_by("registration_photos", "Photo jobs.", "state", stored.photos),
            _write_by("registration_office_tasks", "Open tasks.", "kind", stored.tasks),
            _write_by(
                "registration_registrations",
                "Registrations of the season.",
                "status",
                stored.registrations,
            ),
        )
    )


def _write_by(name: str, about: str, label: str, counted: Mapping[str, int]) -> str:
    samples: list[Sample] = [({label: value}, number) for value, number in sorted(counted.items())]
    return write_metric(name, about, samples)


Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[Labels, float]


def write_metric(
    name: str, about: str, samples: Iterable[Sample], kind: Literal["counter", "gauge"] = "gauge"
) -> str:
    """Return the lines of a metric.

    Args:
        name: its name.
        about: its meaning, in one sentence.
        samples: its values, each with its labels.
        kind: the kind of metric.

    >>> print(write_metric("jobs", "Jobs.", [({"state": "sent"}, 2)]), end="")
    # HELP jobs Jobs.
    # TYPE jobs gauge
    jobs{state="sent"} 2
    """
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_write_labels(labels)} {value:g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _write_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
