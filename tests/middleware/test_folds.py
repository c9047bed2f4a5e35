"""Folds: which events they receive, and that an impure fold is detected."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, Middleware, tool
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import Event, ModelReplied, ToolFinished, TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.middleware import error_handling_middlewares
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.middleware.usage_limits import UsageLimits
from holdfast.testing import ScriptedModel, folding_twice


@tool(effect="read")
def look() -> str:
    """Look."""
    return "nothing"


def agent(*middlewares: Middleware[Any], **keywords: Any) -> Agent[str]:
    model = ScriptedModel(ToolCall("1", "look"), ToolCall("2", "look", '{"a": 1}'), "done")
    return Agent(model, tools=[look], middleware=middlewares, **keywords)


class Seen(Middleware[tuple[str, ...]]):
    events = (ToolFinished, ModelReplied)

    @property
    def initial(self) -> tuple[str, ...]:
        return ()

    def fold(self, state: tuple[str, ...], event: Event) -> tuple[str, ...]:
        return (*state, type(event).__name__)

    async def after_turn(self, context: Any) -> None:
        self.last = context.state_of(self)


async def test_a_fold_receives_the_events_that_it_names() -> None:
    seen = Seen()
    await agent(seen).run("go")
    wanted = ["ModelReplied", "ToolFinished"] * 2 + ["ModelReplied"]
    assert list(seen.last) == wanted


async def test_the_own_fold_of_a_subclass_receives_all_events() -> None:
    class All(Seen):
        def fold(self, state: tuple[str, ...], event: Event) -> tuple[str, ...]:
            return (*state, type(event).__name__)

    seen = All()
    await agent(seen).run("go")
    assert seen.last[0] == "TurnOpened"
    assert seen.last[-1] == "TurnClosed"


def test_a_wrong_kind_of_event_is_named() -> None:
    class Wrong(Middleware[None]):
        events = (ToolCall,)  # type: ignore[assignment]

        def fold(self, state: None, event: Event) -> None:
            return None

    with pytest.raises(ConfigurationError, match=r"Wrong\.events: ToolCall is not a kind of event"):
        agent(Wrong())


class InPlace(Middleware[list[str]]):
    @property
    def initial(self) -> list[str]:
        return []

    def fold(self, state: list[str], event: Event) -> list[str]:
        state.append(event.key)
        return state


class Random(Middleware[int]):
    calls = 0

    @property
    def initial(self) -> int:
        return 0

    def fold(self, state: int, event: Event) -> int:
        del event
        self.calls += 1
        return state + self.calls


@pytest.mark.parametrize(
    ("fold", "problem"),
    [(InPlace, "changes its state in place"), (Random, "gives two different states")],
)
async def test_a_fold_that_is_not_pure_is_found_and_named(fold: Any, problem: str) -> None:
    with folding_twice():
        checked = agent(fold())
    with pytest.raises(MiddlewareError, match=rf"{fold.__name__}\.fold {problem} at TurnOpened"):
        await checked.run("go")
    assert (await agent(fold()).run("go")).output == "done"


async def test_the_folds_of_all_built_ins_are_pure() -> None:
    with folding_twice():
        checked = agent(
            *error_handling_middlewares(),
            ToolPermission(ask=["look"]),
            UsageLimits(tokens=10**6, per="session"),
            on_question=_yes,
        )
    assert (await checked.run("go")).output == "done"


async def _yes(request: Any) -> object:
    return request.approve(remember="tool")


class Never(Middleware):
    """A middleware whose hooks never act."""

    def __init__(self) -> None:
        self.called = 0

    def acts(self, hook: str) -> Any:
        return hook == "after_reply"

    async def before_iteration(self, context: Any) -> None:
        self.called += 1

    async def after_reply(self, context: Any) -> None:
        self.called += 100


async def test_a_hook_that_never_acts_is_not_in_the_chain() -> None:
    never = Never()
    agent_under_test = agent(never)
    await agent_under_test.run("go")
    assert never.called == 300
    assert "before_iteration" not in agent_under_test.describe()


async def test_a_hook_that_a_subclass_overrides_ignores_the_acts_of_its_parent() -> None:
    class Always(Never):
        async def before_iteration(self, context: Any) -> None:
            self.called += 1

    always = Always()
    await agent(always).run("go")
    assert always.called == 303


async def test_a_hook_needs_both_its_own_check_and_the_condition_of_the_user() -> None:
    class Second(Never):
        def acts(self, hook: str) -> Any:
            return lambda context: context.iteration > 0

    for when, wanted in ((None, 202), (lambda context: context.iteration == 1, 101)):
        second = Second()
        given = second if when is None else second.only(when=when)
        await agent(given).run("go")
        assert given.called == wanted


async def test_an_error_of_a_check_is_an_error_of_the_hook() -> None:
    class Broken(Never):
        def acts(self, hook: str) -> Any:
            return lambda context: next(iter(()))

    with pytest.raises(MiddlewareError, match=r"raised StopIteration"):
        await agent(Broken()).run("go")


async def test_a_new_turn_resets_its_states() -> None:
    class Turns(Middleware[int]):
        events = (TurnOpened,)

        @property
        def initial(self) -> int:
            return 0

        def fold(self, state: int, event: Event) -> int:
            return state + 1

        async def before_iteration(self, context: Any) -> None:
            assert context.state_of(self) == 1

    agent_under_test = Agent(ScriptedModel("a", "b"), middleware=[Turns()])
    await agent_under_test.run("go", session="s")
    await agent_under_test.run("go", session="s")


@pytest.mark.usefixtures("pure_folds")
async def test_the_fixture_checks_the_agents_of_a_test() -> None:
    with pytest.raises(MiddlewareError, match="in place"):
        await agent(InPlace()).run("go")
