"""Calls that the tests judge: short ways to write them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from adh.rules.decision import Decision
from adh.rules.facts import Access, CallFacts, CommandUse, PathUse
from adh.rules.levels import Level, Risk
from adh.rules.restrictions import Moment
from adh.rules.rule_files import RuleFile, built_in_files, load_rules
from adh.rules.rule_set import RuleSet

PROJECT = "/p"
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
BUILT_IN = load_rules(built_in_files())


def moment(at: datetime = NOON, recent: Sequence[float] = (), *, safety: bool = True) -> Moment:
    return Moment(at, lambda rule: recent, safety)


def use(path: str, access: Access = "read") -> PathUse:
    return PathUse(path if path.startswith("/") else f"{PROJECT}/{path}", access, path)


def command(*argv: str | None, paths: Sequence[PathUse] = (), **fields: object) -> CommandUse:
    text = " ".join("$x" if word is None else word for word in argv)
    return CommandUse(argv, text, tuple(paths), **fields)  # type: ignore[arg-type]


def words(line: str, *paths: PathUse, **fields: object) -> CommandUse:
    return command(*line.split(), paths=paths, **fields)


def line(*commands: CommandUse, text: str = "", unparsed: str = "") -> CallFacts:
    return CallFacts(
        tool="execute_command",
        arguments={"command": text or "; ".join(one.text for one in commands)},
        effects=frozenset({"executes_process"}),
        commands=commands,
        unparsed=unparsed,
        project=PROJECT,
        folder=PROJECT,
        home="/h",
    )


def call(tool: str, *paths: PathUse, urls: Sequence[str] = (), **arguments: object) -> CallFacts:
    return CallFacts(
        tool=tool,
        arguments=arguments,
        paths=paths,
        urls=tuple(urls),
        project=PROJECT,
        folder=PROJECT,
        home="/h",
    )


def rules(text: str, preferences: str = "", *, built_in: bool = True) -> RuleSet:
    own = RuleFile("policies/own.yaml", text)
    wishes = RuleFile("policy_preferences.yaml", preferences) if preferences else None
    return load_rules([*(built_in_files() if built_in else ()), own], wishes)


def decide(facts: CallFacts, held: RuleSet = BUILT_IN) -> Decision:
    return held.decide(facts, moment())


def strictness(decision: Decision) -> tuple[Level, Risk]:
    return decision.level, decision.risk
