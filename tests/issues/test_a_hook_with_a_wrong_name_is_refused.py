"""A hook whose name was misspelt was never called, and nobody was told.

A middleware with `before_iteraton`, or with the `before_model` of another framework, was taken as one
without hooks. A check that somebody relied on was not made.
"""

import pytest

from holdfast import Agent, ConfigurationError, Middleware
from holdfast.middleware.hook_contexts import BeforeIteration
from holdfast.testing import ScriptedModel


class Misspelt(Middleware):
    async def before_iteraton(self, moment: BeforeIteration) -> None: ...


class Foreign(Middleware):
    def wrap_model_call(self, request: object) -> None: ...


class Unlike(Middleware):
    async def after_everything(self) -> None: ...


class Helped(Middleware):
    before = ()
    after_how_many = 3

    def _before_all(self) -> None: ...

    def reset(self) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "problem", "fix"),
    [
        (Misspelt(), "Misspelt.before_iteraton is not a hook", "Did you mean before_iteration"),
        (Foreign(), "Foreign.wrap_model_call is not a hook", "Did you mean wrap_model"),
        (
            Unlike(),
            "Unlike.after_everything is not a hook",
            "Did you mean after_iteration? A method that is not a hook needs another name",
        ),
    ],
)
def test_it_is_told_when_the_agent_is_made(wrong: Middleware, problem: str, fix: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent(ScriptedModel(), middleware=[wrong])
    assert raised.value.problem == problem
    assert fix in raised.value.fix


def test_other_methods_and_settings_may_have_any_name() -> None:
    Agent(ScriptedModel(), middleware=[Helped()])
