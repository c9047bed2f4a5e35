"""The simulated outage: deterministic, so that the promise about the defaults is a test."""

from __future__ import annotations

import pytest
from benchmarks.outage.__main__ import recovery
from benchmarks.outage.fleet import simulate
from benchmarks.outage.provider import BROWN_OUT, OUTAGE, Incident, Provider


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("incident", [BROWN_OUT, OUTAGE], ids=lambda one: one.name)
def test_the_defaults_do_not_make_an_outage_worse(incident: Incident) -> None:
    ours = simulate("holdfast", incident, clients=2000)
    plain = simulate("exponential: 1, 2, 4 s", incident, clients=2000)
    assert ours.amplification <= 1.1 < plain.amplification
    begin, end = int(incident.begin), int(incident.end)
    healthy = sum(ours.goodput[10:begin]) / (begin - 10)
    back = recovery(ours, incident, healthy)
    assert back is not None
    assert back <= 10
    assert sum(ours.goodput[begin:end]) >= sum(plain.goodput[begin:end])
    assert ours.failed < plain.failed


def test_the_provider_serves_no_more_than_its_capacity() -> None:
    provider = Provider(10.0, Incident("none", 1.0))
    answers = [provider.attempt(0.0) for _ in range(100)]
    served = [moment for kind, moment in answers if kind == "served"]
    assert len(served) == 20
    assert max(served) == pytest.approx(2.3)
