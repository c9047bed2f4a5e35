"""Which hooks are called: `idle` and conditions skip hooks and never hide a failure."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, Middleware, ToolFinished, tool
from holdfast.core.errors import MiddlewareError
from holdfast.core.events import Event
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


def agent(*middlewares: Middleware[Any]) -> Agent[str]:
    model = ScriptedModel(call("look", id="1"), call("look", id="2"), "done")
    return Agent(model, tools=[look], middleware=middlewares)


class Late(Middleware[int]):
    """A middleware that is idle until a tool has run."""

    events = (ToolFinished,)

    def __init__(self) -> None:
        self.seen: list[str] = []

    @property
    def initial(self) -> int:
        return 0

    def fold(self, state: int, event: Event) -> int:
        return state + 1

    def idle(self, state: int) -> bool:
        return state == 0

    async def before_iteration(self, context: Any) -> None:
        self.seen.append(f"model {context.iteration}")

    async def before_tools(self, context: Any) -> None:
        self.seen.append(f"tools {context.iteration}")

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        self.seen.append(f"tool {context.iteration}")
        return await call_next(context)

    async def after_iteration(self, context: Any) -> None:
        self.seen.append(f"end {context.iteration} {len(context.calls)} {len(context.results)}")


SINCE_THE_FIRST_TOOL = [
    "end 0 1 1",
    "model 1",
    "tools 1",
    "tool 1",
    "end 1 1 1",
    "model 2",
    "end 2 0 0",
]


async def test_no_hook_is_called_while_its_middleware_is_idle() -> None:
    late = Late()
    assert (await agent(late).run("go")).output == "done"
    assert late.seen == SINCE_THE_FIRST_TOOL


async def test_an_idle_middleware_does_not_skip_the_hooks_of_others() -> None:
    late, other = Late(), Late()
    other.idle = lambda state: False  # type: ignore[method-assign]
    await agent(late, other).run("go")
    assert late.seen == SINCE_THE_FIRST_TOOL
    assert other.seen == ["model 0", "tools 0", "tool 0", *SINCE_THE_FIRST_TOOL]


@pytest.mark.parametrize("hook", ["before_iteration", "before_tools", "after_iteration"])
async def test_an_error_of_idle_is_an_error_of_the_hook(hook: str) -> None:
    class Broken(Middleware[int]):
        initial = 0

        def fold(self, state: int, event: Event) -> int:
            return state

        def idle(self, state: int) -> bool:
            return next(iter(()))  # a StopIteration is a failure too

    async def called(self: Any, moment: Any) -> None:
        raise AssertionError

    setattr(Broken, hook, called)
    with pytest.raises(MiddlewareError, match=rf"Broken\.{hook} raised StopIteration"):
        await agent(Broken()).run("go")


async def test_the_condition_of_the_user_is_checked_first() -> None:
    asked = []

    def when(moment: Any) -> bool:
        asked.append(moment.key)
        return True

    late = Late().only(when=when)
    await agent(late).run("go")
    assert late.seen == SINCE_THE_FIRST_TOOL
    assert asked[:4] == ["t1.i0.model", "t1.i0.begun", "t1.i0.tool.0", "t1.i0.model"]


async def test_a_hook_that_a_subclass_overrides_ignores_the_idle_of_its_parent() -> None:
    class Early(Late):
        async def before_iteration(self, context: Any) -> None:
            await super().before_iteration(context)

    early = Early()
    await agent(early).run("go")
    assert early.seen == ["model 0", *SINCE_THE_FIRST_TOOL]


@pytest.mark.parametrize("written", ["fold", "acts"])
async def test_a_subclass_with_its_own_fold_ignores_the_idle_of_its_parent(
    written: str,
) -> None:
    class Other(Late):
        pass

    setattr(Other, written, lambda self, *given: given[0] if written == "fold" else True)
    other = Other()
    await agent(other).run("go")
    assert other.seen[0] == "model 0"


async def test_idle_is_not_called_without_a_fold() -> None:
    class Plain(Middleware):
        called = 0

        def idle(self, state: None) -> bool:
            raise AssertionError

        async def before_iteration(self, context: Any) -> None:
            self.called += 1

    plain = Plain()
    await agent(plain).run("go")
    assert plain.called == 3
