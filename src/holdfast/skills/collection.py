"""Skills: a collection of skills, with the tools and the middleware that an agent needs for them.

A collection never changes after construction, so any number of agents and runs may share it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ConfigurationError
from holdfast.middleware.hook_contexts import HookContext
from holdfast.skills.documents import read_document
from holdfast.skills.files import UnreadableFileError
from holdfast.skills.find import find_skills
from holdfast.skills.middleware import ClosedSkills, SkillInstructions, check_names
from holdfast.skills.skill import Skill
from holdfast.skills.skill_limits import SkillLimits
from holdfast.skills.wording import CLOSED_TEXT, skill_block
from holdfast.tools.context import ToolContext
from holdfast.tools.toolset import Toolset

_LONGEST_QUOTE = 100


class Skills(Toolset):
    """The skills of one or more folders: a toolset for `Agent(toolsets=[skills])`.

    Args:
        folders: each contains folders with a SKILL.md, or is itself such a folder.
        limits: how large a skill may be.

    Raises:
        ConfigurationError: a skill breaks a rule, or two skills have the same name.
    """

    middleware: SkillInstructions
    """Adds the index and the instructions of the open skills to the instructions of the agent."""
    _by_name: dict[str, Skill]
    _limits: SkillLimits

    @check_arguments
    def __init__(self, *folders: str | os.PathLike[str], limits: SkillLimits | None = None) -> None:
        limits = limits or SkillLimits()
        skills = tuple(skill for folder in folders for skill in find_skills(folder, limits=limits))
        check_names(skills)
        super().__init__("skills", self.tools)
        middleware = SkillInstructions(skills)
        self.__dict__.update(
            _limits=limits,
            _by_name={skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)},
            middleware=middleware,
            middlewares=(middleware,),
        )

    @property
    def tools(self) -> tuple[Callable[..., object], ...]:
        """The tools that the model calls: `open_skill` and `read_skill_file`.

        Add `skills.close_skill` to the tools of an agent if the model should close skills too.
        """
        return (self.open_skill, self.read_skill_file)

    async def open_skill(self, name: str) -> str:
        """Open a skill: get its instructions for the rest of this turn.

        Args:
            name: The skill's name, as it is listed.
        """
        skill = self._by_name.get(name)
        return skill_block(skill) if skill is not None else self._unknown_skill_text(name)

    async def close_skill(self, name: str) -> str:
        """Close a skill when its task is done: its instructions are removed from yours.

        Args:
            name: The skill's name.
        """
        if name not in self._by_name:
            return self._unknown_skill_text(name)
        return CLOSED_TEXT.format(name=name)

    def close(self, context: HookContext | ToolContext, *names: str) -> None:
        """Close skills from a hook or a tool: the next model call is made without their instructions.

        The model may open them again. The closing is not saved, so a turn that is resumed after a
        crash has the skills open again.

        Args:
            context: the context of the hook or tool.
            names: the names of the skills; without a name, all skills are closed.

        Raises:
            ConfigurationError: there is no skill of this name.
        """
        unknown = [name for name in names if name not in self._by_name]
        if unknown:
            raise ConfigurationError(
                "names",
                f"there is no skill {unknown[0]!r}",
                fix=f"There are: {', '.join(self._by_name)}",
            )
        context.shared(ClosedSkills).names.update(names or self._by_name)

    def read_skill_file(self, name: str, path: str) -> str | bytes:
        """Read one of the documents of a skill.

        Args:
            name: The skill's name.
            path: The document's path, as the skill lists it.
        """
        skill = self._by_name.get(name)
        if skill is None:
            return self._unknown_skill_text(name)
        try:
            return read_document(skill, path, self._limits.document)
        except UnreadableFileError as error:
            return f"Error: {path[:_LONGEST_QUOTE]!r} {error}. {_list_documents(skill)}"

    def _unknown_skill_text(self, name: str) -> str:
        name = name[:_LONGEST_QUOTE]
        near = get_close_matches(name, self._by_name, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"Error: there is no skill {name!r}.{hint} There are: {', '.join(self._by_name)}."

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Skills({', '.join(self._by_name)})"


def _list_documents(skill: Skill) -> str:
    if not skill.documents:
        return f"Skill {skill.name!r} has no documents."
    return f"Skill {skill.name!r} has: {', '.join(skill.documents)}."
