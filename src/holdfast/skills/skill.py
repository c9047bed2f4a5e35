"""One skill, as it was read from its folder. It must never change once it is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Header(Struct, frozen=True, kw_only=True):
    """What the front matter of a SKILL.md says.

    Args:
        name: as the model calls it; the name of its folder.
        description: what it is for; the model chooses by it.
        license: under which its writer gives it, or "".
        compatibility: what it needs around it, or "".
        metadata: whatever its writer noted.
        allowed_tools: the tools that it works with. They are shown, and nothing is granted by it.
    """

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = {}
    allowed_tools: tuple[str, ...] = ()


class Skill(Header, frozen=True, kw_only=True):
    """A skill: its header, its instructions, and the files that the model may read.

    Args:
        folder: where it lies, without links.
        instructions: what stands below the front matter.
        documents: the other files of the folder, by their paths in it.
    """

    folder: Path
    instructions: str
    documents: tuple[str, ...] = ()
