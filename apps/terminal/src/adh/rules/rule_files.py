"""From the texts of files to the rules that hold.

The built-in files are part of the package and the same at every call, so reading them is the one
exception to "no I/O" in this room. It must never return fewer rules than the files have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files as package_files

from msgspec import Struct
from msgspec.structs import replace

from adh.rules.fields import FieldReader
from adh.rules.preferences import Preferences, read_preferences
from adh.rules.rule import Rule
from adh.rules.rule_fields import read_rules
from adh.rules.rule_set import RuleSet
from adh.rules.yaml_tree import RuleProblem, RulesError, parse_yaml

__all__ = ["RuleFile", "RuleProblem", "RulesError", "built_in_files", "load_rules"]

BUILT_IN = ("commands.yaml", "files.yaml", "network.yaml", "protected.yaml")


class RuleFile(Struct, frozen=True):
    """A file of rules or preferences.

    Args:
        name: its name as the person reads it, such as "policies/git.yaml".
        text: its content.
        built_in: whether it comes with the application.
    """

    name: str
    text: str
    built_in: bool = False


def built_in_files() -> tuple[RuleFile, ...]:
    """Return the files of the rules that come with the application."""
    folder = package_files("adh.rules") / "built_in"
    return tuple(
        RuleFile(f"built-in/{name}", (folder / name).read_text("utf-8"), built_in=True)
        for name in BUILT_IN
    )


def load_rules(files: Sequence[RuleFile], preferences: RuleFile | None = None) -> RuleSet:
    """Return the rules of some files.

    A rule of the person with the category and name of a built-in one replaces it. Two rules of the
    person with one name are a problem.

    Args:
        files: the files, built-in ones first.
        preferences: the file of preferences.

    Raises:
        RulesError: with every problem of every file.

    >>> text = "mine: {ls: {pattern: read_file, supervision: notify, risk: low}}"
    >>> [rule.key for rule in load_rules([RuleFile("mine.yaml", text)]).rules]
    ['mine.ls']
    """
    problems: list[RuleProblem] = []
    found: list[Rule] = []
    for file in files:
        node, wrong = parse_yaml(file.name, file.text)
        problems += wrong
        if node is not None:
            found += read_rules(FieldReader(file.name, problems), node, built_in=file.built_in)
    problems += _find_repeated(found)
    wishes = Preferences()
    if preferences is not None:
        node, wrong = parse_yaml(preferences.name, preferences.text)
        problems += wrong
        if node is not None:
            wishes = read_preferences(FieldReader(preferences.name, problems), node)
    if problems:
        order = {file.name: at for at, file in enumerate(files)}
        last = len(order)
        raise RulesError(sorted(problems, key=lambda one: (order.get(one.file, last), one.line)))
    return RuleSet(_replace_built_in(found), wishes)


def _replace_built_in(rules: Sequence[Rule]) -> list[Rule]:
    own = {rule.key for rule in rules if not rule.built_in}
    replaced = {rule.key: rule.origin for rule in rules if rule.built_in and rule.key in own}
    return [
        rule if rule.built_in else replace(rule, replaces=replaced.get(rule.key))
        for rule in rules
        if not (rule.built_in and rule.key in own)
    ]


def _find_repeated(rules: Iterable[Rule]) -> list[RuleProblem]:
    first: dict[tuple[str, bool], Rule] = {}
    problems: list[RuleProblem] = []
    for rule in rules:
        earlier = first.setdefault((rule.key, rule.built_in), rule)
        if earlier is not rule:
            origin = rule.origin
            problem = f"is also in {earlier.origin.file}:{earlier.origin.line}"
            fix = "give one of them another name"
            problems.append(RuleProblem(origin.file, origin.line, rule.key, problem, fix))
    return problems
