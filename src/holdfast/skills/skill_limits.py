"""The limits of a skill's size, as data. This module must never open a file."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveInt


class SkillLimits(Struct, frozen=True, kw_only=True):
    """The limits of one skill. A larger skill or document is refused, never cut.

    Args:
        front_matter: the characters between the two lines of dashes.
        instructions: the bytes of the whole SKILL.md.
        document: the bytes of one file that the model reads.
        documents: the number of files beside SKILL.md; the model sees their names while the skill is
            open.

    >>> SkillLimits(document=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limits.document: must be at least 1, got 0
    """

    front_matter: PositiveInt = 16_000
    instructions: PositiveInt = 100_000
    document: PositiveInt = 100_000
    documents: PositiveInt = 200

    def __post_init__(self) -> None:
        check_fields(self, "limits.")
