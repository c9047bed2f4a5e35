"""Which hooks are called: `enabled` and conditions skip hooks and never hide a failure."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, Middleware, ToolFinished, tool
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import Event
from holdfast.middleware import RunFacts, Stop
from holdfast.middleware.chain import compile_chain
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.testing.emulator import call


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


def agent(*middlewares: Middleware[Any]) -> Agent[str]:
    model = ScriptedModel(call("look", id="1"), call("look", id="2"), "done")
    return Agent(model, tools=[look], middleware=middlewares)


class Late(Middleware[int]):
    """A middleware whose hooks are enabled when a tool has run."""

    events = (ToolFinished,)

    def __init__(self) -> None:
        self.seen: list[str] = []

    @property
    def initial(self) -> int:
        return 0

    def fold(self, state: int, event: Event) -> int:
        return state + 1

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        return facts.state_of(self) > 0

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


async def test_no_hook_is_called_while_it_is_not_enabled() -> None:
    late = Late()
    assert (await agent(late).run("go")).output == "done"
    assert late.seen == SINCE_THE_FIRST_TOOL


async def test_a_middleware_that_is_not_enabled_skips_no_hook_of_others() -> None:
    late, other = Late(), Late()
    other.enabled = lambda hook, facts: True  # type: ignore[method-assign]
    await agent(late, other).run("go")
    assert late.seen == SINCE_THE_FIRST_TOOL
    assert other.seen == ["model 0", "tools 0", "tool 0", *SINCE_THE_FIRST_TOOL]


HOOKS = [
    "before_turn",
    "before_iteration",
    "before_tools",
    "after_reply",
    "after_iteration",
    "after_tool",
    "after_turn",
]


@pytest.mark.parametrize("hook", HOOKS)
async def test_an_error_of_enabled_is_an_error_of_the_hook(hook: str) -> None:
    class Broken(Middleware[int]):
        initial = 0

        def fold(self, state: int, event: Event) -> int:
            return state

        def enabled(self, hook: str, facts: RunFacts) -> bool:
            return next(iter(()))  # a StopIteration is a failure too

    async def called(self: Any, moment: Any) -> None:
        raise AssertionError

    setattr(Broken, hook, called)
    with pytest.raises(MiddlewareError, match=rf"Broken\.{hook} raised StopIteration"):
        await agent(Broken()).run("go")


async def test_the_condition_of_the_user_is_checked_first() -> None:
    asked = []

    def enabled(hook: str, facts: RunFacts) -> bool:
        asked.append(hook)
        return True

    late = Late().only(enabled=enabled)
    await agent(late).run("go")
    assert late.seen == SINCE_THE_FIRST_TOOL
    assert asked[:4] == ["before_iteration", "before_tools", "wrap_tool", "after_iteration"]


async def test_a_hook_that_a_subclass_overrides_ignores_the_enabled_of_its_parent() -> None:
    class Early(Late):
        async def before_iteration(self, context: Any) -> None:
            await super().before_iteration(context)

    early = Early()
    await agent(early).run("go")
    assert early.seen == ["model 0", *SINCE_THE_FIRST_TOOL]


async def test_a_subclass_with_its_own_fold_ignores_the_enabled_of_its_parent() -> None:
    class Other(Late):
        def fold(self, state: int, event: Event) -> int:
            return state

    other = Other()
    await agent(other).run("go")
    assert other.seen[0] == "model 0"


async def test_enabled_reads_what_is_known_about_the_turn() -> None:
    class Plain(Middleware):
        called = 0

        def enabled(self, hook: str, facts: RunFacts) -> bool:
            return facts.deps == "yes" and facts.session == "s" and facts.turn == 2

        async def before_iteration(self, context: Any) -> None:
            self.called += 1

    plain = Plain()
    model = ScriptedModel("one", "two", "three", "four")
    asked = Agent(model, middleware=[plain])
    await asked.run("go", session="s", deps="yes")
    assert plain.called == 0
    await asked.run("go", session="s", deps="yes")
    assert plain.called == 1
    await asked.run("go", session="s", deps="yes")
    await asked.run("go", deps="yes")
    assert plain.called == 1


class Everywhere(Middleware):
    """Its condition is asked for every hook, and notes the iteration that it is told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        if (hook, facts.iteration) not in self.asked:
            self.asked.append((hook, facts.iteration))
        return False

    async def before_turn(self, context: Any) -> None: ...
    async def before_iteration(self, context: Any) -> None: ...
    async def wrap_model(self, context: Any, call_next: Any) -> Any: ...
    async def after_reply(self, context: Any) -> None: ...
    async def before_tools(self, context: Any) -> None: ...
    async def before_tool(self, context: Any) -> None: ...
    async def wrap_tool(self, context: Any, call_next: Any) -> Any: ...
    async def wrap_attempt(self, context: Any, call_next: Any) -> Any: ...
    async def after_tool(self, context: Any) -> None: ...
    async def after_iteration(self, context: Any) -> None: ...
    async def after_turn(self, context: Any) -> None: ...


AROUND_A_MODEL = ("before_iteration", "wrap_model", "after_reply")
AROUND_TOOLS = ("before_tools", "before_tool", "wrap_tool", "wrap_attempt", "after_tool")


async def test_a_condition_knows_the_iteration_of_each_hook() -> None:
    asked = Everywhere()
    await agent(asked).run("go")
    rounds = [(*AROUND_A_MODEL, *AROUND_TOOLS, "after_iteration")] * 2
    rounds.append((*AROUND_A_MODEL, "after_iteration"))
    wanted = [(hook, number) for number, hooks in enumerate(rounds) for hook in hooks]
    assert asked.asked == [("before_turn", 0), *wanted, ("after_turn", 2)]


@pytest.mark.parametrize("crash_at", range(1, 8))
async def test_a_condition_knows_the_iteration_after_a_crash(crash_at: int) -> None:
    whole, again = Everywhere(), Everywhere()
    await agent(whole).run("go")
    journal = MemoryJournal()
    model = ScriptedModel(call("look", id="1"), call("look", id="2"), "done")
    with pytest.raises(SimulatedCrash):
        await Agent(model, tools=[look], journal=CrashAt(journal, crash_at)).run("go", session="s")
    await Agent(model, tools=[look], middleware=[again], journal=journal).resume("s")
    assert again.asked == whole.asked[-len(again.asked) :]


async def test_after_a_turn_the_iteration_is_that_of_the_last_model_call() -> None:
    seen: list[tuple[int, int]] = []

    class Stopping(Middleware):
        async def before_iteration(self, context: Any) -> Stop | None:
            return Stop("enough", "Enough.") if context.iteration == 1 else None

        async def after_turn(self, context: Any) -> None:
            seen.append((context.facts.iteration, context.iterations))

    await agent(Stopping()).run("go")
    assert seen == [(0, 1)]


async def test_a_hook_needs_both_enabled_and_the_condition_of_the_user() -> None:
    def second(hook: str, facts: RunFacts) -> bool:
        return hook == "before_iteration"

    late = Late().only(enabled=second)
    await agent(late).run("go")
    assert late.seen == ["model 1", "model 2"]


async def test_a_condition_of_the_user_applies_to_live_filters() -> None:
    class Loud(Middleware):
        def live(self, context: Any) -> Any:
            raise AssertionError

    loud = Loud().only(enabled=lambda hook, facts: hook != "live")
    async with Agent(ScriptedModel("hello"), middleware=[loud]).stream("go") as run:
        assert "".join([text async for text in run.text(live=True)]) == "hello"


async def test_a_wrap_hook_that_is_not_enabled_is_skipped() -> None:
    class Wrap(Middleware):
        async def wrap_model(self, context: Any, call_next: Any) -> Any:
            raise AssertionError

    wrap = Wrap().only(enabled=lambda hook, facts: False)
    assert (await agent(wrap).run("go")).output == "done"


@pytest.mark.parametrize("enabled", [False, "yes"])
def test_a_condition_that_is_not_a_function_is_refused(enabled: Any) -> None:
    with pytest.raises(ConfigurationError, match="enabled"):
        Middleware().only(enabled=enabled)


def test_an_enabled_that_is_not_a_plain_function_is_refused() -> None:
    class Awaited(Middleware):
        async def enabled(self, hook: str, facts: RunFacts) -> bool:  # type: ignore[override]
            return False

    class Flag(Middleware):
        enabled = False  # type: ignore[assignment]

    for wrong in (Awaited(), Flag()):
        name = type(wrong).__name__
        with pytest.raises(ConfigurationError, match=rf"middleware\[0\]: {name}\.enabled .*`def"):
            agent(wrong)


async def test_an_agent_without_middleware_has_a_chain_without_hooks() -> None:
    chain = compile_chain(())
    assert not chain.middlewares
    assert not chain.has_state
    assert not chain.watches_replies
    assert "middleware" not in agent().describe()


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_with_hooks_leaves_no_cycle_behind() -> None:
    gc.collect()
    gc.disable()
    try:
        result = await agent(Late()).run("go")
        for _ in range(3):  # what the loop has still to call may hold the turn, and is no cycle
            await asyncio.sleep(0)
        turns = [one for one in gc.get_objects() if type(one) is ActiveTurn]
    finally:
        gc.enable()
    assert result.run_id not in [turn.run_id for turn in turns]
