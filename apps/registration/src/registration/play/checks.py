"""The end of each child (one record, one payment, one text message, and the given answers), and the report of a play.

This module must never put a person's data into its findings or the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from registration.emulators.emulated_providers import EmulatedProviders
from registration.play.parent import PAYMENT_LINK, Parent
from registration.store import Transaction
from registration.store.registrations import Registration, find_of_session

_CONFIRMED = "Payment confirmed"


class Ended(Struct, frozen=True, kw_only=True):
    """How a child ended.

    Args:
        status: of the registration.
        records: how many records the child has.
        payments: how many signing-on fees were paid.
        requests: how many billing requests were made.
        subscriptions: how many subscriptions were made.
        links: how many text messages with the link were sent.
        confirmations: how many text messages confirm the payment.
        wrong: the names of the values that are stored wrongly, or are missing.
    """

    status: str
    records: int
    payments: int
    requests: int
    subscriptions: int
    links: int
    confirmations: int
    wrong: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether everything is as it should be, and once."""
        counted = (self.records, self.payments, self.requests, self.subscriptions)
        messages = (self.links, self.confirmations)
        return self.status == "active" and {*counted, *messages} == {1} and not self.wrong


def check_child(tx: Transaction, parent: Parent, providers: EmulatedProviders) -> Ended:
    """Return how a child ended.

    Args:
        tx: a transaction of the service's database.
        parent: the parent of the child.
        providers: the providers, with everything that reached them.
    """
    record = find_of_session(tx, parent.page.session)
    if record is None:
        return Ended(
            status="missing",
            records=0,
            payments=0,
            requests=0,
            subscriptions=0,
            links=0,
            confirmations=0,
            wrong=(),
        )
    asked = [
        one.id for one in providers.payments.requests if one.metadata["registration"] == record.id
    ]
    paid = [one for one in providers.payments.payments if one.billing_request in asked]
    mandates = {one.mandate for one in paid}
    number = f"+44{parent.child.phone.removeprefix('0')}"
    texts = [one.text for one in providers.sms.inbox if one.to == number]
    return Ended(
        status=record.status,
        records=_count_records(tx, record),
        requests=len(asked),
        payments=len([one for one in paid if one.subscription is None]),
        subscriptions=len(
            [one for one in providers.payments.subscriptions if one.mandate in mandates]
        ),
        links=len([one for one in texts if PAYMENT_LINK.search(one) and _CONFIRMED not in one]),
        confirmations=len([one for one in texts if _CONFIRMED in one]),
        wrong=tuple(_find_wrong(record, parent)),
    )


class Jobs(Struct, frozen=True):
    """The jobs of the outbox: how many there were, how often one was tried again, how many are left."""

    count: int
    again: int
    left: int


def count_jobs(tx: Transaction) -> Jobs:
    """Return the numbers of jobs."""
    rows = tx.execute("SELECT state, attempts FROM outbox")
    return Jobs(
        count=len(rows),
        again=sum(max(row["attempts"] - 1, 0) for row in rows),
        left=sum(row["state"] in {"queued", "running"} for row in rows),
    )


def list_tasks(tx: Transaction) -> Sequence[str]:
    """Return the kinds of the office's open tasks."""
    rows = tx.execute("SELECT kind FROM office_tasks WHERE state = 'open' ORDER BY kind")
    return [str(row["kind"]) for row in rows]


def _count_records(tx: Transaction, record: Registration) -> int:
    rows = tx.execute(
        "SELECT id FROM registrations"
        " WHERE season = ? AND player_first = ? AND player_last = ? AND player_born = ?",
        *(record.season, record.player_first, record.player_last, record.player_born),
    )
    return len(rows)


def _find_wrong(record: Registration, parent: Parent) -> list[str]:
    child, answers = parent.child, record.answers
    expected: dict[str, tuple[object, object]] = {
        "name": (f"{record.player_first} {record.player_last}", child.name),
        "mobile": (answers.get("parent_phone"), child.phone),
        "payment day": (record.payment_day, int(child.answers[29])),
        "photo": (record.photo_file is not None, not child.identity),
        "shirt": (record.shirt_number is not None, bool(record.kit_required)),
    }
    if not child.identity:
        expected["e-mail"] = (answers.get("parent_email"), child.answers[9])
        expected["played"] = (answers.get("played_last_season"), False)
        expected["same address"] = (answers.get("same_address"), child.answers[16] == "yes")
    return [name for name, (found, wanted) in expected.items() if found != wanted]


class PlayReport(Struct, frozen=True, kw_only=True):
    """The report of a play.

    Args:
        faults: how often each party failed, by party and kind.
        requests: how many requests each party received.
        questions: how often a provider was asked for the outcome of a request.
        kills: how often the service was killed.
        page: the counts of the parents' pages.
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


def write_report(report: PlayReport) -> str:
    """Return the report."""
    blocks = [_write_wrong(report), _write_done(report), _write_children(report.ended)]
    right = sum(one.is_right for one in report.ended)
    end = (
        f"{right} of {len(report.ended)} children ended as they should, in {report.seconds:.0f} s."
    )
    return "\n\n".join([*blocks, *(f"Gave up: {reason}." for reason in report.stuck), end])


def _write_wrong(report: PlayReport) -> str:
    lines = ["What went wrong"]
    for party, kinds in report.faults.items():
        named = ", ".join(
            f"{kind.replace('_', ' ')} {count}" for kind, count in sorted(kinds.items())
        )
        counted = f"{sum(kinds.values()):>4} of {report.requests[party]} requests met a fault"
        lines.append(f"  {party:<11}{counted}{': ' if named else ''}{named}")
    lines.append(f"  {'service':<11}{report.kills:>4} times killed (SIGKILL)")
    return "\n".join(lines)


def _write_done(report: PlayReport) -> str:
    jobs = report.jobs
    lines = ["What was done about it"]
    lines.append(f"  {report.questions:>4} times a provider was asked what became of a request")
    lines += [f"  {count:>4} {what}" for what, count in sorted(report.page.items())]
    lines.append(
        f"  {jobs.count:>4} jobs outside of the chat, tried again {jobs.again} times, left {jobs.left}"
    )
    for kind, count in sorted(Counter(report.tasks).items()):
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
