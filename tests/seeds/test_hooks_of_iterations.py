"""Hooks of an iteration, as the third document describes them: their order, contexts, decisions and signals."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.tool_results import results_in_history

from holdfast import (
    Agent,
    ModelSettings,
    ProviderError,
    Reply,
    RetryOptions,
    ToolFinished,
    tool,
)
from holdfast.compat import AgentBuilder
from holdfast.core.messages import Text, ToolCall, assistant, user
from holdfast.errors import MiddlewareError
from holdfast.events import TextDelta
from holdfast.middleware import Deny, Middleware, Patch, Stop, UseReply
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import Pace

CALL = ToolCall("1", "fetch", '{"what": "x"}')


@tool(effect="read")
def fetch(what: str = "") -> str:
    """Fetch."""
    if what == "bad":
        raise RuntimeError("no")
    return f"data for {what}"


class Contexts(Middleware):
    """Keeps every context that it sees."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Any]] = {}

    def note(self, hook: str, context: Any) -> None:
        self.seen.setdefault(hook, []).append(context)

    async def before_turn(self, context: Any) -> None:
        self.note("before_turn", context)

    async def before_iteration(self, context: Any) -> None:
        self.note("before_iteration", context)

    async def after_reply(self, context: Any) -> None:
        self.note("after_reply", context)

    async def after_iteration(self, context: Any) -> None:
        self.note("after_iteration", context)

    async def after_turn(self, context: Any) -> None:
        self.note("after_turn", context)


def run_with(*middleware: Middleware[Any], script: Any = (CALL, "end"), **keywords: Any) -> Any:
    model = ScriptedModel(*script)
    return model, Agent(
        model, tools=[fetch], middleware=middleware, name="Ada", clock=FakeClock(), **keywords
    )


async def seen_by(**keywords: Any) -> dict[str, list[Any]]:
    contexts = Contexts()
    await run_with(contexts, **keywords)[1].run("Go.")
    return contexts.seen


async def test_a_context_says_what_is_known_at_its_moment() -> None:
    seen = await seen_by()
    first, second = seen["before_iteration"]
    assert [one.iteration for one in (first, second)] == [0, 1]
    assert {one.agent for contexts in seen.values() for one in contexts} == {"Ada"}
    assert [one.is_first_iteration for one in (first, second)] == [True, False]
    assert [(one.usage.total, one.limits.iterations) for one in (first, second)] == [
        (0, 10),
        (15, 10),
    ]
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[2].parts[0].text == "data for x"
    replies = seen["after_reply"]
    assert [call.name for call in replies[0].reply.calls] == ["fetch"]
    assert [(one.is_success, one.is_final_iteration) for one in replies] == [
        (True, False),
        (True, True),
    ]
    (closed,) = seen["after_turn"]
    assert (closed.text, closed.iterations, closed.status, closed.usage.total) == (
        "end",
        2,
        "completed",
        30,
    )


async def test_each_helper_is_on_the_contexts_that_can_answer_it() -> None:
    seen = await seen_by()
    helpers = ("is_first_iteration", "is_success", "is_final_iteration")
    found = {
        hook: [name for name in helpers if hasattr(contexts[0], name)]
        for hook, contexts in seen.items()
        if "iteration" in hook or hook == "after_reply"
    }
    assert found == {
        "before_iteration": ["is_first_iteration"],
        "after_reply": ["is_success", "is_final_iteration"],
        "after_iteration": ["is_final_iteration"],
    }
    assert all(
        hasattr(contexts[0], "iteration") for hook, contexts in seen.items() if hook in found
    )


async def test_no_context_can_be_changed() -> None:
    for contexts in (await seen_by()).values():
        with pytest.raises(AttributeError):
            contexts[0].key = "other"


async def test_after_a_failed_model_call_the_hook_sees_the_exception() -> None:
    contexts = Contexts()
    error = ProviderError("down")
    _, agent = run_with(contexts, script=[error], retry=RetryOptions(max_retries=0))
    with pytest.raises(ProviderError):
        await agent.run("Go.")
    (context,) = contexts.seen["after_reply"]
    assert context.exception is error
    assert (context.is_success, context.is_final_iteration, context.reply) == (False, False, None)
    assert contexts.seen["after_turn"][0].status == "failed"


class EachIteration(Middleware):
    async def before_iteration(self, context: Any) -> Patch:
        cold = ModelSettings(temperature=0.1)
        return Patch(
            instructions=f"{context.instructions} i{context.iteration}",
            settings=cold if context.iteration else None,
            tools=() if context.iteration else None,
        )


async def test_a_patch_is_for_one_call() -> None:
    model, agent = run_with(EachIteration(), instructions="Base.")
    await agent.run("Go.")
    assert [request.instructions for request in model.requests] == ["Base. i0", "Base. i1"]
    assert [len(request.tools) for request in model.requests] == [1, 0]
    assert [request.settings.temperature for request in model.requests] == [None, 0.1]


class Adds(Middleware):
    def __init__(self, word: str) -> None:
        self.word = word
        self.seen: list[str] = []

    async def before_iteration(self, context: Any) -> Patch:
        self.seen.append(context.instructions)
        messages = (*context.messages, user(self.word))
        return Patch(instructions=context.instructions + self.word, messages=messages)


async def test_a_later_hook_sees_what_an_earlier_one_changed() -> None:
    one, two = Adds("1"), Adds("2")
    model, agent = run_with(one, two, script=["end"], instructions="0")
    result = await agent.run("Go.")
    assert (one.seen, two.seen) == (["0"], ["01"])
    assert model.requests[0].instructions == "012"
    assert [message.text for message in model.requests[0].messages] == ["Go.", "1", "2"]
    assert [message.text for message in result.messages] == ["Go.", "end"]


class Gives(Middleware):
    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def before_iteration(self, context: Any) -> UseReply | None:
        return UseReply(self.reply) if context.iteration == 0 else None


async def test_a_reply_with_calls_that_a_hook_gives_runs_its_tools() -> None:
    contexts = Contexts()
    model, agent = run_with(Gives(assistant(CALL)), contexts, script=["end"])
    result = await agent.run("Go.")
    assert (result.text, results_in_history(result)) == ("end", ["data for x"])
    assert len(model.requests) == 1
    assert contexts.seen["before_iteration"][0].reply.calls == (CALL,)
    assert [one.replaced for one in contexts.seen["after_reply"]] == [True, False]


async def test_an_after_hook_replaces_the_reply_before_its_tools_run() -> None:
    class NeverMind(Middleware):
        async def after_reply(self, context: Any) -> UseReply | None:
            return UseReply("never mind") if context.reply.calls else None

    _, agent = run_with(NeverMind())
    result = await agent.run("Go.")
    assert (result.text, len(result.messages)) == ("never mind", 2)


async def test_text_arrives_between_the_hooks_around_the_model() -> None:
    log: list[str] = []

    class Around(Middleware):
        async def before_iteration(self, context: Any) -> None:
            log.append("before")

        async def wrap_model(self, context: Any, call_next: Any) -> Any:
            reply = await call_next(context)
            log.append("wrapped")
            return reply

        async def after_reply(self, context: Any) -> None:
            log.append("after")

    async with Emulator(["one two three"], faults=[Pace(0.02)]) as provider:
        agent = Agent("openai:demo", base_url=provider.base_url, api_key="k", middleware=[Around()])
        async with agent.stream("Go.") as run:
            async for item in run:
                if isinstance(item, TextDelta):
                    log += [item.text.strip()]
    assert (log[0], log[-1]) == ("before", "after")
    assert [word for word in log if word in ("one", "two", "three")] == ["one", "two", "three"]
    assert log.index("one") < log.index("wrapped") < log.index("after")


async def test_a_middleware_reads_the_fold_of_another() -> None:
    class Counts(Middleware[int]):
        @property
        def initial(self) -> int:
            return 0

        def fold(self, state: int, event: Any) -> int:
            return state + isinstance(event, ToolFinished)

    class Reads(Middleware):
        def __init__(self) -> None:
            self.seen: list[int] = []

        async def before_iteration(self, context: Any) -> None:
            self.seen.append(context.state_of(counts))

    counts, reads = Counts(), Reads()
    await run_with(counts, reads)[1].run("Go.")
    assert reads.seen == [0, 1]


async def test_a_hook_counts_the_iterations_that_failed_in_a_row() -> None:
    class Tells(Middleware[int]):
        @property
        def initial(self) -> int:
            return 0

        def fold(self, state: int, event: Any) -> int:
            if not isinstance(event, ToolFinished):
                return state
            return state + 1 if event.result.is_error else 0

        async def before_iteration(self, context: Any) -> Patch | None:
            failed = context.state_of(self)
            return Patch(instructions=f"{failed} failed in a row.") if failed else None

    bad = ToolCall("1", "fetch", '{"what": "bad"}')
    model, agent = run_with(Tells(), script=[bad, bad, "end"])
    await agent.run("Go.")
    assert [request.instructions for request in model.requests] == [
        "",
        "1 failed in a row.",
        "2 failed in a row.",
    ]


async def test_the_sample_middleware_of_the_document() -> None:
    finals: list[str] = []

    class MyMiddleware(Middleware):
        async def before_iteration(self, context: Any) -> Patch | None:
            if context.is_first_iteration:
                return None
            return Patch(instructions=context.instructions + "\nAnalyze tool results.")

        async def after_reply(self, context: Any) -> None:
            if context.is_final_iteration:
                finals.append("Final iteration!")

    model = ScriptedModel(CALL, "ok")
    builder = AgentBuilder(model=model).with_tools(fetch).with_middleware(MyMiddleware())
    assert (await builder.build().run("Go.")).text == "ok"
    assert [request.instructions for request in model.requests] == ["", "\nAnalyze tool results."]
    assert finals == ["Final iteration!"]


@pytest.mark.parametrize("hook", ["before_iteration", "after_reply", "after_iteration"])
async def test_a_hook_signals_the_end_of_the_turn(hook: str) -> None:
    class Ends(Middleware):
        pass

    async def end(self: Any, context: Any) -> Stop:
        return Stop("IsTerminated", "Enough.")

    ending = type("Ending", (Ends,), {hook: end})()
    result = await run_with(ending)[1].run("Go.")
    assert (result.status, result.text, result.stop_reason) == (
        "stopped",
        "Enough.",
        "IsTerminated",
    )


async def test_a_hook_before_the_turn_sets_the_instructions_of_all_its_calls() -> None:
    class Knows(Middleware):
        async def before_turn(self, context: Any) -> Patch:
            return Patch(instructions=context.instructions + " Known: Porto.")

    model, agent = run_with(Knows(), instructions="Base.")
    await agent.run("Go.")
    assert [request.instructions for request in model.requests] == ["Base. Known: Porto."] * 2


async def test_after_a_hook_failed_the_session_goes_on() -> None:
    class Fails(Middleware):
        async def before_iteration(self, context: Any) -> None:
            if context.turn == 1:
                raise KeyError("x")

    _, agent = run_with(Fails(), script=["fine"])
    with pytest.raises(MiddlewareError, match=r"Fails\.before_iteration raised KeyError") as caught:
        await agent.run("Go.", session="s")
    assert isinstance(caught.value.__cause__, KeyError)
    assert (await agent.run("Again.", session="s")).text == "fine"


async def test_a_condition_leaves_a_middleware_out_of_the_first_iteration() -> None:
    seen: list[int] = []

    class Noting(Middleware):
        async def before_iteration(self, context: Any) -> None:
            seen.append(context.iteration)

    hook = Noting().only(enabled=lambda hook, facts: facts.iteration > 0)
    agent = run_with(hook, script=[CALL, CALL, "end", CALL, "end"])[1]
    await agent.run("Go.", session="s")
    await agent.run("Go on.", session="s")
    assert seen == [1, 2, 1]


async def test_all_tools_of_a_reply_are_denied_for_one_reason() -> None:
    class NotNow(Middleware):
        async def before_tools(self, context: Any) -> Deny:
            return Deny("Not today.")

    pair = (CALL, ToolCall("2", "fetch", '{"what": "y"}'))
    result = await run_with(NotNow(), script=[pair, "end"])[1].run("Go.")
    assert results_in_history(result) == ["Not today.", "Not today."]


async def test_hooks_that_do_nothing_cost_far_less_than_a_millisecond() -> None:
    """Both hooks of twenty middlewares: 40 calls in each of 100 iterations, in less than 4 seconds."""

    class Nothing(Middleware):
        async def before_iteration(self, context: Any) -> None:
            return None

        async def after_reply(self, context: Any) -> None:
            return None

    reply = Reply((Text("ok"),))
    agent = Agent(ScriptedModel(*[reply] * 100), middleware=[Nothing() for _ in range(20)])
    begun = time.process_time()
    for _ in range(100):
        await agent.run("Go.")
    assert time.process_time() - begun < 4
