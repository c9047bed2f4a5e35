"""The pattern rules of `ToolPermission`: which calls they match, and which permission they give.

Rules judge the validated arguments. This module must never ask anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import NonEmptyText
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import PermissionQuestion
from holdfast.middleware.hook_contexts import BeforeTool
from holdfast.middleware.permission_memory import argument_text
from holdfast.middleware.permission_source import Permission, Ruling

RULE_TEXT = "Execution of '{tool}' was denied by a rule."
DEFAULT_TEXT = "Execution of '{tool}' was denied: no rule allows it."

_MOST_TOOLS = 256
_ALLOW, _ASK = Ruling(permission="allow"), Ruling(permission="ask")


class Rule(Struct, frozen=True):
    """Matches calls by a pattern of the tool's name and by patterns of the arguments.

    Args:
        tool: a name, or a pattern with `*` and `?`, such as "read_*".
        arguments: patterns for arguments, by the names of the parameters; each must be present and
            match. They apply to the validated arguments with defaults, so `"yes"` for a boolean is
            `true`. A value that is not text is compared by its JSON form.

    >>> Rule("send", {"to": "*@example.org"}).matches("send", {"to": "ann@example.org"})
    True
    """

    tool: NonEmptyText
    arguments: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        check_fields(self)

    def matches(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the rule applies to this call."""
        return fnmatchcase(tool, self.tool) and all(
            name in arguments and _is_like(arguments[name], pattern)
            for name, pattern in self.arguments.items()
        )

    def covers(self, other: Rule) -> bool:
        """Whether it applies to every call that `other` applies to, as far as patterns can show."""
        return fnmatchcase(other.tool, self.tool) and all(
            name in other.arguments and fnmatchcase(other.arguments[name], pattern)
            for name, pattern in self.arguments.items()
        )

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={pattern}" for name, pattern in self.arguments.items())
        return f"{self.tool}({arguments})" if arguments else self.tool


Rules: TypeAlias = Iterable[NonEmptyText | Rule]


class RuleTable:
    """A source of rulings: patterns of calls. The strictest rule that matches a call wins.

    Args:
        deny: calls that never run.
        ask: calls that run when a person approves them.
        allow: calls that run.
        default: the ruling about all other calls.
    """

    __slots__ = ("_by_tool", "default", "rules")

    def __init__(
        self,
        deny: tuple[Rule, ...] = (),
        ask: tuple[Rule, ...] = (),
        allow: tuple[Rule, ...] = (),
        default: Permission = "deny",
    ) -> None:
        self.default = default
        self.rules: Mapping[Permission, tuple[Rule, ...]] = {
            "deny": deny,
            "ask": ask,
            "allow": allow,
        }
        self._by_tool: dict[str, tuple[tuple[Permission, Rule], ...]] = {}

    async def judge(self, context: BeforeTool, answered: PermissionQuestion | None) -> Ruling:
        """Return the ruling for a call. A call that a person approved is not asked about again."""
        tool = context.tool
        by_rule = self.find_permission(tool, context.arguments or {})
        permission = by_rule or self.default
        if permission == "deny":
            text = RULE_TEXT if by_rule else DEFAULT_TEXT
            return Ruling(permission="deny", reason=text.format(tool=tool))
        return _ASK if permission == "ask" and answered is None else _ALLOW

    def describe(self) -> Mapping[str, object]:
        """Return the rules as texts, and the default."""
        texts: dict[str, object] = {
            permission: " ".join(map(str, rules))
            for permission, rules in self.rules.items()
            if rules
        }
        return {**texts, "default": self.default}

    def for_subagent(self, *, has_own_rules: bool) -> RuleTable | None:
        """Return the rules that hold for the tools of a subagent; None when there are none.

        Args:
            has_own_rules: whether the subagent has rules of its own; then only denials hold.
        """
        deny, ask, allow = (self.rules[one] for one in ("deny", "ask", "allow"))
        if has_own_rules:
            ask = allow = ()
        table = type(self)(deny, ask, allow, "allow")
        return table if any(table.rules.values()) else None

    def find_permission(self, tool: str, arguments: Mapping[str, object]) -> Permission | None:
        """Return the ruling about a call; None when no rule matches it."""
        for permission, rule in self._rules_for(tool):
            if not rule.arguments or rule.matches(tool, arguments):
                return permission
        return None

    def _rules_for(self, tool: str) -> tuple[tuple[Permission, Rule], ...]:
        """Return the rules that match the tool's name, the strictest first."""
        found = self._by_tool.get(tool)
        if found is None:
            found = tuple(
                (permission, rule)
                for permission, rules in self.rules.items()
                for rule in rules
                if fnmatchcase(tool, rule.tool)
            )
            if len(self._by_tool) < _MOST_TOOLS:  # a model may invent any number of names
                self._by_tool[tool] = found
        return found


def _is_like(value: object, pattern: str) -> bool:
    """Whether a value matches the pattern; a whole number matches as 5 and as 5.0."""
    if isinstance(value, float) and value.is_integer() and fnmatchcase(str(int(value)), pattern):
        return True
    return fnmatchcase(argument_text(value), pattern)


def parse_rules(argument: str, rules: Rules) -> tuple[Rule, ...]:
    """Return the rules of one argument of `ToolPermission`. Raises ConfigurationError."""
    given = tuple(rules)
    check_value(argument, given, tuple[NonEmptyText | Rule, ...])
    return tuple(Rule(rule) if isinstance(rule, str) else rule for rule in given)


def check_contradictions(rules: Mapping[Permission, tuple[Rule, ...]]) -> None:
    """Raise ConfigurationError for a rule that a stricter rule always overrules."""
    strictness: tuple[Permission, ...] = ("deny", "ask", "allow")
    for index, strict in enumerate(strictness):
        for loose in strictness[index + 1 :]:
            for rule in rules[strict]:
                for other in rules[loose]:
                    if rule.covers(other):
                        raise ConfigurationError(
                            loose,
                            f'"{other}" contradicts {strict} "{rule}", which always overrules it',
                            fix=f'Remove one of them, or use default="{strict}" for all others',
                        )
