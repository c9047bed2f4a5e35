import pytest
from apps.terminal.tests.rules.calls import call, decide, rules, use
from hypothesis import given
from hypothesis import strategies as st

from adh.rules.levels import Level, Risk
from adh.rules.rule_fields import CHECKS
from adh.rules.rule_files import RuleFile, RulesError, load_rules
from adh.rules.yaml_tree import RuleProblem

SOUND = "mine:\n  one:\n    pattern: read_file\n    supervision: notify\n    risk: low\n"


def find_problems(text: str, preferences: str | None = None) -> tuple[RuleProblem, ...]:
    wishes = None if preferences is None else RuleFile("policy_preferences.yaml", preferences)
    with pytest.raises(RulesError) as raised:
        load_rules([RuleFile("own.yaml", text)], wishes)
    return raised.value.problems


def test_a_rule_has_all_that_its_file_says() -> None:
    text = """
team:
  deploy:
    pattern: [Execute_Command, deploy_*]
    conditions: {command_starts_with: make deploy}
    supervision: Manual
    risk: CRITICAL
    safety_checks: [sandbox, backup, sandbox]
    restrictions:
      rate_limit: {calls: 2, seconds: 60}
    priority: 7
    enabled: false
"""
    (rule,) = rules(text, built_in=False).rules
    assert str(rule.origin) == "team.deploy (policies/own.yaml:3)"
    assert (rule.level, rule.risk, rule.priority) == (Level.MANUAL, Risk.CRITICAL, 7)
    assert rule.checks == ("sandbox", "backup")
    assert [one.describe() for one in rule.restrictions] == ["at most 2 calls in 60 s"]
    assert not rule.enabled
    assert not rule.built_in


RULE_LINES = [
    ("    suprevision: deny", 6, "mine.one.suprevision", "unknown key", '"supervision"'),
    ("    pattern: x", 6, "mine.one.pattern", "is there twice (first in line 3)", "keep one"),
    ("    priority: high", 6, "mine.one.priority", "not such a number", "from 0 to 1000"),
    ("    priority: -1", 6, "mine.one.priority", "not such a number", "from 0 to 1000"),
    ("    priority: 1001", 6, "mine.one.priority", "not such a number", "from 0 to 1000"),
    ("    priority: 1.5", 6, "mine.one.priority", "not such a number", "from 0 to 1000"),
    ("    enabled: off", 6, "mine.one.enabled", "not a truth value", "true or false"),
    (
        "    safety_checks: bakup",
        6,
        "mine.one.safety_checks[0]",
        'unknown word "bakup"',
        '"backup"',
    ),
    ("    safety_checks: [{a: b}]", 6, "mine.one.safety_checks[0]", "not a word", "use one of"),
    ("    restrictions: [size_limit]", 6, "mine.one.restrictions", "not keys", "name: value"),
    ("    restrictions: {}", 6, "mine.one.restrictions", "says nothing", "remove"),
    ("    restrictions: {size: 1}", 6, "mine.one.restrictions.size", "unknown key", "size_limit"),
    ("    conditions: {path_matchs: x}", 6, "mine.one.conditions.path_matchs", "unknown", "path_"),
    (
        "    conditions: {path_matches: []}",
        6,
        "mine.one.conditions.path_matches",
        "empty",
        "at least",
    ),
    (
        "    conditions: {path_matches: 3}",
        6,
        "mine.one.conditions.path_matches",
        "3 is not",
        "quotes",
    ),
    (
        "    conditions: {path_matches: ''}",
        6,
        "mine.one.conditions.path_matches",
        "not a",
        "not empty",
    ),
    (
        "    conditions: {path_matches: '!a'}",
        6,
        "mine.one.conditions.path_matches",
        "fits nothing",
        "!",
    ),
    (
        "    conditions: path_matches",
        6,
        "mine.one.conditions",
        "not keys with values",
        "name: value",
    ),
    ("    conditions: {}", 6, "mine.one.conditions", "says nothing", "remove"),
    ("    conditions:", 6, "mine.one.conditions", "not keys with values", "name: value"),
    (
        "    conditions: {command_matches: ls}",
        6,
        "mine.one.conditions",
        "command",
        "execute_command",
    ),
    ("    conditions: {read_only: true}", 6, "mine.one.conditions", "command", "execute_command"),
    ("  two:", 6, "mine.two", "not keys with values", "name: value"),
    ("  two: {risk: low, supervision: deny}", 6, "mine.two", "pattern is missing", "write pattern"),
    ("  two: {pattern: x, supervision: deny}", 6, "mine.two", "risk is missing", "write risk"),
    (
        "  two: {pattern: x, risk: low}",
        6,
        "mine.two",
        "supervision is missing",
        "write supervision",
    ),
    ("  two: {pattern: [], supervision: deny, risk: low}", 6, "mine.two.pattern", "empty", "least"),
    (
        "  two: {pattern: x, supervision: block, risk: low}",
        6,
        "mine.two.supervision",
        "block",
        "deny",
    ),
    ("  two: {pattern: x, supervision: deny, risk: hihg}", 6, "mine.two.risk", "hihg", '"high"'),
    (
        "  two: {pattern: x, supervision: [deny], risk: low}",
        6,
        "mine.two.supervision",
        "not a w",
        "de",
    ),
    ("  one: {pattern: x, supervision: deny, risk: low}", 6, "mine.one", "is there twice", "keep"),
    ("others: [a]", 6, "others", "not keys with values", "name: value"),
]


@pytest.mark.parametrize(("added", "line", "key", "problem", "fix"), RULE_LINES, ids=str)
def test_what_is_wrong_in_a_rule_names_line_key_and_fix(
    added: str, line: int, key: str, problem: str, fix: str
) -> None:
    (found,) = find_problems(f"{SOUND}{added}\n")
    assert (found.file, found.line, found.key) == ("own.yaml", line, key)
    assert problem in found.problem
    assert fix in found.fix


RESTRICTION_LINES = [
    ("path_pattern: {}", "", "says nothing"),
    ("path_pattern: {denied: x}", ".denied", "unknown key"),
    ("path_pattern: {allow: []}", ".allow", "an empty list"),
    ("size_limit: 10 XB", "", "not a size"),
    ("size_limit: -1", "", "not a size"),
    ("size_limit: [1]", "", "not a size"),
    ("url_scheme: {private: localhost}", "", "schemes is missing"),
    ("url_scheme: {schemes: 4}", ".schemes", "4 is not text"),
    ("rate_limit: {calls: 1}", "", "seconds is missing"),
    ("rate_limit: {calls: 0, seconds: 1}", ".calls", "not such a number"),
    ("rate_limit: {calls: 1, seconds: 1000000000}", ".seconds", "not such a number"),
    ("time_window: {from: '09:00'}", "", "to is missing"),
    ("time_window: {from: '9:00', to: '10:00'}", ".from", "not a time"),
    ("time_window: {from: '09:00', to: '24:00'}", ".to", "not a time"),
    ("time_window: {from: '09:00', to: '09:00'}", "", "begins and ends at the same time"),
    ("time_window: {from: '09:00', to: '10:00', days: [monday]}", ".days[0]", "unknown word"),
    ("time_window: {from: '09:00', to: '10:00', days: []}", ".days", "an empty list"),
    ("parameter_filter: {}", "", "says nothing"),
    ("parameter_filter: {deny: [x]}", ".deny", "not keys with values"),
    ("parameter_filter: {deny: {}}", ".deny", "says nothing"),
    ("parameter_filter: {deny: {url: 3}}", ".deny.url", "3 is not text"),
]


@pytest.mark.parametrize(("written", "key", "problem"), RESTRICTION_LINES, ids=str)
def test_what_is_wrong_in_a_restriction_is_found(written: str, key: str, problem: str) -> None:
    found = find_problems(f"{SOUND}    restrictions:\n      {written}\n")
    name = written.partition(":")[0]
    assert (found[0].line, found[0].key) == (7, f"mine.one.restrictions.{name}{key}")
    assert problem in found[0].problem


@pytest.mark.parametrize(
    ("text", "line", "key", "problem"),
    [
        ("tool: {}", 1, "tool", "unknown key"),
        ("tools: [a]", 1, "tools", "not keys with values"),
        ("tools:\n  a: deny", 2, "tools.a", "not keys with values"),
        ("tools:\n  a: {level: deny}", 2, "tools.a.level", "unknown key"),
        ("tools:\n  a: {supervision: no}", 2, "tools.a.supervision", "unknown word"),
        ("auto_approve: [a, 3]", 1, "auto_approve[1]", "3 is not text"),
        ("never_allow: {a: b}", 1, "never_allow[0]", "not a text"),
    ],
)
def test_what_is_wrong_in_preferences_is_found(
    text: str, line: int, key: str, problem: str
) -> None:
    found = find_problems(SOUND, text)[0]
    assert (found.file, found.line, found.key) == ("policy_preferences.yaml", line, key)
    assert problem in found.problem


def test_all_problems_of_all_files_are_told_at_once_in_order() -> None:
    files = [
        RuleFile("a.yaml", "a: [b"),
        RuleFile("b.yaml", f"{SOUND}    x: 1\n    priority: no\n"),
    ]
    with pytest.raises(RulesError) as raised:
        load_rules(files, RuleFile("p.yaml", "autoapprove: x"))
    places = [(one.file, one.line) for one in raised.value.problems]
    assert places == [("a.yaml", 1), ("b.yaml", 6), ("b.yaml", 7), ("p.yaml", 1)]
    assert 'p.yaml:1: autoapprove: unknown key; did you mean "auto_approve"?' in str(raised.value)


def test_two_rules_of_the_person_with_one_name_are_a_problem() -> None:
    with pytest.raises(RulesError) as raised:
        load_rules([RuleFile("a.yaml", SOUND), RuleFile("b.yaml", SOUND)])
    (found,) = raised.value.problems
    assert str(found) == "b.yaml:2: mine.one: is also in a.yaml:2; give one of them another name"


def test_a_rule_of_the_person_replaces_the_built_in_one_of_its_name() -> None:
    body = "{pattern: write_file, supervision: confirm, risk: low, enabled: false}"
    held = rules(f"protected: {{system_folders: {body}}}")
    assert decide(call("write_file", use("/etc/a", "write")), held).level is Level.CONFIRM
    assert [rule.built_in for rule in held.rules if rule.key == "protected.system_folders"] == [
        False
    ]


def test_a_rule_that_is_off_decides_nothing() -> None:
    off = SOUND.replace("notify", "deny") + "    enabled: false\n"
    assert decide(call("read_file", use("a")), rules(off)).level is Level.AUTOMATIC


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20))
def test_an_unknown_key_is_always_a_problem(key: str) -> None:
    known = {"pattern", "conditions", "supervision", "risk", "safety_checks"}
    known |= {"restrictions", "priority", "enabled", "null", "true", "false"}
    if key in known:
        return
    assert any(one.key == f"mine.one.{key}" for one in find_problems(f"{SOUND}    {key}: 1\n"))


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20))
def test_an_unknown_check_is_always_a_problem(name: str) -> None:
    if name in CHECKS:
        return
    assert find_problems(f"{SOUND}    safety_checks: ['{name}']\n")
