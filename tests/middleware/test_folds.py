"""Folds: which events they receive, and that an impure fold is detected."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, Middleware, tool
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import Event, ModelReplied, ToolFinished, TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.middleware import error_handling_middlewares
from holdfast.middleware.chain import compile_chain
from holdfast.middleware.history_reduction import HistoryReduction
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


async def test_a_middleware_that_names_no_event_has_no_fold() -> None:
    class Never(Seen):
        events = ()

        async def after_turn(self, context: Any) -> None:
            assert id(self) not in context.facts.states

    await agent(Never()).run("go")


async def test_the_own_fold_of_a_subclass_is_called_even_if_the_base_class_needs_no_event() -> None:
    class Own(HistoryReduction):
        seen = 0

        def fold(self, state: Any, event: Event) -> Any:
            type(self).seen += 1
            return state

    assert id(HistoryReduction()) not in compile_chain([HistoryReduction()]).fold_table.keys
    await agent(Own()).run("go")
    assert Own.seen > 5


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
