"""Reading rules from the tree of a file.

It must never ignore a key: a typing mistake in a rule that denies would free what it denies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from adh.rules.decision import RuleOrigin
from adh.rules.fields import FieldReader, join_keys
from adh.rules.levels import Level, Risk
from adh.rules.restriction_fields import read_restrictions
from adh.rules.restrictions import Restriction
from adh.rules.rule import Conditions, Rule
from adh.rules.subject import COMMAND_TOOL
from adh.rules.yaml_tree import Items, Keyed, Node

CHECKS = (
    "backup",
    "disk_space",
    "permission",
    "size_limit",
    "sensitive_data",
    "command_validator",
    "sandbox",
    "url_validator",
    "confirmation_double",
)
HIGHEST_PRIORITY = 1000

_FIELDS = (
    "pattern",
    "conditions",
    "supervision",
    "risk",
    "safety_checks",
    "restrictions",
    "priority",
    "enabled",
)
_LISTS = ("command_matches", "command_starts_with", "without_words", "path_matches")
_FLAGS = ("read_only", "fork_bomb")
_ABOUT_COMMANDS = frozenset(
    ("command_matches", "command_starts_with", "without_words", "read_only", "fork_bomb")
)
LEVELS = {level.word: level for level in Level}
RISKS = {risk.word: risk for risk in Risk}

Value = TypeVar("Value")


def read_rules(reader: FieldReader, root: Node, *, built_in: bool) -> Iterator[Rule]:
    """Yield the rules of a file. What is wrong with one is reported, and then it must not be used.

    Args:
        reader: reports the problems.
        root: the tree of the file.
        built_in: whether the file comes with the application.
    """
    for category, (_, rules) in reader.read_mapping(root, "").items():
        for name, (place, body) in reader.read_mapping(rules, category).items():
            origin = RuleOrigin(category, name, reader.file, place.line)
            yield _read_rule(reader, body, origin, built_in=built_in)


def _read_rule(reader: FieldReader, node: Node, origin: RuleOrigin, *, built_in: bool) -> Rule:
    key = join_keys(origin.category, origin.name)
    fields = reader.read_known(node, key, _FIELDS)
    if isinstance(node, Keyed):
        for name in ("pattern", "supervision", "risk"):
            if name not in fields:
                reader.report(node, key, f"{name} is missing", f"write {name} below it")
    level = _read_word(reader, fields, key, "supervision", LEVELS)
    risk = _read_word(reader, fields, key, "risk", RISKS)
    rule = Rule(
        origin=origin,
        pattern=_read_pattern(reader, fields, key),
        conditions=_read_conditions(reader, fields.get("conditions"), join_keys(key, "conditions")),
        level=Level.DENY if level is None else level,
        risk=Risk.CRITICAL if risk is None else risk,
        priority=_read_priority(reader, fields.get("priority"), join_keys(key, "priority")),
        checks=_read_checks(reader, fields.get("safety_checks"), join_keys(key, "safety_checks")),
        restrictions=_read_restrictions(reader, fields, key),
        enabled=_read_enabled(reader, fields, key),
        built_in=built_in,
    )
    _report_commands_of_other_tools(reader, fields, key, rule)
    return rule


def _read_word(
    reader: FieldReader, fields: dict[str, Node], key: str, name: str, known: dict[str, Value]
) -> Value | None:
    return reader.read_word(fields[name], join_keys(key, name), known) if name in fields else None


def _read_pattern(reader: FieldReader, fields: dict[str, Node], key: str) -> tuple[str, ...]:
    if "pattern" not in fields:
        return ()
    return reader.read_texts(fields["pattern"], join_keys(key, "pattern"))


def _read_restrictions(
    reader: FieldReader, fields: dict[str, Node], key: str
) -> tuple[Restriction, ...]:
    if "restrictions" not in fields:
        return ()
    return read_restrictions(reader, fields["restrictions"], join_keys(key, "restrictions"))


def _read_enabled(reader: FieldReader, fields: dict[str, Node], key: str) -> bool:
    if "enabled" not in fields:
        return True
    return reader.read_flag(fields["enabled"], join_keys(key, "enabled"), True)


def _read_priority(reader: FieldReader, node: Node | None, key: str) -> int:
    if node is None:
        return 0
    return reader.read_whole(node, key, 0, HIGHEST_PRIORITY) or 0


def _read_checks(reader: FieldReader, node: Node | None, key: str) -> tuple[str, ...]:
    if node is None or (isinstance(node, Items) and not node.nodes):
        return ()
    nodes = node.nodes if isinstance(node, Items) else (node,)
    known = {name: name for name in CHECKS}
    found = [reader.read_word(item, f"{key}[{at}]", known) for at, item in enumerate(nodes)]
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _read_conditions(reader: FieldReader, node: Node | None, key: str) -> Conditions:
    if node is None:
        return Conditions()
    fields = reader.read_known(node, key, (*_LISTS, *_FLAGS))
    reader.report_empty(node, key)
    lists = {
        name: reader.read_texts(fields[name], join_keys(key, name))
        for name in _LISTS
        if name in fields
    }
    flags = {
        name: reader.read_flag(fields[name], join_keys(key, name), True)
        for name in _FLAGS
        if name in fields
    }
    paths = lists.get("path_matches", ())
    if paths and all(path.startswith("!") for path in paths):
        fix = "add a pattern without !"
        reader.report(fields["path_matches"], join_keys(key, "path_matches"), "fits nothing", fix)
    return Conditions(
        command_matches=lists.get("command_matches", ()),
        command_starts_with=lists.get("command_starts_with", ()),
        without_words=lists.get("without_words", ()),
        path_matches=paths,
        read_only=flags.get("read_only"),
        fork_bomb=flags.get("fork_bomb"),
    )


def _report_commands_of_other_tools(
    reader: FieldReader, fields: dict[str, Node], key: str, rule: Rule
) -> None:
    conditions = rule.conditions
    asked = any(getattr(conditions, name) not in ((), None) for name in _ABOUT_COMMANDS)
    if asked and rule.pattern and not rule.matches_tool(COMMAND_TOOL):
        problem = f"asks for a command, but the pattern does not fit {COMMAND_TOOL}"
        place = join_keys(key, "conditions")
        reader.report(fields["conditions"], place, problem, f"write pattern: {COMMAND_TOOL}")
