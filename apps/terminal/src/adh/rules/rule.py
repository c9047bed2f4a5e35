"""A rule: the calls that it is for, and its decision about them.

It must never depend on the order of its conditions: all of them must hold.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from adh.rules.decision import RuleOrigin
from adh.rules.levels import Level, Risk
from adh.rules.patterns import (
    UNKNOWN_WORD,
    defines_fork_bomb,
    list_word_forms,
    match_path,
    match_tool,
    match_words,
    reaches_outside,
    starts_with_words,
)
from adh.rules.restrictions import Restriction
from adh.rules.subject import Subject


class Conditions(Struct, frozen=True, kw_only=True):
    """The conditions of a rule; an empty one holds always.

    Args:
        command_matches: one of these patterns fits the words of the simple command.
        command_starts_with: the simple command begins with the words of one of these.
        without_words: no word after the program fits one of these patterns.
        path_matches: the path fits one of these patterns, and none that begins with `!`.
        read_only: whether the command is known to change nothing; None for both.
        fork_bomb: whether the line defines a function that starts itself twice; None for both.
    """

    command_matches: tuple[str, ...] = ()
    command_starts_with: tuple[str, ...] = ()
    without_words: tuple[str, ...] = ()
    path_matches: tuple[str, ...] = ()
    read_only: bool | None = None
    fork_bomb: bool | None = None


class Rule(Struct, frozen=True, kw_only=True):
    """A rule of a file.

    Args:
        origin: where it stands.
        pattern: patterns of names of tools; one must fit.
        conditions: the further conditions.
        level: its supervision.
        risk: its risk.
        priority: the highest of the matching rules decides.
        checks: safety checks that must pass, by name.
        restrictions: the limits that the call must keep.
        enabled: whether it counts at all.
        built_in: whether it comes with the application.
        replaces: the built-in rule that it stands for; None for none.
    """

    origin: RuleOrigin
    pattern: tuple[str, ...]
    level: Level
    risk: Risk
    conditions: Conditions = Conditions()
    priority: int = 0
    checks: tuple[str, ...] = ()
    restrictions: tuple[Restriction, ...] = ()
    enabled: bool = True
    built_in: bool = False
    replaces: RuleOrigin | None = None

    @property
    def key(self) -> str:
        """Its category and name."""
        return f"{self.origin.category}.{self.origin.name}"

    def matches_tool(self, tool: str) -> bool:
        """Return whether its pattern fits the name of a tool."""
        return any(match_tool(pattern, tool) for pattern in self.pattern)

    def find_mismatch(self, subject: Subject) -> str:
        """Return why it does not match, such as "path_matches"; empty if it matches."""
        if not self.enabled:
            return "disabled"
        if not self.matches_tool(subject.tool):
            return "pattern"
        if subject.scope == "path_rules" and not self.conditions.path_matches:
            return "no path_matches"
        conditions = self.conditions
        if conditions.path_matches and not self._fits_path(subject):
            return "path_matches"
        if conditions.fork_bomb is not None and (
            defines_fork_bomb(subject.line) is not conditions.fork_bomb
        ):
            return "fork_bomb"
        return self._find_command_mismatch(subject)

    @property
    def strict(self) -> bool:
        """Whether it asks or denies, so that no other form of a path or a program may evade it."""
        return self.level >= Level.CONFIRM

    def frees_path(self, subject: Subject) -> bool:
        """Return whether it names a place outside of the project that holds the path."""
        return any(
            reaches_outside(pattern) and self._fits_pattern(pattern, subject, strict=False)
            for pattern in self.conditions.path_matches
        )

    def _fits_path(self, subject: Subject) -> bool:
        patterns = self.conditions.path_matches
        excluded = [one[1:] for one in patterns if one.startswith("!")]
        if any(self._fits_pattern(pattern, subject, strict=False) for pattern in excluded):
            return False
        included = [one for one in patterns if not one.startswith("!")]
        return any(self._fits_pattern(one, subject, strict=self.strict) for one in included)

    @staticmethod
    def _fits_pattern(pattern: str, subject: Subject, *, strict: bool) -> bool:
        facts = subject.facts
        forms = subject.list_path_forms(strict=strict)
        return any(match_path(pattern, form, facts.project, facts.home) for form in forms)

    def _find_command_mismatch(self, subject: Subject) -> str:
        conditions, command = self.conditions, subject.command
        asked = (
            conditions.command_matches or conditions.command_starts_with or conditions.without_words
        )
        if not asked and conditions.read_only is None:
            return ""
        if command is None:
            return "it needs a command"
        if conditions.read_only is not None and command.read_only is not conditions.read_only:
            return "read_only"
        forms = list_word_forms(command, strict=self.strict)
        if conditions.command_matches and not any(
            match_words(pattern, words) for pattern in conditions.command_matches for words in forms
        ):
            return "command_matches"
        if conditions.command_starts_with and not any(
            starts_with_words(one, words, strict=self.strict)
            for one in conditions.command_starts_with
            for words in forms
        ):
            return "command_starts_with"
        if any(
            fnmatchcase(word, pattern)
            for pattern in conditions.without_words
            for word in forms[0][1:]
            if word != UNKNOWN_WORD
        ):
            return "without_words"
        return ""
