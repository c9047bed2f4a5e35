import pytest
from apps.terminal.tests.rules.calls import call, decide, line, rules, use, words

from adh.rules.facts import CallFacts
from adh.rules.levels import Level

WRITE = call("write_file", use("a", "write"))
READ = call("read_file", use("a"))


@pytest.mark.parametrize(
    ("wanted", "facts", "level"),
    [
        ("manual", WRITE, Level.MANUAL),
        ("automatic", WRITE, Level.CONFIRM),
        ("notify", READ, Level.NOTIFY),
        ("deny", READ, Level.DENY),
        ("confirm", call("write_file", use("a.env", "write")), Level.DENY),
    ],
)
def test_a_tool_gets_only_stricter(wanted: str, facts: CallFacts, level: Level) -> None:
    held = rules("", f"tools:\n  '*_File': {{supervision: {wanted}}}\n")
    decision = decide(facts, held)
    assert decision.level is level
    if level > decide(facts).level:
        assert str(decision.rule) == "preferences.tools.*_File (policy_preferences.yaml:2)"
        assert decision.reason == f"preferences ask for {wanted}"


def test_the_strictest_of_several_preferences_holds() -> None:
    held = rules("", "tools: {write_file: {supervision: manual}, 'w*': {supervision: confirm}}")
    assert decide(WRITE, held).level is Level.MANUAL


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        (WRITE, Level.AUTOMATIC),
        (READ, Level.AUTOMATIC),
        (line(words("make")), Level.AUTOMATIC),
        (line(words("ls")), Level.NOTIFY),
        (line(words("ls"), words("make")), Level.NOTIFY),
        (line(words("rm a")), Level.AUTOMATIC),
        (line(words("sudo a")), Level.MANUAL),
        (line(words("rm -rf /")), Level.DENY),
        (line(words("make", problems=("eval",))), Level.MANUAL),
        (line(text="if", unparsed="a missing word"), Level.MANUAL),
        (call("read_file", use("/q/a")), Level.CONFIRM),
        (call("write_file", use("a.env", "write")), Level.DENY),
        (call("write_file", use("/etc/a", "write")), Level.DENY),
    ],
)
def test_approval_in_advance_frees_neither_denied_nor_critical_nor_unjudged(
    facts: CallFacts, level: Level
) -> None:
    decision = decide(facts, rules("", "auto_approve: ['*']"))
    assert decision.level is level
    assert decision.softened is (level < decide(facts).level)


def test_what_is_never_allowed_is_denied() -> None:
    held = rules("", "auto_approve: ['*']\nnever_allow:\n  - write_*\n  - x\n")
    decision = decide(WRITE, held)
    assert decision.level is Level.DENY
    assert str(decision.rule) == "preferences.never_allow (policy_preferences.yaml:3)"
    assert decision.reason == 'preferences never allow "write_*"'
    assert decide(READ, held).level is Level.AUTOMATIC


def test_a_stricter_level_holds_against_approval_in_advance() -> None:
    held = rules("", "auto_approve: ['*']\ntools: {write_file: {supervision: confirm}}\n")
    assert decide(WRITE, held).level is Level.CONFIRM


def test_a_rule_that_denies_stays_the_reason() -> None:
    held = rules("", "never_allow: ['*']")
    decision = decide(call("write_file", use("/etc/a", "write")), held)
    assert decision.rule is not None
    assert decision.rule.name == "system_folders"


@pytest.mark.parametrize(
    "text", ["", "# nothing", "auto_approve: []\nnever_allow: []\ntools: {}\n"]
)
def test_empty_preferences_change_nothing(text: str) -> None:
    assert decide(WRITE, rules("", text or " ")) == decide(WRITE)
