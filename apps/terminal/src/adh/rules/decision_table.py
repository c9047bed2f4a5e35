"""A table of calls with the decisions that are expected of them, so that rules are reviewed like code.

    calls:
      - tool: execute_command
        command: ls; rm -rf ~
        expect: {level: manual, rule: commands.remove_files}
      - tool: read_file
        arguments: {file_path: notes/today.md}
        files: {notes/today.md: text}
        expect: automatic

It must never build the facts of a call itself: whoever runs it says how, and so judges the table
exactly as calls are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from adh.rules.decision import Decision, RuleOrigin
from adh.rules.facts import CallFacts
from adh.rules.levels import Level, Risk
from adh.rules.restrictions import Moment
from adh.rules.rule_set import RuleSet


class Expected(Struct, frozen=True, kw_only=True):
    """What a decision must be.

    Args:
        level: its level.
        risk: its risk; None for any.
        rule: "category.name" of the rule that decides, or "none"; empty for any.
        reason: what the reason contains, in any case; empty for any.
    """

    level: Level
    risk: Risk | None = None
    rule: str = ""
    reason: str = ""


class TableCall(Struct, frozen=True, kw_only=True):
    """One row: a call, what surrounds it, and what is expected.

    Args:
        name: what a report calls it.
        line: its line in the file.
        tool: the name of the tool.
        arguments: its arguments.
        expected: what the decision must be.
        folder: the folder that it works in, inside the project; "." for the project itself.
        files: files that must exist, by their path in the project, with their text.
        links: symbolic links that must exist, by their path in the project, with their target.
        at: when it happens; None for the moment of the test.
        recent: how many seconds ago each earlier call was that the same rule decided.
        safety: whether safety is on.
    """

    name: str
    line: int
    tool: str
    arguments: Mapping[str, object]
    expected: Expected
    folder: str = "."
    files: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    at: datetime | None = None
    recent: tuple[float, ...] = ()
    safety: bool = True


class TableRow(Struct, frozen=True):
    """What became of a call.

    Args:
        call: the call.
        decision: the decision.
        differences: how it differs from what is expected; empty if it does not.
    """

    call: TableCall
    decision: Decision
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the decision is as expected."""
        return not self.differences


class TableReport(Struct, frozen=True):
    """What became of all calls.

    Args:
        rows: one for each call.
        undecided: the rules of the person that decided no call of the table.
    """

    rows: tuple[TableRow, ...]
    undecided: tuple[RuleOrigin, ...]

    @property
    def passed(self) -> bool:
        """Whether every decision is as expected."""
        return all(row.passed for row in self.rows)


def run_table(
    calls: tuple[TableCall, ...],
    rules: RuleSet,
    build_facts: Callable[[TableCall], CallFacts],
    now: datetime,
) -> TableReport:
    """Decide the calls of a table and compare.

    Args:
        calls: the calls.
        rules: the rules.
        build_facts: resolves the paths of a call and parses its command.
        now: the moment of calls without one, with its zone.
    """
    rows: list[TableRow] = []
    for call in calls:
        moment = Moment(call.at or now, _constant(call.recent), call.safety)
        decision = rules.decide(build_facts(call), moment)
        rows.append(TableRow(call, decision, tuple(_compare(call.expected, decision))))
    seen = {row.decision.rule for row in rows}
    seen |= {part.rule for row in rows for part in row.decision.parts}
    own = (rule.origin for rule in rules.rules if rule.enabled and not rule.built_in)
    return TableReport(tuple(rows), tuple(origin for origin in own if origin not in seen))


def format_report(report: TableReport) -> Iterator[str]:
    """Yield a report as lines: one for each call, with the differences of those that failed."""
    for row in report.rows:
        rule = row.decision.rule
        by = f" by {rule}" if rule else ""
        sign = "ok  " if row.passed else "FAIL"
        yield f"{sign} {row.call.name} (line {row.call.line}): {row.decision.level.word}{by}"
        for difference in row.differences:
            yield f"     {difference}"
    for origin in report.undecided:
        yield f"note: no call is decided by {origin}"
    failed = sum(not row.passed for row in report.rows)
    yield f"{len(report.rows)} calls, {failed} failed"


def _constant(recent: tuple[float, ...]) -> Callable[[str], tuple[float, ...]]:
    def list_recent(rule: str) -> tuple[float, ...]:
        del rule
        return recent

    return list_recent


def _compare(expected: Expected, decision: Decision) -> Iterator[str]:
    if decision.level is not expected.level:
        why = f" ({decision.reason})" if decision.reason else ""
        yield f"expected {expected.level.word}, got {decision.level.word}{why}"
    if expected.risk is not None and decision.risk is not expected.risk:
        yield f"expected risk {expected.risk.word}, got {decision.risk.word}"
    origin = decision.rule
    found = f"{origin.category}.{origin.name}" if origin else "none"
    if expected.rule and expected.rule != found:
        yield f"expected the rule {expected.rule}, got {found}"
    if expected.reason.casefold() not in decision.reason.casefold():
        yield f'expected a reason with "{expected.reason}", got "{decision.reason}"'
