"""Judges one call by the rules as they are now. The screen, `adh run` and the safeguards use the same function.

It must never ask, run or write anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from adh.approval.call_facts import FactsError, build_facts
from adh.approval.call_history import PastCall
from adh.approval.judged_calls import JudgedCall
from adh.approval.setup import ApprovalSetup
from adh.checks.daemon_thread import call_in_thread
from adh.checks.protected_places import find_own_folder
from adh.rules.decision import Decision
from adh.rules.facts import CallFacts
from adh.rules.levels import Level, Risk
from adh.rules.restrictions import UrlScheme
from adh.rules.rule_set import Moment, RuleSet

_LONGEST_WINDOW = 31 * 86_400.0
"""Calls that are older are not counted for any rate, in seconds."""
_MOST_KNOWN = 2_000


class CallJudge:
    """Judges calls.

    Args:
        setup: the parts that the approval works with.
    """

    def __init__(self, setup: ApprovalSetup) -> None:
        self._setup = setup
        self._known_rules: dict[tuple[str, str, str], frozenset[str]] = {}
        self._known_for: RuleSet | None = None

    async def judge_call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        folder: str,
        *,
        now: float,
        calls_before: Sequence[PastCall] = (),
    ) -> JudgedCall:
        """Return the judgement of a call by the rules.

        Args:
            tool: the name of the tool.
            arguments: its validated arguments.
            folder: the working folder, absolute and resolved.
            now: seconds since the epoch.
            calls_before: the earlier calls of the session, for rates.
        """
        # The disk may be slow, and the screen must not wait for it.
        return await call_in_thread(
            partial(self._judge_call, tool, arguments, folder, now, tuple(calls_before))
        )

    def _judge_call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        folder: str,
        now: float,
        calls_before: tuple[PastCall, ...],
    ) -> JudgedCall:
        try:
            facts = self._build_facts(tool, arguments, folder)
        except FactsError as error:
            facts = CallFacts(tool=tool, arguments=arguments, folder=folder)
            return _deny_call(facts, str(error))
        rules = self._setup.read_rules()
        moment = Moment(
            at=datetime.fromtimestamp(now, UTC).astimezone(),
            recent=self._make_recent(rules, folder, now, calls_before),
            safety=self._setup.switch.is_on,
        )
        judged = _finish_judgement(facts, rules.decide(facts, moment), rules)
        # A rule that denies is named. A call that no rule denies must still leave this program's own files alone.
        folders = [os.path.realpath(own) for own in self._setup.own_folders]
        problem = "" if judged.denied else find_own_folder(facts, folders)
        return _deny_call(facts, problem) if problem else judged

    def _build_facts(self, tool: str, arguments: Mapping[str, object], folder: str) -> CallFacts:
        return build_facts(tool, arguments, self._setup.places, folder, self._setup.effects)

    def _make_recent(
        self, rules: RuleSet, folder: str, now: float, calls: tuple[PastCall, ...]
    ) -> Callable[[str], Sequence[float]]:
        """Return the function that says how long ago the earlier calls of a rule were."""

        def recent(rule: str) -> Sequence[float]:
            ages = [(max(0.0, now - call.at) if call.at else 0.0, call) for call in calls]
            return [
                age
                for age, call in ages
                if age < _LONGEST_WINDOW and rule in self._rules_of(call, rules, folder)
            ]

        return recent

    def _rules_of(self, call: PastCall, rules: RuleSet, folder: str) -> frozenset[str]:
        """Return the names of the rules that decide about an earlier call, by the rules of now."""
        if self._known_for is not rules or len(self._known_rules) > _MOST_KNOWN:
            self._known_rules, self._known_for = {}, rules
        place = (call.tool, call.arguments, folder)
        found = self._known_rules.get(place)
        if found is None:
            found = self._known_rules[place] = self._find_rules(call, rules, folder)
        return found

    def _find_rules(self, call: PastCall, rules: RuleSet, folder: str) -> frozenset[str]:
        try:
            arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, object])
            facts = self._build_facts(call.tool, arguments, folder)
        except (FactsError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return frozenset()
        moment = Moment(at=datetime.now(UTC), recent=lambda _: ())
        decision = rules.decide(facts, moment)
        origins = (decision.rule, *(part.rule for part in decision.parts))
        return frozenset(f"{one.category}.{one.name}" for one in origins if one is not None)


def _deny_call(facts: CallFacts, reason: str) -> JudgedCall:
    decision = Decision(level=Level.DENY, risk=Risk.CRITICAL, reason=reason)
    return JudgedCall(facts, decision, denied=reason)


def _finish_judgement(facts: CallFacts, decision: Decision, rules: RuleSet) -> JudgedCall:
    denied = ""
    if decision.level is Level.DENY:
        reasons = [violation.reason for violation in decision.violations]
        denied = " ".join(reasons) or decision.reason or _name_rule(decision)
    hosts = _find_private_hosts(decision, rules)
    return JudgedCall(facts, decision, private_hosts=hosts, denied=denied)


def _find_private_hosts(decision: Decision, rules: RuleSet) -> tuple[str, ...]:
    """Return the private hosts that the deciding rule names."""
    deciding = [rule for rule in rules.rules if rule.origin == decision.rule]
    return tuple(
        host
        for rule in deciding
        for restriction in rule.restrictions
        if isinstance(restriction, UrlScheme)
        for host in restriction.private
    )


def _name_rule(decision: Decision) -> str:
    return (
        f"the rule {decision.rule} denies it" if decision.rule is not None else "a rule denies it"
    )
