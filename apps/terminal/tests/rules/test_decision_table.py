import pytest
from apps.terminal.tests.rules.calls import NOON, PROJECT, rules, use, words

from adh.rules.decision_table import TableCall, TableReport, format_report, parse_table, run_table
from adh.rules.facts import CallFacts
from adh.rules.levels import Level, Risk
from adh.rules.rule_files import RuleFile, RulesError
from adh.rules.rule_set import RuleSet
from adh.rules.yaml_tree import RuleProblem

TABLE = """
calls:
  - command: ls; rm a
    expect: {level: manual, risk: HIGH, rule: commands.remove_files}
  - name: a secret
    tool: read_file
    arguments: {file_path: conf/.env, max_lines: 5, deep: [1, {a: null}]}
    folder: conf
    files: {conf/.env: "A=1", port: 80}
    links: {a: /etc/passwd}
    expect: Confirm
  - tool: deploy
    at: 2026-07-04T12:00:00+02:00
    recent: [5, 10]
    safety: false
    expect: {level: deny, reason: "At most 2"}
"""
OWN = """
team:
  deploy:
    pattern: deploy
    supervision: automatic
    risk: low
    restrictions: {rate_limit: {calls: 2, seconds: 60}}
  unused:
    pattern: nothing
    supervision: deny
    risk: low
"""


def parse(text: str) -> tuple[TableCall, ...]:
    return parse_table(RuleFile("table.yaml", text))


def find_problems(text: str) -> tuple[RuleProblem, ...]:
    with pytest.raises(RulesError) as raised:
        parse(text)
    return raised.value.problems


def build_facts(call: TableCall) -> CallFacts:
    text = str(call.arguments.get("command", ""))
    commands = tuple(words(part) for part in text.split(";") if part.strip())
    path = call.arguments.get("file_path")
    paths = (use(str(path)),) if path else ()
    return CallFacts(
        tool=call.tool, arguments=call.arguments, paths=paths, commands=commands, project=PROJECT
    )


def run(text: str, held: RuleSet | None = None) -> TableReport:
    return run_table(parse(text), held or rules(OWN), build_facts, NOON)


def test_a_table_is_read_whole() -> None:
    first, second, third = parse(TABLE)
    assert (first.tool, first.arguments) == ("execute_command", {"command": "ls; rm a"})
    assert (first.name, first.line) == ("execute_command ls; rm a", 3)
    assert (first.expected.level, first.expected.risk) == (Level.MANUAL, Risk.HIGH)
    assert second.name == "a secret"
    assert second.arguments == {"file_path": "conf/.env", "max_lines": 5, "deep": [1, {"a": None}]}
    assert (second.folder, second.files) == ("conf", {"conf/.env": "A=1", "port": "80"})
    assert second.links == {"a": "/etc/passwd"}
    assert second.expected.level is Level.CONFIRM
    assert third.at is not None
    assert (third.at.isoformat(), third.recent, third.safety) == (
        "2026-07-04T12:00:00+02:00",
        (5.0, 10.0),
        False,
    )


def test_a_table_that_holds_passes_and_names_the_rules_that_it_misses() -> None:
    report = run(TABLE)
    assert report.passed
    assert [str(origin) for origin in report.undecided] == ["team.unused (policies/own.yaml:8)"]
    shown = list(format_report(report))
    assert shown[0].startswith("ok   execute_command ls; rm a (line 3): manual by commands.remove_")
    assert shown[-2:] == [
        "note: no call is decided by team.unused (policies/own.yaml:8)",
        "3 calls, 0 failed",
    ]


def test_every_difference_is_told() -> None:
    report = run("calls: [{command: ls, expect: {level: deny, risk: high, rule: a.b, reason: x}}]")
    assert not report.passed
    assert report.rows[0].differences == (
        "expected deny, got notify",
        "expected risk high, got low",
        "expected the rule a.b, got commands.look_around",
        'expected a reason with "x", got ""',
    )
    assert list(format_report(report))[-1] == "1 calls, 1 failed"


def test_a_call_may_be_expected_to_have_no_rule() -> None:
    report = run("calls: [{tool: t, expect: {level: confirm, rule: none}}]")
    assert report.passed
    report = run("calls: [{tool: t, expect: notify}]")
    assert report.rows[0].differences == ("expected notify, got confirm (no rule matches)",)


@pytest.mark.parametrize(
    ("text", "line", "key", "problem"),
    [
        ("", 1, "calls", "no call to test"),
        ("calls: []", 1, "calls", "no call to test"),
        ("calls: {a: b}", 1, "calls", "not a list"),
        ("call: []", 1, "call", "unknown key"),
        ("calls: [ls]", 1, "calls[0]", "not keys with values"),
        ("calls:\n- expect: deny", 2, "calls[0]", "tool is missing"),
        ("calls:\n- tool: t", 2, "calls[0].expect", "is missing"),
        ("calls:\n- {tool: t, expects: deny, expect: deny}", 2, "calls[0].expects", "unknown key"),
        ("calls:\n- {tool: t, expect: allow}", 2, "calls[0].expect", 'unknown word "allow"'),
        ("calls:\n- {tool: t, expect: {risk: low}}", 2, "calls[0].expect", "level is missing"),
        ("calls:\n- {tool: t, expect: {level: x}}", 2, "calls[0].expect.level", "unknown word"),
        ("calls:\n- {tool: t, expect: [deny]}", 2, "calls[0].expect", "not a word"),
        ("calls:\n- {tool: [t], expect: deny}", 2, "calls[0].tool", "not a text"),
        (
            "calls:\n- {tool: t, arguments: [a], expect: deny}",
            2,
            "calls[0].arguments",
            "not keys with values",
        ),
        (
            "calls:\n- {command: a, arguments: {command: b}, expect: deny}",
            2,
            "calls[0].command",
            "is among the arguments too",
        ),
        ("calls:\n- {tool: t, at: noon, expect: deny}", 2, "calls[0].at", "not a time with a zone"),
        (
            "calls:\n- {tool: t, at: 2026-07-01T12:00:00, expect: deny}",
            2,
            "calls[0].at",
            "not a time with a zone",
        ),
        ("calls:\n- {tool: t, recent: soon, expect: deny}", 2, "calls[0].recent[0]", "not such a"),
        ("calls:\n- {tool: t, safety: off, expect: deny}", 2, "calls[0].safety", "not a truth"),
        (
            "calls:\n- {tool: t, files: {../a: b}, expect: deny}",
            2,
            "calls[0].files.../a",
            "not a path in the project",
        ),
        (
            "calls:\n- {tool: t, links: {/etc/a: b}, expect: deny}",
            2,
            "calls[0].links./etc/a",
            "not a path in the project",
        ),
        (
            "calls:\n- {tool: t, folder: ../.., expect: deny}",
            2,
            "calls[0].folder",
            "not a path in the project",
        ),
        ("calls:\n- {tool: t, files: {a: [b]}, expect: deny}", 2, "calls[0].files.a", "not a text"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_wrong_in_a_table_is_found(text: str, line: int, key: str, problem: str) -> None:
    found = find_problems(text)[0]
    assert (found.file, found.line, found.key) == ("table.yaml", line, key)
    assert problem in found.problem
    assert found.fix
