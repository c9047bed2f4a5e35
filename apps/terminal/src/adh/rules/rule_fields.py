"""Reading rules and their restrictions from the tree of a file.

It must never ignore a key or leave out a restriction: a typing mistake in a rule that denies would free the
calls that it denies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import time
from typing import TypeVar

from adh.rules.decision import RuleOrigin
from adh.rules.fields import FieldReader, join_keys
from adh.rules.levels import Level, Risk
from adh.rules.restrictions import (
    DAYS,
    RESTRICTIONS,
    ParameterFilter,
    PathPattern,
    RateLimit,
    Restriction,
    SizeLimit,
    TimeWindow,
    UrlScheme,
)
from adh.rules.rule import Conditions, Rule
from adh.rules.subject import COMMAND_TOOL
from adh.rules.yaml_tree import Items, Keyed, Node, Scalar

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
    """Yield the rules of a file. A problem of a rule is reported, and then the rule must not be used.

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


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20}
_UNITS["GIB"] = 2**30
_SIZE = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)", re.ASCII)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_LONGEST_PERIOD = 7 * 24 * 3600

_Read = Callable[[FieldReader, Node, str], Restriction | None]


def read_restrictions(reader: FieldReader, node: Node, key: str) -> tuple[Restriction, ...]:
    """Return the restrictions below a key `restrictions`; problems are reported."""
    known = reader.read_known(node, key, RESTRICTIONS)
    reader.report_empty(node, key)
    found = [_READERS[name](reader, value, join_keys(key, name)) for name, value in known.items()]
    return tuple(restriction for restriction in found if restriction is not None)


def _read_path_pattern(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    lists = _read_lists(reader, node, key, ("allow", "deny"))
    reader.report_empty(node, key)
    return PathPattern(allow=lists.get("allow", ()), deny=lists.get("deny", ()))


def _read_size_limit(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    match = _SIZE.fullmatch(node.text) if isinstance(node, Scalar) else None
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        reader.report(node, key, "not a size", "write a number of bytes, or such as 10 MB or 4 KiB")
        return None
    return SizeLimit(int(match[1]) * unit)


def _read_url_scheme(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    lists = _read_lists(reader, node, key, ("schemes", "private"))
    _require(reader, node, key, lists, ("schemes",))
    schemes = tuple(scheme.lower() for scheme in lists.get("schemes", ()))
    return UrlScheme(schemes, tuple(host.lower() for host in lists.get("private", ())))


def _read_rate_limit(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    fields = reader.read_known(node, key, ("calls", "seconds"))
    _require(reader, node, key, fields, ("calls", "seconds"))
    if len(fields) < 2:
        return None
    calls = reader.read_whole(fields["calls"], join_keys(key, "calls"), 1, 1_000_000)
    seconds = reader.read_whole(fields["seconds"], join_keys(key, "seconds"), 1, _LONGEST_PERIOD)
    return None if calls is None or seconds is None else RateLimit(calls, seconds)


def _read_time_window(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    fields = reader.read_known(node, key, ("from", "to", "days"))
    _require(reader, node, key, fields, ("from", "to"))
    begins = (
        _read_time(reader, fields["from"], join_keys(key, "from")) if "from" in fields else None
    )
    ends = _read_time(reader, fields["to"], join_keys(key, "to")) if "to" in fields else None
    days = _read_days(reader, fields["days"], join_keys(key, "days")) if "days" in fields else DAYS
    if begins is None or ends is None:
        return None
    if begins == ends:
        fix = "write two different times, or remove the window"
        reader.report(node, key, "begins and ends at the same time", fix)
    return TimeWindow(begins, ends, days)


def _read_time(reader: FieldReader, node: Node, key: str) -> time | None:
    match = _TIME.fullmatch(node.text) if isinstance(node, Scalar) else None
    if match is None:
        reader.report(node, key, "not a time", 'write it with four digits, such as "09:30"')
        return None
    return time(int(match[1]), int(match[2]))


def _read_days(reader: FieldReader, node: Node, key: str) -> tuple[str, ...]:
    nodes = node.nodes if isinstance(node, Items) else (node,)
    words = {day: day for day in DAYS}
    found = [reader.read_word(day, f"{key}[{at}]", words) for at, day in enumerate(nodes)]
    if not found:
        reader.report(node, key, "an empty list", "name at least one day, or remove the key")
    return tuple(day for day in found if day is not None)


def _read_parameter_filter(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    fields = reader.read_known(node, key, ("allow", "deny"))
    reader.report_empty(node, key)
    for name, inner in fields.items():
        reader.report_empty(inner, join_keys(key, name))
    filters = {
        name: {
            parameter: reader.read_texts(value, join_keys(key, name, parameter))
            for parameter, (_, value) in reader.read_mapping(inner, join_keys(key, name)).items()
        }
        for name, inner in fields.items()
    }
    return ParameterFilter(allow=filters.get("allow", {}), deny=filters.get("deny", {}))


def _read_lists(
    reader: FieldReader, node: Node, key: str, known: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    fields = reader.read_known(node, key, known)
    return {name: reader.read_texts(value, join_keys(key, name)) for name, value in fields.items()}


def _require(
    reader: FieldReader, node: Node, key: str, fields: Mapping[str, object], names: tuple[str, ...]
) -> None:
    for name in names:
        if isinstance(node, Keyed) and name not in fields:
            reader.report(node, key, f"{name} is missing", f"write {name} below it")


_READERS: Mapping[str, _Read] = {
    "path_pattern": _read_path_pattern,
    "size_limit": _read_size_limit,
    "url_scheme": _read_url_scheme,
    "rate_limit": _read_rate_limit,
    "time_window": _read_time_window,
    "parameter_filter": _read_parameter_filter,
}
