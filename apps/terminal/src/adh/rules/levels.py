"""How strictly a call is supervised, and how much damage it may do."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """The supervision of a call, from free to strict. The stricter of two is the greater one.

    >>> max(Level.NOTIFY, Level.parse("Confirm"))
    <Level.CONFIRM: 2>
    """

    AUTOMATIC = 0
    NOTIFY = 1
    CONFIRM = 2
    MANUAL = 3
    DENY = 4

    @classmethod
    def parse(cls, word: str) -> Level:
        """Return the level of this name, in any case. Raises KeyError."""
        return cls[word.upper()]

    @property
    def word(self) -> str:
        """Its name, as files and the screen write it."""
        return self.name.lower()

    @property
    def asks(self) -> bool:
        """Whether a person must say yes."""
        return self in (Level.CONFIRM, Level.MANUAL)


class Risk(IntEnum):
    """How much damage a call may do, from none to critical.

    >>> Risk.parse("high").icon
    '⛔'
    """

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @classmethod
    def parse(cls, word: str) -> Risk:
        """Return the risk of this name, in any case. Raises KeyError."""
        return cls[word.upper()]

    @property
    def word(self) -> str:
        """Its name, as files and the screen write it."""
        return self.name.lower()

    @property
    def icon(self) -> str:
        """Its sign on the screen."""
        return ("✅", "ℹ️", "⚠️", "⛔", "🚨")[self]  # noqa: RUF001  # REASON: a sign, not a letter
