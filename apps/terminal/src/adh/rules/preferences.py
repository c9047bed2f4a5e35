"""The person's preferences: stricter levels for tools, and tools that never or always run.

A preference must never free a call that a rule denies, that is critical or that cannot be judged.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from adh.rules.decision import Decision, RuleOrigin
from adh.rules.fields import FieldReader, join_keys
from adh.rules.levels import Level, Risk
from adh.rules.patterns import match_tool
from adh.rules.rule_fields import LEVELS
from adh.rules.yaml_tree import Items, Node

_FIELDS = ("tools", "auto_approve", "never_allow")


class Preference(Struct, frozen=True):
    """A pattern of tools, and the line that it stands in.

    Args:
        pattern: names of tools, with `*`.
        origin: where it stands.
        level: for `tools`, the level that holds at least.
    """

    pattern: str
    origin: RuleOrigin
    level: Level = Level.AUTOMATIC


class Preferences(Struct, frozen=True):
    """The content of a file of preferences.

    Args:
        tools: levels that hold at least.
        auto_approve: tools whose questions are answered with yes.
        never_allow: tools that are denied.
    """

    tools: tuple[Preference, ...] = ()
    auto_approve: tuple[Preference, ...] = ()
    never_allow: tuple[Preference, ...] = ()

    def find_denial(self, tool: str) -> Preference | None:
        """Return the first of `never_allow` that fits a tool."""
        return next((one for one in self.never_allow if match_tool(one.pattern, tool)), None)

    def find_approval(self, tool: str) -> Preference | None:
        """Return the first of `auto_approve` that fits a tool."""
        return next((one for one in self.auto_approve if match_tool(one.pattern, tool)), None)

    def find_stricter(self, tool: str, level: Level) -> Preference | None:
        """Return the strictest of `tools` that fits a tool and is stricter than a level."""
        found = [one for one in self.tools if one.level > level and match_tool(one.pattern, tool)]
        return max(found, key=lambda one: one.level, default=None)


def apply_preferences(
    preferences: Preferences, tool: str, decision: Decision, floor: Level
) -> Decision:
    """Return a decision as the preferences change it.

    Args:
        preferences: the preferences.
        tool: the name of the tool.
        decision: the decision of the rules.
        floor: the level that `auto_approve` cannot go below, since facts of the call demand it.
    """
    denial = preferences.find_denial(tool)
    if denial is not None:
        reason = decision.reason or f'preferences never allow "{denial.pattern}"'
        rule = decision.rule if decision.level is Level.DENY else denial.origin
        return replace(decision, level=Level.DENY, rule=rule, reason=reason)
    approval = preferences.find_approval(tool)
    if approval and decision.level.asks and decision.risk < Risk.CRITICAL:
        level = min(decision.level, floor)
        decision = replace(decision, level=level, softened=level < decision.level)
    stricter = preferences.find_stricter(tool, decision.level)
    if stricter is None:
        return decision
    reason = f"preferences ask for {stricter.level.word}"
    return replace(decision, level=stricter.level, rule=stricter.origin, reason=reason)


def read_preferences(reader: FieldReader, root: Node) -> Preferences:
    """Return the preferences of a file; its problems are reported.

    Args:
        reader: reports the problems.
        root: the tree of the file.
    """
    fields = reader.read_known(root, "", _FIELDS)
    return Preferences(
        tools=_read_tools(reader, fields.get("tools")),
        auto_approve=_read_patterns(reader, fields, "auto_approve"),
        never_allow=_read_patterns(reader, fields, "never_allow"),
    )


def _read_tools(reader: FieldReader, node: Node | None) -> tuple[Preference, ...]:
    if node is None:
        return ()
    found: list[Preference] = []
    for name, (place, body) in reader.read_mapping(node, "tools").items():
        key = join_keys("tools", name)
        fields = reader.read_known(body, key, ("supervision",))
        if "supervision" not in fields:
            reader.report(body, key, "supervision is missing", "write supervision below it")
            continue
        level = reader.read_word(fields["supervision"], join_keys(key, "supervision"), LEVELS)
        origin = RuleOrigin("preferences", key, reader.file, place.line)
        found.append(Preference(name, origin, Level.DENY if level is None else level))
    return tuple(found)


def _read_patterns(
    reader: FieldReader, fields: dict[str, Node], key: str
) -> tuple[Preference, ...]:
    node = fields.get(key)
    if node is None or (isinstance(node, Items) and not node.nodes):
        return ()
    nodes = node.nodes if isinstance(node, Items) else (node,)
    found = [(reader.read_text(item, f"{key}[{at}]"), item.line) for at, item in enumerate(nodes)]
    return tuple(
        Preference(pattern, RuleOrigin("preferences", key, reader.file, line))
        for pattern, line in found
        if pattern
    )
