import pytest
from apps.terminal.tests.rules.calls import (
    call,
    command,
    decide,
    line,
    moment,
    rules,
    strictness,
    use,
    words,
)

from adh.rules.facts import Access, CallFacts, PathUse
from adh.rules.levels import Level, Risk
from adh.rules.rule_set import RuleSet

BODY = "supervision: {level}, risk: {risk}, priority: {priority}"


def one_rule(pattern: str, level: str, priority: int = 0, more: str = "") -> str:
    return f"{{pattern: '{pattern}', supervision: {level}, risk: low, priority: {priority}{more}}}"


def test_the_highest_priority_decides_even_when_it_is_freer() -> None:
    held = rules(f"a: {{x: {one_rule('t', 'manual', 1)}, y: {one_rule('t', 'automatic', 2)}}}")
    decision = decide(call("t"), held)
    assert strictness(decision) == (Level.AUTOMATIC, Risk.LOW)
    assert str(decision.rule) == "a.y (policies/own.yaml:1)"


def test_of_equal_priorities_the_strictest_decides() -> None:
    held = rules(f"a: {{x: {one_rule('t', 'automatic', 3)}, y: {one_rule('t', 'manual', 3)}}}")
    assert decide(call("t"), held).level is Level.MANUAL


def test_what_denies_ends_it_whatever_its_priority() -> None:
    held = rules(f"a: {{x: {one_rule('t', 'automatic', 900)}, y: {one_rule('t', 'deny', 0)}}}")
    assert decide(call("t"), held).level is Level.DENY


def test_rules_of_equal_priority_add_their_checks_and_restrictions() -> None:
    held = rules(
        f"""
a: {{x: {one_rule("t", "automatic", 3, ", safety_checks: [backup, sandbox]")}}}
b: {{y: {one_rule("t", "confirm", 3, ", safety_checks: [sandbox, permission]")}}}
c: {{z: {one_rule("t", "notify", 3, ", restrictions: {size_limit: 3}")}}}
"""
    )
    decision = decide(call("t"), held)
    assert decision.checks == ("sandbox", "permission", "backup")
    assert decision.restrictions == ("size_limit: at most 3 bytes",)
    assert decide(call("t", a="long"), held).level is Level.DENY


def test_no_rule_is_a_question() -> None:
    decision = decide(call("t"), RuleSet([]))
    assert strictness(decision) == (Level.CONFIRM, Risk.MEDIUM)
    assert decision.rule is None
    assert decision.reason == "no rule matches"
    assert decision.level.asks


def test_all_conditions_of_a_rule_must_hold() -> None:
    conditions = ", conditions: {command_starts_with: make, path_matches: build/}"
    held = rules(f"a: {{x: {one_rule('execute_command', 'notify', 20, conditions)}}}")
    inside, outside = use("build/a", "read"), use("src/a", "read")
    assert decide(line(words("make a", inside)), held).level is Level.NOTIFY
    assert decide(line(words("make a", outside)), held).level is Level.CONFIRM
    assert decide(line(words("make a")), held).level is Level.CONFIRM
    assert decide(line(words("made a", inside)), held).level is Level.CONFIRM
    assert decide(line(words("make a", inside, outside)), held).level is Level.CONFIRM


def test_a_condition_that_denies_needs_only_one_of_the_paths() -> None:
    conditions = ", conditions: {path_matches: secret/}"
    held = rules(f"a: {{x: {one_rule('execute_command', 'deny', 0, conditions)}}}")
    touched = words("cp", use("a", "read"), use("secret/b", "write"))
    assert decide(line(touched), held).level is Level.DENY


def test_the_strictest_command_of_a_line_decides() -> None:
    decision = decide(line(words("ls"), words("rm -r a"), words("git push")))
    assert strictness(decision) == (Level.MANUAL, Risk.HIGH)
    assert str(decision.rule).startswith("commands.remove_files (built-in/commands.yaml:")
    levels = [part.level for part in decision.parts]
    assert levels == [Level.NOTIFY, Level.MANUAL, Level.CONFIRM]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (line(text="if", unparsed="a missing word"), "cannot be parsed: a missing word"),
        (line(words("ls"), unparsed="a missing word"), "cannot be parsed: a missing word"),
        (line(words("ls", problems=("eval",))), "cannot be judged by its words: eval"),
        (line(words("ls"), command(None, "a", problems=("x", "y"))), "by its words: x; y"),
    ],
)
def test_what_cannot_be_judged_is_manual_and_high(facts: CallFacts, reason: str) -> None:
    decision = decide(facts)
    assert strictness(decision) == (Level.MANUAL, Risk.HIGH)
    assert reason in decision.reason


def test_a_line_of_another_tool_that_cannot_be_parsed_is_manual_too() -> None:
    held = rules(f"a: {{x: {one_rule('run_tests', 'automatic', 9)}}}")
    facts = CallFacts(tool="run_tests", arguments={}, unparsed="a quote", project="/p")
    assert strictness(decide(facts, held)) == (Level.MANUAL, Risk.HIGH)


def test_commands_of_another_tool_are_judged_as_commands() -> None:
    held = rules(f"a: {{x: {one_rule('run_tests', 'automatic', 9)}}}")
    facts = CallFacts(tool="run_tests", arguments={}, commands=(words("rm a"),), project="/p")
    assert decide(facts, held).level is Level.MANUAL
    facts = CallFacts(tool="run_tests", arguments={}, commands=(words("ls"),), project="/p")
    assert decide(facts, held).level is Level.NOTIFY


def test_a_word_that_only_a_run_can_tell_is_a_question() -> None:
    assert decide(line(command("ls", None))).level is Level.CONFIRM
    assert decide(line(command("rm", None))).level is Level.MANUAL
    assert decide(line(command("rm", "-rf", None, "/"))).level is Level.DENY
    freed = ", conditions: {command_matches: 'npm run *'}"
    held = rules(f"a: {{x: {one_rule('execute_command', 'automatic', 50, freed)}}}")
    assert decide(line(words("npm run test")), held).level is Level.AUTOMATIC
    assert decide(line(command("npm", "run", None)), held).level is Level.CONFIRM


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("/bin/ls a", Level.NOTIFY),
        ("/usr/bin/ls a", Level.NOTIFY),
        ("./ls a", Level.CONFIRM),
        ("/p/bin/ls a", Level.CONFIRM),
        ("LS a", Level.CONFIRM),
        ("/p/bin/rm a", Level.MANUAL),
        ("./sudo a", Level.MANUAL),
        ("SUDO a", Level.MANUAL),
        ("/sbin/mkfs.ext4 a", Level.MANUAL),
        ("RM -rf /", Level.DENY),
    ],
)
def test_a_program_is_freed_as_it_is_written_and_restricted_by_its_name(
    text: str, level: Level
) -> None:
    assert decide(line(words(text))).level is level


@pytest.mark.parametrize(
    "text",
    [
        "git push",
        "git -C a push",
        "git -c a=b --no-pager push x",
        "git --git-dir=a push",
        "git --git-dir a push",
        "/usr/bin/git push",
        "./git push",
    ],
)
def test_options_before_the_subcommand_evade_no_rule_of_git(text: str) -> None:
    denied = ", conditions: {command_starts_with: git push}"
    held = rules(f"a: {{x: {one_rule('execute_command', 'deny', 0, denied)}}}")
    assert decide(line(words(text)), held).level is Level.DENY


def test_a_redirection_is_judged_as_write_file() -> None:
    assert strictness(decide(line(words("echo a", use("b", "write"))))) == (
        Level.CONFIRM,
        Risk.MEDIUM,
    )
    assert decide(line(words("echo a", use("b.env", "write")))).level is Level.DENY
    assert decide(line(words("echo a", use("/etc/passwd", "write")))).level is Level.DENY


def test_a_command_outside_of_the_project_is_a_question_unless_a_rule_names_the_place() -> None:
    listing = line(words("ls", use("/data/a", "list")))
    reading = line(words("cat", use("/data/a", "read")))
    decision = decide(reading)
    assert strictness(decision) == (Level.CONFIRM, Risk.MEDIUM)
    assert decision.reason == "/data/a is outside of the project"
    named = ", conditions: {path_matches: /data/}"
    held = rules(f"a: {{x: {one_rule('read_file', 'automatic', 20, named)}}}")
    assert decide(reading, held).level is Level.NOTIFY
    assert decide(listing, held).level is Level.CONFIRM
    assert decide(call("read_file", use("/data/a")), held).level is Level.AUTOMATIC
    assert decide(call("read_file", use("/data2/a")), held).level is Level.CONFIRM


def test_a_pattern_that_names_no_place_frees_nothing_outside_of_the_project() -> None:
    named = ", conditions: {path_matches: '*.md'}"
    held = rules(f"a: {{x: {one_rule('read_file', 'automatic', 20, named)}}}")
    assert decide(call("read_file", use("/q/a.md")), held).level is Level.CONFIRM


def test_the_home_folder_is_named_with_a_tilde() -> None:
    named = ", conditions: {path_matches: ~/notes/}"
    held = rules(f"a: {{x: {one_rule('read_file', 'automatic', 20, named)}}}")
    assert decide(call("read_file", use("/h/notes/a")), held).level is Level.AUTOMATIC
    homeless = CallFacts(tool="read_file", arguments={}, paths=(use("/h/notes/a"),), project="/p")
    assert decide(homeless, held).level is Level.CONFIRM


def test_a_path_that_is_not_resolved_is_outside() -> None:
    for path in ("/p/../q", "/p/./a", "p/a"):
        facts = CallFacts(
            tool="read_file",
            arguments={},
            paths=(type(use("a"))(path, "read"),),
            project="/p",
        )
        assert decide(facts).level is Level.CONFIRM


def test_a_program_outside_of_the_project_is_a_question() -> None:
    freed = ", conditions: {command_starts_with: [/q/tool, /usr/bin/tool, ./tool]}"
    held = rules(f"a: {{x: {one_rule('execute_command', 'automatic', 20, freed)}}}")
    assert decide(line(words("/q/tool", use("/q/tool", "run"))), held).level is Level.CONFIRM
    assert decide(line(words("./tool", use("tool", "run"))), held).level is Level.AUTOMATIC
    assert decide(line(words("tool", use("/usr/bin/tool", "run"))), held).level is Level.CONFIRM


@pytest.mark.parametrize("tool", ["get_file_info", "someones_tool"])
def test_other_tools_obey_the_path_rules_of_the_file_tools(tool: str) -> None:
    held = rules(f"a: {{x: {one_rule('someones_tool', 'automatic', 20)}}}")
    assert decide(call(tool, use("a.txt")), held).level is Level.AUTOMATIC
    assert strictness(decide(call(tool, use("conf/.env")), held)) == (Level.CONFIRM, Risk.HIGH)


@pytest.mark.parametrize("access", ["list", "run"])
def test_the_folder_that_a_command_works_in_is_inside_of_the_project(access: Access) -> None:
    facts = CallFacts(
        tool="execute_command",
        arguments={"command": "ls", "cwd": "/q"},
        paths=(use("/q", access),),
        commands=(words("ls"),),
        project="/p",
    )
    assert decide(facts).level is Level.CONFIRM


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        (call("write_file", use("a", "write")), Level.AUTOMATIC),
        (call("delete_file", use("a", "delete")), Level.CONFIRM),
        (call("write_file", use("a.env", "write")), Level.DENY),
        (line(words("rm a")), Level.MANUAL),
        (line(words("ls")), Level.NOTIFY),
        (line(words("ls"), words("make")), Level.NOTIFY),
        (line(words("rm -rf /")), Level.DENY),
        (line(words("cat .env", use(".env"))), Level.CONFIRM),
    ],
)
def test_safety_off_leaves_out_questions_of_low_and_medium_risk(
    facts: CallFacts, level: Level
) -> None:
    held = rules("")
    off = held.decide(facts, moment(safety=False))
    on = held.decide(facts, moment())
    assert off.level is level
    assert off.softened is (off.level is not on.level)


def test_a_rule_that_restricts_also_sees_a_path_as_it_is_written() -> None:
    named = ", conditions: {path_matches: [/var/secrets/, conf/]}"
    for written in ("/var/secrets/a", "/var/./x/../secrets/a", "conf/a", "'conf/a'"):
        linked = PathUse("/srv/elsewhere/a", "read", written)
        denies = rules(f"a: {{x: {one_rule('read_file', 'deny', 0, named)}}}")
        assert decide(call("read_file", linked), denies).level is Level.DENY
        assert decide(line(words("cat", linked)), denies).level is Level.DENY
        frees = rules(f"a: {{x: {one_rule('read_file', 'automatic', 20, named)}}}")
        assert decide(call("read_file", linked), frees).level is Level.CONFIRM


def test_a_link_to_a_harmless_name_hides_no_secret_and_a_secret_name_stays_one() -> None:
    for path, written in (("/p/.env", "notes.txt"), ("/p/notes.txt", ".env")):
        read = PathUse(path, "read", written)
        assert strictness(decide(line(words("cat", read)))) == (Level.CONFIRM, Risk.HIGH)
        write = PathUse(path, "write", written)
        assert decide(call("write_file", write)).level is Level.DENY


def test_a_word_that_only_a_run_can_tell_evades_no_rule_that_denies() -> None:
    denied = ", conditions: {command_starts_with: git push}"
    held = rules(f"a: {{x: {one_rule('execute_command', 'deny', 0, denied)}}}")
    assert decide(line(command("git", None)), held).level is Level.DENY
    assert decide(line(command("git")), held).level is Level.CONFIRM
    assert decide(line(command("git", "pull", None)), held).level is Level.CONFIRM
