"""Skills: folders of instructions that a model opens when a task needs them.

This package must never read a file outside of a skill's folder and must never execute anything in it.
It must never store which skills are open in a run: that is a fold over the events, and the results of hooks of
a turn close is shared by the hooks of this turn.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.skills.collection import Skills as Skills
    from holdfast.skills.middleware import SkillInstructions as SkillInstructions
    from holdfast.skills.skill import Skill as Skill
    from holdfast.skills.skill_limits import SkillLimits as SkillLimits

_HOME: dict[str, str] = {
    "Skill": "holdfast.skills.skill",
    "SkillInstructions": "holdfast.skills.middleware",
    "SkillLimits": "holdfast.skills.skill_limits",
    "Skills": "holdfast.skills.collection",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
