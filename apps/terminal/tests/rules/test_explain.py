from apps.terminal.tests.rules.calls import BUILT_IN, call, line, moment, rules, use, words

from adh.rules.explain import explain_call, format_explanation, format_rules
from adh.rules.facts import CallFacts
from adh.rules.rule_set import RuleSet

OWN = """
team:
  tests:
    pattern: execute_command
    conditions: {command_starts_with: [make test, pytest]}
    supervision: automatic
    risk: low
    priority: 20
    restrictions: {rate_limit: {calls: 5, seconds: 60}}
  old:
    pattern: "execute_*"
    supervision: notify
    risk: none
    enabled: false
"""


def explain(facts: CallFacts, held: RuleSet) -> list[str]:
    return list(format_explanation(explain_call(held, facts, moment())))


def test_the_rules_are_shown_in_the_order_in_which_they_decide() -> None:
    held = rules(OWN, "tools: {read_file: {supervision: notify}}\nnever_allow: [x*]")
    shown = list(format_rules(held))
    heads = [text for text in shown if not text.startswith("  ")]
    origins = [str(rule.origin) for rule in held.rules]
    assert [head.split(": ")[0].removesuffix(" (disabled)") for head in heads[: len(origins)]] == (
        origins
    )
    priorities = [rule.priority for rule in held.rules if rule.level.word != "deny"]
    assert priorities == sorted(priorities, reverse=True)
    assert heads[-2:] == [
        "preferences.tools.read_file (policy_preferences.yaml:1): read_file is at least notify",
        "preferences.never_allow (policy_preferences.yaml:2): x* is denied",
    ]


def test_a_rule_is_shown_with_all_that_it_says() -> None:
    shown = "\n".join(format_rules(rules(OWN, built_in=False)))
    assert shown == (
        "team.tests (policies/own.yaml:3): execute_command: automatic, risk low, priority 20\n"
        "  when command_starts_with: make test, pytest\n"
        "  restriction rate_limit: at most 5 calls in 60 s\n"
        "team.old (policies/own.yaml:10) (disabled): execute_*: notify, risk none, priority 0"
    )


def test_only_the_rules_of_a_tool_are_shown() -> None:
    shown = [text for text in format_rules(BUILT_IN, "fetch_url") if not text.startswith("  ")]
    assert [text.split(" ")[0] for text in shown] == ["network.fetch_url"]


def test_a_rule_that_replaces_a_built_in_one_says_so() -> None:
    body = "{pattern: execute_command, supervision: notify, risk: low, enabled: false}"
    shown = list(format_rules(rules(f"commands: {{find: {body}}}")))
    at = next(at for at, text in enumerate(shown) if text.startswith("commands.find (policies/"))
    assert shown[at + 1].startswith("  replaces commands.find (built-in/commands.yaml:")


def test_an_explanation_says_why_each_rule_decides_or_does_not() -> None:
    explained = explain(line(words("make test")), rules(OWN))
    assert explained[0] == "`make test`: automatic"
    assert (
        "  decides: team.tests (policies/own.yaml:3), automatic, risk low, priority 20" in explained
    )
    missed = [text for text in explained if "commands.grep (" in text]
    assert missed[0].startswith(
        "  does not match: command_starts_with grep: commands.grep (built-in/"
    )
    assert any(text.startswith("  does not match: disabled: team.old (") for text in explained)
    overruled = [text for text in explained if "commands.other_commands (" in text]
    assert overruled[0].startswith("  is overruled: team.tests has priority 20: commands.other_")
    assert explained[-3:] == [
        "decision: automatic, risk low",
        "  by team.tests (policies/own.yaml:3)",
        "  restriction rate_limit: at most 5 calls in 60 s",
    ]


def test_an_explanation_shows_each_path_and_what_the_facts_demand() -> None:
    explained = explain(line(words("cat", use("/q/a"))), BUILT_IN)
    assert "`cat` (read /q/a): notify" in explained
    at = explained.index("read_file (read /q/a): confirm")
    assert explained[at + 1] == "  because /q/a is outside of the project"


def test_a_rule_that_denies_overrules_the_others() -> None:
    explained = explain(call("write_file", use("/etc/a", "write")), BUILT_IN)
    assert any("is overruled: protected.system_folders denies" in text for text in explained)


def test_a_call_without_rules_says_so() -> None:
    held = rules("", "auto_approve: ['*']", built_in=False)
    assert explain(call("t"), held) == [
        "t: confirm",
        "  because no rule matches",
        "  no rule is for this tool",
        "decision: automatic, risk medium",
        "  because no rule matches",
        "  freer than the rules, by a preference or the safety switch",
    ]


def test_the_decision_of_an_explanation_is_that_of_the_rules() -> None:
    facts = line(words("ls"), words("rm a", use("a", "delete")), unparsed="a quote")
    explanation = explain_call(BUILT_IN, facts, moment())
    assert explanation.decision == BUILT_IN.decide(facts, moment())
    assert max(one.level for one in explanation.queries) is explanation.decision.level
