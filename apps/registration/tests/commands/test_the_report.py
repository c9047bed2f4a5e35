"""The report of the play: a child that did not end as it should is seen, and nobody is named."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from registration.play.checks import Ended, Jobs, PlayReport, write_report

RIGHT = Ended(
    status="active",
    records=1,
    payments=1,
    requests=1,
    subscriptions=1,
    links=1,
    confirmations=1,
    wrong=(),
)


def make_report(*ended: Ended, stuck: tuple[str, ...] = ()) -> PlayReport:
    return PlayReport(
        faults={"model": Counter({"rate limit": 2}), "sms": Counter({"late_act": 1})},
        requests={"model": 9, "sms": 3},
        questions=4,
        kills=1,
        page=Counter({"messages answered": 20}),
        jobs=Jobs(3, 1, 0),
        tasks=("in_doubt",),
        stuck=stuck,
        ended=ended,
        seconds=61.4,
    )


def test_all_is_right() -> None:
    report = make_report(RIGHT, RIGHT)
    text = write_report(report)
    assert report.is_right
    assert "2 of 9 requests met a fault: rate limit 2" in text
    assert text.endswith("2 of 2 children ended as they should, in 61 s.")


def test_whatever_is_doubled_or_missing_is_wrong() -> None:
    for name in ("records", "payments", "requests", "subscriptions", "links", "confirmations"):
        for count in (0, 2):
            report = make_report(RIGHT, replace(RIGHT, **{name: count}))
            assert not report.is_right
            assert "1 of 2 children" in write_report(report)
    assert not make_report(replace(RIGHT, wrong=("mobile",))).is_right
    assert not make_report(replace(RIGHT, status="suspended")).is_right
    assert not make_report(RIGHT, stuck=("parent 1: the code is not accepted",)).is_right
