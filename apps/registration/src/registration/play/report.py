"""What the play prints: what went wrong, what was done about it, and how each child ended.

This module must never print a name, a number or a message of a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from registration.play.checks import Ended, Jobs


class Told(Struct, frozen=True, kw_only=True):
    """What happened.

    Args:
        faults: how often each party failed, by party and kind.
        requests: how many requests each party received.
        questions: how often a provider was asked what became of a request.
        kills: how often the service was killed.
        page: what the pages of the parents counted.
        jobs: the jobs of the outbox.
        tasks: the kinds of the office's open tasks.
        stuck: why parents gave up.
        ended: how each child ended.
        seconds: how long it took.
    """

    faults: Mapping[str, Counter[str]]
    requests: Mapping[str, int]
    questions: int
    kills: int
    page: Counter[str]
    jobs: Jobs
    tasks: Sequence[str]
    stuck: Sequence[str]
    ended: Sequence[Ended]
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether every child ended as it should."""
        return not self.stuck and all(one.is_right for one in self.ended)


def write_report(told: Told) -> str:
    """Return the report."""
    blocks = [_write_wrong(told), _write_done(told), _write_children(told.ended)]
    right = sum(one.is_right for one in told.ended)
    end = f"{right} of {len(told.ended)} children ended as they should, in {told.seconds:.0f} s."
    return "\n\n".join([*blocks, *(f"Gave up: {reason}." for reason in told.stuck), end])


def _write_wrong(told: Told) -> str:
    lines = ["What went wrong"]
    for party, kinds in told.faults.items():
        named = ", ".join(
            f"{kind.replace('_', ' ')} {count}" for kind, count in sorted(kinds.items())
        )
        counted = f"{sum(kinds.values()):>4} of {told.requests[party]} requests met a fault"
        lines.append(f"  {party:<11}{counted}{': ' if named else ''}{named}")
    lines.append(f"  {'service':<11}{told.kills:>4} times killed (SIGKILL)")
    return "\n".join(lines)


def _write_done(told: Told) -> str:
    jobs = told.jobs
    lines = ["What was done about it"]
    lines.append(f"  {told.questions:>4} times a provider was asked what became of a request")
    lines += [f"  {count:>4} {what}" for what, count in sorted(told.page.items())]
    lines.append(
        f"  {jobs.count:>4} jobs outside of the chat, tried again {jobs.again} times, left {jobs.left}"
    )
    for kind, count in sorted(Counter(told.tasks).items()):
        lines.append(f"  {count:>4} for a person in the office to look at: {kind}")
    return "\n".join(lines)


def _write_children(ended: Sequence[Ended]) -> str:
    columns = ("requests", "payments", "records", "subscriptions", "links", "confirmations")
    lines = ["How each child ended", f"  {'child':<7}{'status':<17}" + "  ".join(columns)]
    for number, one in enumerate(ended, start=1):
        counts = "  ".join(f"{getattr(one, name):>{len(name)}}" for name in columns)
        wrong = "" if one.is_right else "   WRONG " + ", ".join(one.wrong)
        lines.append(f"  {number:<7}{one.status:<17}{counts}{wrong}")
    return "\n".join(lines)
