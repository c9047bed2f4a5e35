"""Judges one subject: the matching rules of the highest priority, and no freer than the facts.

It must never return a freer level than any of the matching rules that deny.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from msgspec import Struct

from adh.rules.decision import Violation
from adh.rules.levels import Level, Risk
from adh.rules.patterns import SYSTEM_FOLDERS, is_inside
from adh.rules.restrictions import (
    Moment,
    PathPattern,
    RateLimit,
    Restriction,
    SizeLimit,
    TimeWindow,
    name_restriction,
)
from adh.rules.rule import Rule
from adh.rules.subject import Subject

Value = TypeVar("Value")


class Judgement(Struct, frozen=True, kw_only=True):
    """The decision of the rules about a subject, or about several: then the strictest.

    Args:
        level: the supervision.
        risk: the risk.
        rule: the rule that decided; None if none matched.
        reason: why it is stricter than the rule says, or which fact asks for this level too.
        floor: the level that no preference goes below.
        checks: safety checks that must pass.
        restrictions: restrictions that hold, in words.
        violations: restrictions that are broken.
        max_bytes: the smallest size limit.
    """

    level: Level
    risk: Risk
    rule: Rule | None = None
    reason: str = ""
    floor: Level = Level.AUTOMATIC
    checks: tuple[str, ...] = ()
    restrictions: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    max_bytes: int | None = None


class Floor(Struct, frozen=True):
    """A level and a risk that facts of a call demand, even if a rule is freer."""

    level: Level
    risk: Risk
    reason: str


def sort_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return rules in the order in which they decide: denials first, then by priority and strictness."""

    def order(rule: Rule) -> tuple[bool, int, int, int, str, str, int]:
        denies = rule.level is Level.DENY
        origin = rule.origin
        return (
            not denies,
            -rule.priority,
            -rule.level,
            -rule.risk,
            rule.key,
            origin.file,
            origin.line,
        )

    return tuple(sorted(rules, key=order))


def judge_subject(rules: Sequence[Rule], subject: Subject, moment: Moment) -> Judgement | None:
    """Return the decision of sorted rules about a subject; None if it is about path rules and none matches.

    Args:
        rules: the rules, in the order of `sort_rules`.
        subject: the subject.
        moment: when it is judged.
    """
    matching = [rule for rule in rules if not rule.find_mismatch(subject)]
    if not matching and subject.scope == "path_rules":
        return None
    judged = _judge_matching(matching, subject, moment)
    for floor in _list_floors(subject, judged.rule):
        judged = _raise_to_floor(judged, floor)
    return judged


def combine_judgements(judgements: Sequence[Judgement]) -> Judgement:
    """Return the strictest of several judgements, with the checks and restrictions of all."""
    strictest = max(
        judgements, key=lambda one: (one.level, one.risk, one.rule is not None, one.reason != "")
    )
    sizes = [one.max_bytes for one in judgements if one.max_bytes is not None]
    return Judgement(
        level=strictest.level,
        risk=max(one.risk for one in judgements),
        rule=strictest.rule,
        reason=strictest.reason,
        # A part that is shown stays shown when the question about another part is left out.
        floor=max(one.floor if one.level.asks else one.level for one in judgements),
        checks=_unique(one.checks for one in judgements),
        restrictions=_unique(one.restrictions for one in judgements),
        violations=_unique(one.violations for one in judgements),
        max_bytes=min(sizes, default=None),
    )


def select_deciding(matching: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return those of sorted matching rules that decide: one that denies, or all of the highest priority."""
    if not matching or matching[0].level is Level.DENY:
        return tuple(matching[:1])
    return tuple(rule for rule in matching if rule.priority == matching[0].priority)


def _judge_matching(matching: Sequence[Rule], subject: Subject, moment: Moment) -> Judgement:
    deciding = select_deciding(matching)
    if not deciding:
        return Judgement(level=Level.CONFIRM, risk=Risk.MEDIUM, reason="no rule matches")
    rule = deciding[0]
    if rule.level is Level.DENY:
        return Judgement(level=rule.level, risk=rule.risk, rule=rule)
    violations = tuple(
        chain.from_iterable(find_violations(one, subject, moment) for one in deciding)
    )
    held = list(chain.from_iterable(_list_held(one, subject) for one in deciding))
    sizes = [one.most for one in held if isinstance(one, SizeLimit)]
    return Judgement(
        level=Level.DENY if violations else rule.level,
        risk=max(one.risk for one in deciding),
        rule=rule,
        reason="; ".join(f"{one.restriction}: {one.reason}" for one in violations),
        checks=_unique(one.checks for one in deciding) if subject.scope == "call" else (),
        restrictions=tuple(dict.fromkeys(describe_restriction(one) for one in held)),
        violations=violations,
        max_bytes=min(sizes, default=None),
    )


def find_violations(rule: Rule, subject: Subject, moment: Moment) -> tuple[Violation, ...]:
    """Return the restrictions of a rule that a subject breaks."""
    found = (
        (name_restriction(one), one.find_problem(subject, moment, rule.key))
        for one in _list_held(rule, subject)
    )
    return tuple(Violation(name, problem) for name, problem in found if problem)


def describe_restriction(restriction: Restriction) -> str:
    """Return a restriction in words, with its name."""
    return f"{name_restriction(restriction)}: {restriction.describe()}"


def _list_held(rule: Rule, subject: Subject) -> Iterable[Restriction]:
    if subject.scope == "call":
        return rule.restrictions
    return (
        one for one in rule.restrictions if isinstance(one, PathPattern | RateLimit | TimeWindow)
    )


def _list_floors(subject: Subject, rule: Rule | None) -> Iterable[Floor]:
    command, path = subject.command, subject.path
    if subject.scope == "call" and command is None and subject.facts.unparsed:
        reason = f"the command cannot be parsed: {subject.facts.unparsed}"
        yield Floor(Level.MANUAL, Risk.HIGH, reason)
    if command is not None and command.problems:
        reason = f"it cannot be judged by its words: {'; '.join(command.problems)}"
        yield Floor(Level.MANUAL, Risk.HIGH, reason)
    if command is not None and None in command.argv:
        yield Floor(Level.CONFIRM, Risk.MEDIUM, "a word of it is known only when it runs")
    if path is not None and _reaches_outside(subject) and not (rule and rule.frees_path(subject)):
        reason = f"{path.path} is outside of the project"
        yield Floor(Level.CONFIRM, Risk.MEDIUM, reason)


def _reaches_outside(subject: Subject) -> bool:
    path = subject.path
    if path is None or is_inside(path.path, subject.facts.project):
        return False
    if subject.scope == "path_rules":
        return False
    if subject.command is None:
        return True
    # The paths of a command are judged as those of the file tools; only the started programs are left.
    return path.access == "run" and path.path.rpartition("/")[0] not in SYSTEM_FOLDERS


def _raise_to_floor(judged: Judgement, floor: Floor) -> Judgement:
    reasons = [judged.reason] if floor.level <= judged.level else []
    reasons += [floor.reason] if floor.level >= judged.level else []
    return Judgement(
        level=max(judged.level, floor.level),
        risk=max(judged.risk, floor.risk),
        rule=judged.rule,
        reason="; ".join(reason for reason in reasons if reason),
        floor=max(judged.floor, floor.level),
        checks=judged.checks,
        restrictions=judged.restrictions,
        violations=judged.violations,
        max_bytes=judged.max_bytes,
    )


def _unique(values: Iterable[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(values)))
