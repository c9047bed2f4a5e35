"""The decision of the rules about a call."""

from __future__ import annotations

from msgspec import Struct

from adh.rules.levels import Level, Risk


class RuleOrigin(Struct, frozen=True):
    """Where a rule stands.

    Args:
        category: the first key of its file.
        name: its own key.
        file: its file; those of the application begin with "built-in/".
        line: the line of its key, from 1; 0 if it stands in no file.
    """

    category: str
    name: str
    file: str
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.category}.{self.name} ({place})"


class Violation(Struct, frozen=True):
    """A restriction that the call breaks: the call does not run.

    Args:
        restriction: its name, such as "size_limit".
        reason: the problem, in a sentence for the person and the model.
    """

    restriction: str
    reason: str


class PartDecision(Struct, frozen=True):
    """The decision about one simple command of a line.

    Args:
        text: the command.
        level: its supervision.
        risk: its risk.
        rule: the rule that decided; None if none matched.
        reason: why it is stricter than its rule says; empty if it is not.
    """

    text: str
    level: Level
    risk: Risk
    rule: RuleOrigin | None = None
    reason: str = ""


class Decision(Struct, frozen=True, kw_only=True):
    """The decision about a call: the strictest of all its parts.

    Args:
        level: its supervision.
        risk: its risk.
        rule: the rule that decided; None if none matched.
        reason: why the level is stricter than the rule says, which fact asks for it too, or why it is
            denied; may be empty.
        checks: the names of the safety checks that must pass, in order.
        restrictions: the restrictions that hold, in words for the person.
        violations: the restrictions that the call breaks. With any, the level is deny.
        parts: the decision about each simple command.
        softened: whether a preference or the safety switch made it freer than its rule.
        max_bytes: the smallest size in bytes that a size_limit allows; None without one. A size that only
            the disk knows, such as that of a file to read, is compared with it before the call.
    """

    level: Level
    risk: Risk
    rule: RuleOrigin | None = None
    reason: str = ""
    checks: tuple[str, ...] = ()
    restrictions: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    parts: tuple[PartDecision, ...] = ()
    softened: bool = False
    max_bytes: int | None = None
