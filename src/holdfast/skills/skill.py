"""One skill, as it was read from its folder. It never changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Header(Struct, frozen=True, kw_only=True):
    """The fields of the front matter of a SKILL.md.

    Args:
        name: the name of the skill and of its folder.
        description: the purpose of the skill; the model chooses skills by it.
        license: the license, or "".
        compatibility: its requirements on the environment, or "".
        metadata: further notes of the author.
        allowed_tools: the tools that the skill uses. They are shown to the model; nothing is permitted
            by it.
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
        folder: the path of its folder, with all links resolved.
        instructions: the text below the front matter.
        documents: the paths of the other files in the folder, relative to it.
    """

    folder: Path
    instructions: str
    documents: tuple[str, ...] = ()
