"""What holds for all rules and all calls."""

import pytest
from apps.terminal.tests.rules.calls import BUILT_IN, moment, strictness
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adh.rules.decision import RuleOrigin
from adh.rules.facts import Access, CallFacts, CommandUse, PathUse
from adh.rules.levels import Level, Risk
from adh.rules.preferences import Preference, Preferences
from adh.rules.restrictions import PathPattern, RateLimit, Restriction, SizeLimit
from adh.rules.rule import Conditions, Rule
from adh.rules.rule_set import RuleSet

TOOLS = ("execute_command", "read_file", "write_file", "delete_file", "list_directory", "other")
PATHS = ("/p/a", "/p/b.env", "/p/docs/c", "/q/d", "/etc/e", "/dev/null", "/")
PATTERNS = ("*", "a", "*.env", "docs/", "/q/*", "/etc/", "docs/*", "!a")
WORDS = ("ls", "cat", "rm", "-r", "/", "a", "./ls", "git", "push", "sudo", "make")
ACCESSES: tuple[Access, ...] = ("read", "list", "write", "create", "delete", "run")

paths = st.builds(PathUse, path=st.sampled_from(PATHS), access=st.sampled_from(ACCESSES))
commands = st.builds(
    CommandUse,
    argv=st.lists(st.sampled_from((*WORDS, None)), max_size=4).map(tuple),
    text=st.just("text"),
    paths=st.lists(paths, max_size=2).map(tuple),
    problems=st.sampled_from(((), (), (), ("eval",))),
    read_only=st.booleans(),
)
facts = st.builds(
    CallFacts,
    tool=st.sampled_from(TOOLS),
    arguments=st.dictionaries(st.sampled_from("abc"), st.sampled_from(("", "x" * 9)), max_size=2),
    paths=st.lists(paths, max_size=2).map(tuple),
    commands=st.lists(commands, max_size=3).map(tuple),
    unparsed=st.sampled_from(("", "", "", "a quote")),
    project=st.just("/p"),
)
texts = st.lists(st.sampled_from(WORDS), max_size=2, unique=True).map(tuple)
conditions = st.builds(
    Conditions,
    command_matches=st.just(()) | st.just(("ls", "cat *", "rm *")),
    command_starts_with=texts,
    path_matches=st.lists(st.sampled_from(PATTERNS), max_size=2, unique=True).map(tuple),
    read_only=st.sampled_from((None, None, True, False)),
)
restrictions: st.SearchStrategy[tuple[Restriction, ...]] = st.lists(
    st.sampled_from((SizeLimit(5), RateLimit(1, 10), PathPattern(deny=("docs/",)))),
    max_size=2,
    unique=True,
).map(tuple)
bodies = st.builds(
    dict,
    pattern=st.lists(st.sampled_from((*TOOLS, "*", "*_file")), min_size=1, max_size=2).map(tuple),
    level=st.sampled_from(Level),
    risk=st.sampled_from(Risk),
    conditions=conditions,
    priority=st.integers(0, 3),
    restrictions=restrictions,
    enabled=st.sampled_from((True, True, True, False)),
)


def name_rules(bodies: list[dict[str, object]]) -> list[Rule]:
    return [
        Rule(origin=RuleOrigin("a", f"r{at}", "a.yaml", at + 1), **body)  # type: ignore[arg-type]
        for at, body in enumerate(bodies)
    ]


rule_lists = st.lists(bodies, max_size=6).map(name_rules)
wishes = st.builds(
    Preferences,
    tools=st.lists(
        st.builds(
            Preference,
            st.sampled_from(TOOLS),
            st.just(RuleOrigin("preferences", "tools", "p.yaml", 1)),
            st.sampled_from(Level),
        ),
        max_size=2,
    ).map(tuple),
    auto_approve=st.sampled_from(
        ((), (Preference("*", RuleOrigin("preferences", "auto_approve", "p.yaml", 1)),))
    ),
)
moments = st.builds(moment, recent=st.sampled_from(((), (1.0,))), safety=st.booleans())


@pytest.mark.slow  # takes half a second or more
@given(rule_lists, wishes, facts, moments, bodies)
def test_a_rule_that_denies_never_makes_anything_freer(
    rules: list[Rule],
    preferences: Preferences,
    call: CallFacts,
    when: object,
    body: dict[str, object],
) -> None:
    denies = Rule(origin=RuleOrigin("b", "deny", "b.yaml", 1), **body | {"level": Level.DENY})  # type: ignore[arg-type]
    before = RuleSet(rules, preferences).decide(call, when)  # type: ignore[arg-type]
    after = RuleSet([*rules, denies], preferences).decide(call, when)  # type: ignore[arg-type]
    assert after.level >= before.level


@given(rule_lists, wishes, facts, moments)
def test_a_line_is_judged_no_freer_than_each_of_its_commands(
    rules: list[Rule], preferences: Preferences, call: CallFacts, when: object
) -> None:
    for held in (RuleSet(rules, preferences), RuleSet(BUILT_IN.rules, preferences)):
        whole = held.decide(call, when)  # type: ignore[arg-type]
        for command in call.commands:
            alone = replace(call, commands=(command,), unparsed="")
            part = held.decide(alone, when)  # type: ignore[arg-type]
            assert whole.level >= part.level
            assert whole.risk >= part.risk


@given(rule_lists, facts, moments)
def test_parts_are_no_stricter_than_the_whole(
    rules: list[Rule], call: CallFacts, when: object
) -> None:
    decision = RuleSet(rules).decide(call, moment(recent=(1.0,)))
    assert len(decision.parts) == len(call.commands)
    for part in decision.parts:
        assert (decision.level, decision.risk) >= (part.level, decision.risk)
        assert decision.risk >= part.risk


@given(rule_lists, wishes, facts, moments, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(
    rules: list[Rule], preferences: Preferences, call: CallFacts, when: object, order: object
) -> None:
    shuffled = list(rules)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    first = RuleSet(rules, preferences).decide(call, when)  # type: ignore[arg-type]
    assert RuleSet(shuffled, preferences).decide(call, when) == first  # type: ignore[arg-type]


@given(rule_lists, wishes, facts, moments)
def test_preferences_and_the_safety_switch_free_nothing_denied_or_critical(
    rules: list[Rule], preferences: Preferences, call: CallFacts, when: object
) -> None:
    plain = RuleSet(rules).decide(call, moment(recent=when.recent("")))  # type: ignore[attr-defined]
    wished = RuleSet(rules, preferences).decide(call, when)  # type: ignore[arg-type]
    if plain.level is Level.DENY or plain.risk is Risk.CRITICAL:
        assert wished.level >= plain.level
    assert wished.softened or wished.level >= plain.level
    if not preferences.auto_approve and plain.level is not Level.CONFIRM:
        assert wished.level >= plain.level


@given(rule_lists, facts)
def test_what_a_restriction_forbids_is_denied_with_a_reason(
    rules: list[Rule], call: CallFacts
) -> None:
    decision = RuleSet(rules).decide(call, moment(recent=(1.0, 2.0)))
    if decision.violations:
        assert decision.level is Level.DENY
    if decision.level is Level.DENY:
        assert decision.rule is not None


@given(rule_lists, facts)
def test_without_a_freeing_rule_something_is_asked(rules: list[Rule], call: CallFacts) -> None:
    strict = [rule for rule in rules if rule.level >= Level.CONFIRM]
    assert strictness(RuleSet(strict).decide(call, moment())) >= (Level.CONFIRM, Risk.NONE)


@given(rule_lists, facts)
def test_raising_one_level_never_makes_a_call_freer(rules: list[Rule], call: CallFacts) -> None:
    # Words are compared in more forms by rules that ask, so only these are raised.
    asking = [rule for rule in rules if rule.level >= Level.CONFIRM]
    before = RuleSet(asking).decide(call, moment()).level
    for at, rule in enumerate(asking):
        body = {name: getattr(rule, name) for name in rule.__struct_fields__}
        raised = Rule(**body | {"level": min(Level.DENY, Level(min(4, rule.level + 1)))})
        held = [*asking[:at], raised, *asking[at + 1 :]]
        assert RuleSet(held).decide(call, moment()).level >= before
