"""The rules in words: those that hold, and why one of them decides a call.

It must never decide itself: it shows the questions to the rules that decide, and their answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from adh.rules.decision import Decision
from adh.rules.facts import CallFacts
from adh.rules.judging import describe_restriction, judge_subject, select_deciding
from adh.rules.levels import Level
from adh.rules.restrictions import Moment
from adh.rules.rule import Conditions, Rule
from adh.rules.rule_set import RuleSet
from adh.rules.subject import Subject, list_call_subjects, list_command_subjects


class ConsideredRule(Struct, frozen=True):
    """A rule whose pattern fits the tool, and its outcome.

    Args:
        rule: the rule.
        outcome: "decides", "does not match" or "is overruled".
        detail: the condition that does not hold, or the rule that overrules it.
    """

    rule: Rule
    outcome: str
    detail: str = ""


class RuleQuery(Struct, frozen=True):
    """One thing that the rules were asked about a call.

    Args:
        about: the command, the path or the tool, in words.
        considered: the rules, in the order in which they decide.
        level: its level.
        reason: why it is stricter than the rule says; empty if it is not.
    """

    about: str
    considered: tuple[ConsideredRule, ...]
    level: Level
    reason: str


class Explanation(Struct, frozen=True):
    """Why a call is decided as it is.

    Args:
        decision: the decision about the whole call.
        queries: the questions to the rules, in order.
    """

    decision: Decision
    queries: tuple[RuleQuery, ...]


def explain_call(rules: RuleSet, facts: CallFacts, moment: Moment) -> Explanation:
    """Return why rules decide a call as they do.

    Args:
        rules: the rules.
        facts: the call.
        moment: when it is judged.
    """
    subjects = [
        *(one for command in facts.commands for one in list_command_subjects(facts, command)),
        *list_call_subjects(facts),
    ]
    queries = (_explain_subject(rules.rules, subject, moment) for subject in subjects)
    return Explanation(
        rules.decide(facts, moment), tuple(one for one in queries if one is not None)
    )


def format_explanation(explanation: Explanation, *, whole: bool = True) -> Iterator[str]:
    """Yield an explanation as lines.

    Args:
        explanation: why a call is decided as it is.
        whole: whether rules that do not match are named too.
    """
    decision = explanation.decision
    for query in explanation.queries:
        yield from _format_query(query, whole=whole)
    yield f"decision: {decision.level.word}, risk {decision.risk.word}"
    if decision.rule is not None:
        yield f"  by {decision.rule}"
    if decision.reason:
        yield f"  because {decision.reason}"
    if decision.softened:
        yield "  freer than the rules, by a preference or the safety switch"
    for name in decision.checks:
        yield f"  check {name}"
    for restriction in decision.restrictions:
        yield f"  restriction {restriction}"


def _format_query(query: RuleQuery, *, whole: bool) -> Iterator[str]:
    yield f"{query.about}: {query.level.word}"
    if query.reason:
        yield f"  because {query.reason}"
    shown = [one for one in query.considered if whole or one.outcome != "does not match"]
    for one in shown:
        detail = f": {one.detail}" if one.detail else ""
        yield f"  {one.outcome}{detail}: {one.rule.origin}, {_format_weight(one.rule)}"
    if not query.considered:
        yield "  no rule is for this tool"
    elif len(shown) < len(query.considered):
        others = len(query.considered) - len(shown)
        yield f"  {others} other rules do not match; --all shows why"


def format_rules(rules: RuleSet, tool: str = "") -> Iterator[str]:
    """Yield the rules that hold as lines, in the order in which they decide; preferences last.

    Args:
        rules: the rules.
        tool: only those that are for this tool; empty for all.
    """
    for rule in rules.rules:
        if not tool or rule.matches_tool(tool):
            yield from _format_rule(rule)
    wishes = rules.preferences
    for one in wishes.tools:
        yield f"{one.origin}: {one.pattern} is at least {one.level.word}"
    for one in wishes.never_allow:
        yield f"{one.origin}: {one.pattern} is denied"
    for one in wishes.auto_approve:
        yield f"{one.origin}: {one.pattern} is not asked, but for what is denied or critical"


def format_conditions(conditions: Conditions) -> tuple[str, ...]:
    """Return each condition that is set in words.

    Args:
        conditions: the conditions of a rule.

    >>> format_conditions(Conditions(command_starts_with=("ls", "cat"), read_only=True))
    ('command_starts_with: ls, cat', 'read_only: true')
    """
    values = ((name, getattr(conditions, name)) for name in conditions.__struct_fields__)
    return tuple(
        f"{name}: {_format_value(value)}" for name, value in values if value not in (None, ())
    )


def _format_rule(rule: Rule) -> Iterator[str]:
    state = "" if rule.enabled else " (disabled)"
    yield f"{rule.origin}{state}: {', '.join(rule.pattern)}: {_format_weight(rule)}"
    for condition in format_conditions(rule.conditions):
        yield f"  when {condition}"
    if rule.replaces is not None:
        yield f"  replaces {rule.replaces}"
    if rule.checks:
        yield f"  checks: {', '.join(rule.checks)}"
    for restriction in rule.restrictions:
        yield f"  restriction {describe_restriction(restriction)}"


def _format_weight(rule: Rule) -> str:
    return f"{rule.level.word}, risk {rule.risk.word}, priority {rule.priority}"


def _format_value(value: bool | tuple[str, ...]) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value).lower()


def _explain_subject(rules: Sequence[Rule], subject: Subject, moment: Moment) -> RuleQuery | None:
    judged = judge_subject(rules, subject, moment)
    if judged is None:
        return None
    concerned = [rule for rule in rules if rule.matches_tool(subject.tool)]
    mismatches = {id(rule): rule.find_mismatch(subject) for rule in concerned}
    deciding = select_deciding([rule for rule in concerned if not mismatches[id(rule)]])
    considered = tuple(_consider(rule, mismatches[id(rule)], deciding) for rule in concerned)
    return RuleQuery(_name_subject(subject), considered, judged.level, judged.reason)


def _consider(rule: Rule, mismatch: str, deciding: Sequence[Rule]) -> ConsideredRule:
    if mismatch:
        value = getattr(rule.conditions, mismatch, None)
        detail = f"{mismatch} {_format_value(value)}" if value is not None else mismatch
        return ConsideredRule(rule, "does not match", detail)
    if any(rule is one for one in deciding):
        return ConsideredRule(rule, "decides")
    first = deciding[0]
    why = "denies" if first.level is Level.DENY else f"has priority {first.priority}"
    return ConsideredRule(rule, "is overruled", f"{first.key} {why}")


def _name_subject(subject: Subject) -> str:
    path = f"{subject.path.access} {subject.path.path}" if subject.path else ""
    if subject.command is not None:
        return f"`{subject.command.text}`" + (f" ({path})" if path else "")
    return f"{subject.tool} ({path})" if path else subject.tool
