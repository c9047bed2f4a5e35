"""Adds skills to the instructions: always the index, and the skills that the model opened.

Which skills are open is a fold over the events of the turn: a skill is open once the journal has the
result of its `open_skill` call, and closed again with that of `close_skill`. So runs never share open
skills, and a run that is resumed after a crash has the same open skills. A skill that the program
closes is not in the journal, so it is open again in a run that is resumed. This module must never read
a file.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ToolFinished, TurnClosed
from holdfast.middleware.decisions import Patch, Replace
from holdfast.middleware.hook_contexts import AfterTool, BeforeIteration
from holdfast.middleware.hooks import Middleware
from holdfast.skills.skill import Skill
from holdfast.skills.wording import (
    CLOSE_TOOL,
    CLOSED_TEXT,
    OPEN_TOOL,
    OPENED_TEXT,
    index_text,
    protocols_text,
    skill_heading,
)

OpenSkills = frozenset[str]
"""The names of the skills that are open in a turn."""


class ClosedSkills:
    """The names of the skills that the program has closed in a turn; its hooks and tools share it."""

    def __init__(self) -> None:
        self.names: set[str] = set()


class SkillInstructions(Middleware[OpenSkills]):
    """Shows the model the list of skills, and the instructions of those that it opened.

    The instructions of a skill are shown from the iteration after its opening until it is closed, and
    at most to the end of the turn.
    `Skills` makes this middleware together with the tools that it needs.

    Args:
        skills: the skills, with unique names.

    Raises:
        ConfigurationError: two skills have the same name, or there is no skill.
    """

    tools = (OPEN_TOOL,)
    events = (ToolFinished, TurnClosed)

    @check_arguments
    def __init__(self, skills: Iterable[Skill]) -> None:
        checked = tuple(skills)
        check_value("skills", checked, tuple[Skill, ...])
        check_names(checked)
        self._skills = {skill.name: skill for skill in checked}
        self._index = index_text(checked)
        self._names_by_text = {OPENED_TEXT.format(name=skill.name): skill.name for skill in checked}
        self._closing_texts = {CLOSED_TEXT.format(name=skill.name): skill.name for skill in checked}
        self._texts_by_heading = {
            skill_heading(skill): OPENED_TEXT.format(name=skill.name) for skill in checked
        }

    @property
    def initial(self) -> OpenSkills:
        """The state without open skills."""
        return frozenset()

    def describe(self) -> dict[str, object]:
        """The names of the skills."""
        return {"skills": " ".join(sorted(self._skills))}

    def fold(self, state: OpenSkills, event: Event) -> OpenSkills:
        """Remember the open skills until the turn is over."""
        if isinstance(event, TurnClosed):
            return frozenset()
        if isinstance(event, ToolFinished) and event.result.name == OPEN_TOOL:
            name = self._names_by_text.get(event.result.text)
            if name is not None and not event.result.is_error:
                return state | {name}
        if isinstance(event, ToolFinished) and event.result.name == CLOSE_TOOL:
            return state - {self._closing_texts.get(event.result.text, "")}
        return state

    async def before_iteration(self, context: BeforeIteration) -> Patch | None:
        """Append the index and the open skills to the instructions, unless they are already there."""
        names = context.state_of(self)
        if names:
            names -= context.shared(ClosedSkills).names
        opened = [self._skills[name] for name in names]
        blocks = (self._index, protocols_text(opened))
        missing = [block for block in blocks if block and block not in context.instructions]
        if not missing:
            return None
        given = context.instructions.rstrip()
        return Patch(instructions="\n\n".join([given, *missing] if given else missing))

    async def after_tool(self, context: AfterTool) -> Replace | None:
        """Replace the result of `open_skill` by a short text.

        The skill's instructions are shown once, in the agent's instructions, and not in the history.
        """
        # The first line identifies the skill, since a long result may have been cut.
        text = self._texts_by_heading.get(context.result.text.partition("\n")[0])
        if text is None or context.result.is_error:
            return None
        context.shared(ClosedSkills).names.discard(self._names_by_text[text])
        return Replace(text)


def check_names(skills: tuple[Skill, ...]) -> None:
    """Raise ConfigurationError when there is no skill, or two skills have the same name."""
    if not skills:
        raise ConfigurationError("skills", "there are none", fix="Pass a folder with skills")
    by_name: dict[str, Skill] = {}
    for skill in skills:
        other = by_name.get(skill.name)
        if other is not None:
            raise ConfigurationError(
                "skills",
                f"two are named {skill.name!r} ({other.folder} and {skill.folder})",
                fix="Rename one of them, or leave it out",
            )
        by_name[skill.name] = skill
