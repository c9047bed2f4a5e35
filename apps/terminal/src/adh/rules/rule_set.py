"""The rules that hold, and their decision about a call.

How a call is decided:

- A rule matches when its pattern fits the tool and all of its conditions hold. A matching rule that
  denies ends it. Otherwise the matching rules of the highest priority decide together: the strictest
  level, the highest risk, the checks and the restrictions of all of them. No rule: confirm.
- A command line is judged by its simple commands, one by one, and by each path that they touch, which
  the rules of the file tool that does the same judge: `cat .env` is judged as `cat` and as `read_file`
  of `.env`. The strictest holds. A line that cannot be parsed, or judged by its words, is manual and
  high; a word that is known only at run time makes it at least confirm.
- A path outside of the project is at least confirm, but for a rule that names it by `path_matches`
  with a pattern that begins with `/` or `~/`. Reading /etc/hostname is so a question, and writing it
  is denied by a rule.
- A broken restriction denies.
- Preferences come last, then the safety switch: off, it turns confirm into automatic, but into notify
  where facts of the call ask for a question, and never a call that is high, critical, manual or denied.

It must never decide differently for files in another order.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from adh.rules.decision import Decision, PartDecision
from adh.rules.facts import CallFacts
from adh.rules.judging import Judgement, combine_judgements, judge_subject, sort_rules
from adh.rules.levels import Level, Risk
from adh.rules.preferences import Preferences, apply_preferences
from adh.rules.restrictions import Moment
from adh.rules.rule import Rule
from adh.rules.subject import Subject, list_call_subjects, list_command_subjects

__all__ = ["Moment", "RuleSet"]


class RuleSet:
    """Rules with the person's preferences.

    Args:
        rules: the rules, in any order.
        preferences: the preferences.
    """

    def __init__(self, rules: Iterable[Rule], preferences: Preferences | None = None) -> None:
        self.rules = sort_rules(rules)
        self.preferences = preferences or Preferences()

    def decide(self, facts: CallFacts, moment: Moment) -> Decision:
        """Return the decision about a call.

        Args:
            facts: the call, with its paths resolved and its command parsed.
            moment: when it is judged.
        """
        per_command = [
            self._judge_all(list_command_subjects(facts, command), moment)
            for command in facts.commands
        ]
        own = self._judge_all(list_call_subjects(facts), moment)
        judgements = [*per_command, *([own] if own else [])]
        judged = combine_judgements([one for one in judgements if one is not None])
        decision = Decision(
            level=judged.level,
            risk=judged.risk,
            rule=judged.rule.origin if judged.rule else None,
            reason=judged.reason,
            checks=judged.checks,
            restrictions=judged.restrictions,
            violations=judged.violations,
            parts=tuple(
                _describe_part(command.text, part)
                for command, part in zip(facts.commands, per_command, strict=True)
                if part is not None
            ),
            max_bytes=judged.max_bytes,
        )
        decision = apply_preferences(self.preferences, facts.tool, decision, judged.floor)
        return decision if moment.safety else _switch_safety_off(decision, judged.floor)

    def _judge_all(self, subjects: Iterable[Subject], moment: Moment) -> Judgement | None:
        found = [judge_subject(self.rules, subject, moment) for subject in subjects]
        judged = [one for one in found if one is not None]
        return combine_judgements(judged) if judged else None


def _describe_part(text: str, judged: Judgement) -> PartDecision:
    origin = judged.rule.origin if judged.rule else None
    return PartDecision(text, judged.level, judged.risk, origin, judged.reason)


def _switch_safety_off(decision: Decision, floor: Level) -> Decision:
    if decision.level is not Level.CONFIRM or decision.risk >= Risk.HIGH:
        return decision
    return replace(decision, level=min(floor, Level.NOTIFY), softened=True)
