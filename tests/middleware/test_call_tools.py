"""Tools that code calls: they are saved, validated, hooked, limited and resumed like a model's calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast import (
    Agent,
    Limits,
    MemoryJournal,
    Middleware,
    ModelReplied,
    RetryOptions,
    Status,
    ToolError,
    ToolFinished,
    ToolPermission,
    tool,
)
from holdfast.core.errors import ConfigurationError, LimitError, ProviderError
from holdfast.core.messages import Message, Text, ToolCall, ToolResult
from holdfast.middleware import (
    AfterReply,
    AfterTool,
    BeforeIteration,
    BeforeTool,
    CallTools,
    Deny,
    Replace,
    UseReply,
)
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools.context import current_tool_call

ran: list[str] = []
keys: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()
    keys.clear()


@tool(effect="idempotent", offered=False)
async def send_link(to: str, count: int = 1) -> str:
    """Send the link."""
    ran.append(to)
    call = current_tool_call()
    keys.append(call.idempotency_key if call is not None else "")
    return f"sent {count}"


@tool(effect="read")
async def look(what: str = "") -> str:
    """Look."""
    ran.append(what)
    return f"saw {what}"


def results_of(messages: Sequence[Message]) -> list[ToolResult]:
    return [part for one in messages for part in one.parts if isinstance(part, ToolResult)]


class Flow(Middleware):
    """Calls tools in the first iteration, and leaves the next one to the model."""

    def __init__(self, *calls: tuple[str, dict[str, object]]) -> None:
        self.calls = calls

    async def before_iteration(self, context: BeforeIteration) -> CallTools | None:
        return CallTools(*self.calls) if context.is_first_iteration else None


def agent(model: ScriptedModel, *middleware: Middleware, **more: Any) -> Agent[str]:
    tools = more.pop("tools", [send_link, look])
    return Agent(model, tools=tools, middleware=middleware, **more)


SEND = ("send_link", {"to": "Ada"})


async def test_code_calls_tools_without_a_model_call() -> None:
    model, journal = ScriptedModel("Done."), MemoryJournal()
    flow = Flow(SEND, ("look", {"what": "the sea"}))
    result = await agent(model, flow, journal=journal).run("go", session="s")
    assert (result.text, sorted(ran)) == ("Done.", ["Ada", "the sea"])
    assert len(model.requests) == 1
    assert result.usage.total == 15
    events = [record.event for record in await journal.read("s")]
    first, second = [event for event in events if isinstance(event, ModelReplied)]
    assert (first.by, first.attempts, first.reply.usage.total) == ("Flow", 0, 0)
    assert (second.by, second.attempts) == ("", 1)
    assert [one.key for one in events if isinstance(one, ToolFinished)] == [
        "t1.i0.tool.0",
        "t1.i0.tool.1",
    ]
    asked = model.requests[0].messages
    calls = asked[1].calls
    assert [one.call_id for one in results_of(asked)] == [call.id for call in calls]
    assert [call.name for call in calls] == ["send_link", "look"]
    assert results_of(asked)[0].text == "sent 1"


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("append", range(1, 8))
async def test_a_crash_at_any_record_changes_nothing(append: int, before: bool) -> None:
    whole_journal, journal = MemoryJournal(), MemoryJournal()
    await agent(ScriptedModel("Done."), Flow(SEND), journal=whole_journal).run("go", session="s")
    keys.clear()
    try:
        crashing = CrashAt(journal, append, before=before)
        first = agent(ScriptedModel("Done."), Flow(SEND), journal=crashing)
        await first.run("go", session="s")
    except SimulatedCrash:
        if not await journal.read("s"):
            return
        again = agent(ScriptedModel("Done."), Flow(SEND), journal=journal)
        result = await again.resume("s")
        assert result.text == "Done."
    assert len(set(keys)) == 1
    whole = [record.event for record in await whole_journal.read("s")]
    cut = [record.event for record in await journal.read("s")]
    assert [_without_time(one) for one in cut] == [_without_time(one) for one in whole]


def _without_time(event: object) -> object:
    data = msgspec.to_builtins(event)
    return {name: value for name, value in data.items() if name not in ("at", "downtime")}


async def test_the_calls_are_validated_hooked_and_retried() -> None:
    fails = [ConnectionResetError(), None]

    @tool(effect="idempotent", offered=False)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(str(amount))
        error = fails.pop(0)
        if error is not None:
            raise error
        return "paid"

    seen: list[tuple[str, bool]] = []

    class Watch(Middleware):
        async def before_tool(self, context: BeforeTool) -> Deny | None:
            seen.append((context.tool, context.by_code))
            return Deny("no") if context.tool == "look" else None

    model = ScriptedModel("Done.")
    flow = Flow(("pay", {"amount": 3}), ("pay", {"amount": "x"}), ("look", {}))
    retry = RetryOptions(retry_delay=0.001)
    made = agent(model, flow, Watch(), tools=[pay, look], retry=retry)
    result = await made.run("go")
    assert sorted(seen) == [("look", True), ("pay", True)]
    outcomes = [(one.text, one.is_error) for one in results_of(result.messages)]
    assert outcomes[0] == ("paid", False)
    assert outcomes[1][1]
    assert "amount" in outcomes[1][0]
    assert outcomes[2] == ("no", True)
    assert ran == ["3", "3"]


async def test_a_person_is_asked_about_a_call_of_code() -> None:
    asked: list[str] = []

    async def answer(question: Any) -> bool:
        asked.append(question.tool)
        return question.approve()

    permission = ToolPermission(ask=["send_link"])
    made = agent(ScriptedModel("Done."), Flow(SEND), permission, on_question=answer)
    await made.run("go")
    assert (asked, ran) == (["send_link"], ["Ada"])


class InPlace(Middleware):
    """Replaces the first reply, or the first failure, by a call."""

    async def after_reply(self, context: AfterReply) -> CallTools | None:
        return CallTools(SEND) if context.iteration == 0 else None


async def test_a_reply_is_replaced_and_its_tokens_count() -> None:
    model, journal = ScriptedModel("Nonsense.", "Done."), MemoryJournal()
    result = await agent(model, InPlace(), journal=journal).run("go", session="s")
    assert (result.text, ran, result.usage.total) == ("Done.", ["Ada"], 30)
    events = [record.event for record in await journal.read("s")]
    first = next(event for event in events if isinstance(event, ModelReplied))
    assert (first.by, first.attempts) == ("InPlace", 1)
    assert "Nonsense." not in str(model.requests[1].messages)


async def test_a_failed_model_call_is_replaced() -> None:
    model = ScriptedModel(ProviderError("down"), "Done.")
    result = await agent(model, InPlace(), retry=RetryOptions(max_retries=0)).run("go")
    assert (result.text, ran) == ("Done.", ["Ada"])


async def test_the_last_decision_wins() -> None:
    class Answer(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> UseReply | None:
            assert context.reply is not None
            assert [call.name for call in context.reply.calls] == ["send_link"]
            return UseReply("Instead.")

    journal = MemoryJournal()
    result = await agent(ScriptedModel(), Flow(SEND), Answer(), journal=journal).run("go")
    assert (result.text, ran) == ("Instead.", [])
    events = [record.event for record in await journal.read(result.run_id)]
    assert [event.by for event in events if isinstance(event, ModelReplied)] == [""]


async def test_calls_of_code_count_toward_the_limit_of_iterations() -> None:
    class Endless(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> CallTools:
            return CallTools(("look", {"what": str(context.iteration)}))

    made = agent(ScriptedModel(), Endless(), limits=Limits(iterations=3))
    with pytest.raises(LimitError, match="iterations"):
        await made.run("go")
    assert len(ran) == 3


async def test_a_stream_shows_the_calls() -> None:
    async with agent(ScriptedModel("Done."), Flow(SEND)).stream("go") as run:
        items = [item async for item in run]
    replies = [item for item in items if isinstance(item, ModelReplied)]
    assert [call.name for call in replies[0].reply.calls] == ["send_link"]
    assert any(isinstance(item, ToolFinished) for item in items)


async def test_ids_differ_between_iterations_and_turns_and_runs() -> None:
    class Twice(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> CallTools | None:
            return CallTools(SEND, SEND) if context.iteration < 2 else None

    model = ScriptedModel("1", "2", "3")
    made = agent(model, Twice(), journal=MemoryJournal())
    first = await made.run("go", session="s")
    assert first.text == "1"
    second = await made.run("go", session="s")
    third = await made.run("go", history=second.messages)
    ids = [call.id for message in third.messages for call in message.calls]
    assert len(ids) == len(set(ids)) == 12


@pytest.mark.parametrize(
    "calls",
    [(), ("send_link",), (("send_link",),), (("send_link", "Ada"),), ((1, {}),)],
    ids=["none", "a name", "no arguments", "a text", "a number"],
)
def test_a_wrong_call_is_refused(calls: Any) -> None:
    with pytest.raises(ConfigurationError, match="CallTools"):
        CallTools(*calls)


@pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "surrogate"])
def test_arguments_that_json_cannot_express_are_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="JSON cannot express the arguments of 'look'"):
        CallTools(("look", {"what": value}))


def test_the_repr_has_no_personal_data() -> None:
    assert repr(CallTools(SEND)) == "CallTools(send_link)"


# Tools that only code may call.


def model_that_calls(name: str, arguments: str = '{"to": "Eve"}') -> ScriptedModel:
    return ScriptedModel(ToolCall("c1", name, arguments), "Done.")


async def test_a_model_is_never_offered_the_tool_and_cannot_call_it() -> None:
    model, other = model_that_calls("send_link"), model_that_calls("send_link")
    hidden = await agent(model).run("go")
    unknown = await agent(other, tools=[look]).run("go")
    assert [spec.name for request in model.requests for spec in request.tools] == ["look", "look"]
    assert ran == []
    assert results_of(hidden.messages) == results_of(unknown.messages)
    assert "send_link" not in results_of(hidden.messages)[0].text.partition("The functions are")[2]


async def test_a_model_cannot_call_it_beside_a_call_of_code() -> None:
    model = model_that_calls("send_link")
    result = await agent(model, Flow(SEND)).run("go")
    assert ran == ["Ada"]
    assert [one.is_error for one in results_of(result.messages)] == [False, True]


async def test_a_replaced_reply_cannot_call_it() -> None:
    class Hand(Middleware):
        async def after_reply(self, context: AfterReply) -> UseReply | None:
            return UseReply(context.reply) if context.reply and context.reply.calls else None

    await agent(model_that_calls("send_link"), Hand()).run("go")
    assert ran == []


@pytest.mark.parametrize("append", range(1, 8))
async def test_a_resumed_turn_does_not_run_it_for_a_model(append: int) -> None:
    journal, model = MemoryJournal(), model_that_calls("send_link")
    try:
        await agent(model, journal=CrashAt(journal, append)).run("go", session="s")
    except SimulatedCrash:
        await agent(model, journal=journal).resume("s")
    assert ran == []


async def test_a_subagent_cannot_call_it() -> None:
    inner = agent(model_that_calls("send_link"), name="inner")
    outer = Agent(
        ScriptedModel(ToolCall("c1", "inner", '{"prompt": "go"}'), "Done."),
        tools=[inner.as_tool(), send_link],
    )
    result = await outer.run("go")
    assert (result.text, ran) == ("Done.", [])


async def test_tools_for_one_turn_keep_it_hidden() -> None:
    @tool(effect="read")
    async def extra() -> str:
        """Something else."""
        return "x"

    model = ScriptedModel(ToolCall("c1", "send_link", '{"to": "Eve"}'), "Done.")
    await agent(model, Flow(SEND)).run("go", tools=[extra])
    assert [spec.name for spec in model.requests[0].tools] == ["look", "extra"]
    assert ran == ["Ada"]


def test_another_tool_cannot_take_its_name() -> None:
    @tool(name="send_link")
    def other() -> str:
        """Pretend."""
        return ""

    with pytest.raises(ConfigurationError, match="two of them are named 'send_link'"):
        agent(ScriptedModel(), tools=[send_link, other])


def test_it_is_described() -> None:
    assert "tools that no model sees: send_link" in agent(ScriptedModel()).describe()
    assert send_link.replace(name="other").offered is False
    assert repr(send_link) == "Tool('send_link', effect='idempotent', offered=False)"


async def test_status_is_completed() -> None:
    result = await agent(ScriptedModel("Done."), Flow(SEND)).run("go")
    assert result.status is Status.COMPLETED


# What code sees of a writing tool whose outcome nobody knows.


class Payments(Middleware):
    """Pays by code, asks the provider when nobody knows whether it was paid, and goes on."""

    async def before_iteration(self, context: BeforeIteration) -> CallTools | None:
        results = {one.name: one for one in results_of(context.messages)}
        paid = results.get("pay")
        if paid is None:
            return CallTools(("pay", {"amount": 3}))
        if paid.outcome == "in_doubt" and "find_payment" not in results:
            return CallTools(("find_payment", {}))
        return None


@tool(effect="read", offered=False)
async def find_payment() -> str:
    """Find the payment by its key."""
    return "it was paid"


def payments(journal: Any, pay: Any) -> Agent[str]:
    tools = [pay, find_payment]
    return agent(ScriptedModel("Done."), Payments(), tools=tools, journal=journal)


def outcomes_of(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(one.name, one.outcome) for one in results_of(messages)]


@tool(effect="write", offered=False)
async def pay(amount: int) -> str:
    """Pay."""
    ran.append(f"paid {amount}")
    return "paid"


async def test_a_call_that_a_crash_left_in_doubt_is_seen_as_data() -> None:
    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await payments(CrashAt(journal, 4, before=True), pay).run("go", session="s")
    assert ran == ["paid 3"]
    result = await payments(journal, pay).resume("s")
    assert (result.text, ran) == ("Done.", ["paid 3"])
    assert outcomes_of(result.messages) == [("pay", "in_doubt"), ("find_payment", "done")]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TimeoutError(), "in_doubt"),
        (ToolError("refused"), "failed"),
        (ConnectionRefusedError(), "failed"),
    ],
    ids=["timeout", "refused", "never sent"],
)
async def test_a_failure_says_whether_it_may_have_taken_effect(
    error: Exception, outcome: str
) -> None:
    @tool(name="pay", effect="write", offered=False)
    async def failing(amount: int) -> str:
        """Pay."""
        raise error

    made = Agent(
        ScriptedModel("Done."),
        tools=[failing, find_payment],
        middleware=[Payments()],
        retry=RetryOptions(max_retries=0),
    )
    result = await made.run("go")
    assert outcomes_of(result.messages)[0] == ("pay", outcome)


async def test_a_hook_after_the_tool_sees_a_call_in_doubt_and_may_replace_it() -> None:
    class Ask(Middleware):
        async def after_tool(self, context: AfterTool) -> Replace | None:
            if context.result.outcome != "in_doubt":
                return None
            return Replace(ToolResult(context.call.id, context.tool, (Text("it was paid"),)))

    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await payments(CrashAt(journal, 4, before=True), pay).run("go", session="s")
    again = agent(
        ScriptedModel("Done."), Payments(), Ask(), tools=[pay, find_payment], journal=journal
    )
    result = await again.resume("s")
    assert outcomes_of(result.messages) == [("pay", "done")]


async def test_a_text_in_place_of_a_result_keeps_the_doubt() -> None:
    class Reword(Middleware):
        async def after_tool(self, context: AfterTool) -> Replace:
            return Replace("other words")

    @tool(name="pay", effect="write", offered=False)
    async def failing(amount: int) -> str:
        """Pay."""
        raise TimeoutError

    made = agent(ScriptedModel("Done."), Payments(), Reword(), tools=[failing, find_payment])
    result = await made.run("go")
    assert outcomes_of(result.messages) == [("pay", "in_doubt"), ("find_payment", "done")]
