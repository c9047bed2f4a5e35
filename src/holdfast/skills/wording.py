"""The texts for the model about skills: the index, and the block of those that are open.

The text must never depend on anything but the skills.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.skills.skill import Skill

OPEN_TOOL = "open_skill"
READ_TOOL = "read_skill_file"
CLOSE_TOOL = "close_skill"

INDEX_HEAD = (
    "# Skills\n\n"
    "A skill is a set of instructions for one kind of task. When a task fits one of these, call "
    f"{OPEN_TOOL} with its name before you begin; then follow it."
)
PROTOCOLS_HEAD = "🔧 ACTIVE SKILL PROTOCOLS (Execute ALL steps completely)"
OPENED_TEXT = (
    "Skill '{name}' is open. Its instructions now stand in your own instructions, until the end of "
    "this turn."
)

CLOSED_TEXT = "Skill '{name}' is closed. Its instructions no longer stand in your own instructions."


def index_text(skills: Iterable[Skill]) -> str:
    """Return the index: the names and descriptions of all skills, sorted by name."""
    lines = [f"- {skill.name}: {skill.description}" for skill in _sort_by_name(skills)]
    return "\n".join([INDEX_HEAD, "", *lines])


def protocols_text(skills: Iterable[Skill]) -> str:
    """Return the instructions of the open skills, sorted by name; "" when none is open."""
    blocks = [skill_block(skill) for skill in _sort_by_name(skills)]
    return "\n\n".join([PROTOCOLS_HEAD, *blocks]) if blocks else ""


def skill_block(skill: Skill) -> str:
    """Return the text of one skill: its heading, its tools, its instructions and its documents."""
    parts = [skill_heading(skill)]
    if skill.allowed_tools:
        parts.append(f"**Available functions:** {', '.join(skill.allowed_tools)}")
    parts.append(skill.instructions)
    if skill.documents:
        lines = [f"- {path}" for path in skill.documents]
        head = f'📚 **Available Documents:** (read them with {READ_TOOL}("{skill.name}", path))'
        parts.append("\n".join([head, *lines]))
    return "\n\n".join(part for part in parts if part)


def skill_heading(skill: Skill) -> str:
    """Return the first line of a skill's text.

    >>> from pathlib import Path
    >>> skill_heading(Skill(name="pdf", description="PDFs.", folder=Path(), instructions=""))
    '## pdf:'
    """
    return f"## {skill.name}:"


def _sort_by_name(skills: Iterable[Skill]) -> list[Skill]:
    return sorted(skills, key=lambda skill: skill.name)
