"""How large a skill may be, as data. This module must never open a file."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.limits import check_whole


class SkillLimits(Struct, frozen=True, kw_only=True):
    """Limits of one skill; a larger skill is refused, never cut.

    Args:
        front_matter: characters between the two lines of dashes.
        instructions: bytes of the whole SKILL.md.
        document: bytes of one file that the model reads.
        documents: files beside SKILL.md; their names are shown while the skill is open.

    >>> SkillLimits(document=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limits.document: must be at least 1, got 0
    """

    front_matter: int = 16_000
    instructions: int = 100_000
    document: int = 100_000
    documents: int = 200

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_whole(f"limits.{name}", getattr(self, name), at_least=1)
