"""Puts skills into the instructions: the index always, and those that the model opened.

Which skills are open is a fold over the events of the turn: a skill is open when the result of its
`open_skill` call is a fact. So two runs never see each other's, and a run that is taken up after a
crash has what it had. This module must never read a file.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.argument_checks import check_instance
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ToolFinished, TurnClosed
from holdfast.middleware.decisions import Patch, Replace
from holdfast.middleware.hook_contexts import AfterTool, BeforeIteration
from holdfast.middleware.hooks import Middleware
from holdfast.skills.skill import Skill
from holdfast.skills.wording import (
    OPEN_TOOL,
    OPENED_TEXT,
    index_text,
    protocols_text,
    skill_heading,
)

OpenSkills = frozenset[str]
"""The names of the skills that are open in a turn."""


class SkillInstructions(Middleware[OpenSkills]):
    """Adds the list of skills, and the text of open skills, to the instructions.

    A skill that is opened in one iteration is seen from the next one on, and closed when the turn
    ends. `Skills` makes this together with the tools that it needs.

    Args:
        skills: with names of their own.

    Raises:
        ConfigurationError: two skills have one name, or there is none.
    """

    tools = (OPEN_TOOL,)
    events = (ToolFinished, TurnClosed)

    def __init__(self, skills: Iterable[Skill]) -> None:
        if not isinstance(skills, Iterable):
            raise ConfigurationError("skills", f"must be a list, got {type(skills).__name__}")
        found = tuple(skills)
        for index, one in enumerate(found):
            check_instance(f"skills[{index}]", one, Skill)
        check_names(found)
        self._skills = {one.name: one for one in found}
        self._index = index_text(found)
        self._names_by_text = {OPENED_TEXT.format(name=one.name): one.name for one in found}
        self._texts_by_heading = {
            skill_heading(one): OPENED_TEXT.format(name=one.name) for one in found
        }

    @property
    def initial(self) -> OpenSkills:
        """No skill is open."""
        return frozenset()

    def describe(self) -> dict[str, object]:
        """The names of the skills."""
        return {"skills": " ".join(sorted(self._skills))}

    def fold(self, state: OpenSkills, event: Event) -> OpenSkills:
        """Remember what was opened, until the turn is over."""
        if isinstance(event, TurnClosed):
            return frozenset()
        if isinstance(event, ToolFinished) and event.result.name == OPEN_TOOL:
            name = self._names_by_text.get(event.result.text)
            if name is not None and not event.result.is_error:
                return state | {name}
        return state

    async def before_iteration(self, context: BeforeIteration) -> Patch | None:
        """Append the index and the open skills to the instructions, unless they stand there."""
        opened = [self._skills[name] for name in context.state_of(self)]
        wanted = (self._index, protocols_text(opened))
        missing = [block for block in wanted if block and block not in context.instructions]
        if not missing:
            return None
        given = context.instructions.rstrip()
        return Patch(instructions="\n\n".join([given, *missing] if given else missing))

    async def after_tool(self, context: AfterTool) -> Replace | None:
        """Keep the instructions out of the history: they are shown once, in their own place."""
        # By its first line: a long result may have been cut.
        said = self._texts_by_heading.get(context.result.text.partition("\n")[0])
        return Replace(said) if said is not None and not context.result.is_error else None


def check_names(skills: tuple[Skill, ...]) -> None:
    """Raise ConfigurationError when there is no skill, or two have one name; it names both."""
    if not skills:
        raise ConfigurationError("skills", "there is none", fix="Give a folder with skills")
    seen: dict[str, Skill] = {}
    for one in skills:
        if (other := seen.get(one.name)) is not None:
            raise ConfigurationError(
                "skills",
                f"two are named {one.name!r} ({other.folder} and {one.folder})",
                fix="Rename one, or leave it out",
            )
        seen[one.name] = one
