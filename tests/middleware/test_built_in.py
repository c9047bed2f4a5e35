"""The middlewares for logging, guidance, cache, personal data, history and usage, end to end."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, Limits, MemoryJournal, RetryOptions, Status, tool
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    ProviderError,
    StoppedError,
)
from holdfast.core.events import ModelFailed
from holdfast.core.messages import (
    Message,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    system,
    tool_results,
    user,
)
from holdfast.middleware.guidance import FIRST, Guidance
from holdfast.middleware.history_reduction import HistoryReduction
from holdfast.middleware.iteration_cache import IterationCache
from holdfast.middleware.iteration_logging import TRACE, IterationLogging
from holdfast.middleware.pii import clean_text
from holdfast.middleware.pii_protection import PIIProtection
from holdfast.middleware.usage_limits import UsageLimits
from holdfast.models import Prices
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "bob@example.org"


def call(name: str = "look", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name)


async def test_the_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(
        ScriptedModel(call(), "done"),
        name="MyAgent",
        instructions="Be brief.",
        tools=[look],
        middleware=[IterationLogging()],
        clock=FakeClock(),
    )
    with caplog.at_level(TRACE, logger="holdfast.iterations"):
        await agent.run("go")
    records = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert [text for level, text in records if level == logging.INFO] == [
        "🔄 Iteration 0 starting - Agent: MyAgent",
        "✅ Iteration 0 completed in 0ms - Tool calls: 1",
        "🔄 Iteration 1 starting - Agent: MyAgent",
        "✅ Iteration 1 completed in 0ms - Tool calls: 0",
        "🏁 Final iteration detected - Agent will respond to user",
    ]
    assert (logging.DEBUG, "Messages: 3 - Tools: 1") in records
    assert (TRACE, "Instructions: Be brief.") in records


async def test_a_failed_iteration_is_not_final(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(
        ScriptedModel(ProviderError("secret=abc")),
        middleware=[IterationLogging()],
        clock=FakeClock(),
        retry=RetryOptions(max_retries=0),
    )
    with caplog.at_level(TRACE, logger="holdfast.iterations"), pytest.raises(ProviderError):
        await agent.run("go")
    lines = [one.getMessage() for one in caplog.records if one.name == "holdfast.iterations"]
    assert lines[-1] == "❌ Iteration 0 failed in 0ms: ProviderError"


async def test_guidance_says_what_seed_002_says() -> None:
    model = ScriptedModel(call(), (call(), call(call_id="c2")), "done")
    agent = Agent(model, instructions="Base.", tools=[look], middleware=[Guidance(5)])
    await agent.run("go")
    first, second, third = (request.instructions for request in model.requests)
    assert first == "Base." + FIRST
    assert second == (
        "Base.\n\n📍 ITERATION GUIDANCE: You have 1 tool result(s). "
        "Analyze the data and synthesize your response."
    )
    assert third.endswith(
        "You have 3 tool result(s). Analyze the data and synthesize your response."
        "\n\n⚠️ WARNING: Only 3 iteration(s) remaining. "
        "Wrap up your analysis and provide a conclusion."
    )


async def test_guidance_can_count_from_the_limit_of_the_turn() -> None:
    model = ScriptedModel("done")
    agent = Agent(model, middleware=[Guidance(None)], limits=Limits(iterations=3))
    await agent.run("go")
    assert "Only 3 iteration(s) remaining" in model.requests[0].instructions


async def test_a_cached_reply_is_used_for_ten_minutes_and_costs_nothing() -> None:
    clock = FakeClock()
    model = ScriptedModel("one", "two", "three")
    agent = Agent(model, middleware=[IterationCache()], clock=clock)
    assert (await agent.run("go")).output == "one"
    again = await agent.run("go")
    assert (again.output, again.usage.total) == ("one", 0)
    assert (await agent.run("other")).output == "two"
    clock.advance(600)
    assert (await agent.run("go")).output == "three"


async def test_a_failure_is_not_cached_and_the_oldest_goes_first() -> None:
    model = ScriptedModel(ProviderError("x"), "one", "two", "three")
    agent = Agent(
        model,
        middleware=[IterationCache(entries=1)],
        retry=RetryOptions(max_retries=0),
    )
    with pytest.raises(ProviderError):
        await agent.run("a")
    assert [(await agent.run(what)).output for what in ("a", "a", "b", "a")] == [
        "one",
        "one",
        "two",
        "three",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mail a.b+c@mail.example.co.uk now", "mail [EMAIL_REDACTED] now"),
        ("call (555) 123-4567", "call ***-***-4567"),
        ("call +1 555.123.4567!", "call ***-***-4567!"),
        ("from 192.168.0.1", "from <ipaddress_hash:37d7a80604>"),
        ("version 1.2.3.4.5", "version 1.2.3.4.5"),
        ("order 4111111111111112", "order 4111111111111112"),
        ("nothing here", "nothing here"),
    ],
)
def test_personal_data_is_removed(text: str, wanted: str) -> None:
    import hashlib

    digest = hashlib.sha256(b"192.168.0.1").hexdigest()[:8]
    assert clean_text(text).text == wanted.replace("37d7a80604", digest)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("4111-1111-1111-1111", "CreditCard"), ("my ssn is 123-45-6789.", "SSN")],
)
async def test_a_blocked_message_is_refused_and_saved_nowhere(text: str, kind: str) -> None:
    journal = MemoryJournal()
    model = ScriptedModel()
    agent = Agent(model, middleware=[PIIProtection()], journal=journal)
    words = f"PII of type '{kind}' detected. Message blocked for security."
    with pytest.raises(StoppedError, match=words):
        await agent.run(text, session="s")
    assert await journal.read("s") == []
    assert model.requests == []


async def test_input_is_cleaned_before_it_is_saved_and_output_and_results_on_request() -> None:
    model = ScriptedModel(call(), "write to eve@example.org")
    everything = PIIProtection(on_output=True, on_tool_results=True)
    agent = Agent(model, tools=[look], middleware=[everything])
    result = await agent.run("I am bob@example.org")
    assert result.output == "write to [EMAIL_REDACTED]"
    assert "example.org" not in repr(result.messages)
    plain = await Agent(ScriptedModel("eve@example.org"), middleware=[PIIProtection()]).run("x")
    assert plain.output == "eve@example.org"


def test_wrong_actions_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"a key of actions: .* got 'Name'"):
        PIIProtection({"Name": "block"})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match=r"actions\['Email'\]: .* got 'burn'"):
        PIIProtection({"Email": "burn"})  # type: ignore[dict-item]


@given(st.text(alphabet="0123456789 .-@ab()+", max_size=200))
def test_cleaning_never_fails_and_leaves_no_address(text: str) -> None:
    cleaned = clean_text(text)
    assert cleaned.blocked_kind is not None or clean_text(cleaned.text).text is not None


def turn(number: int, *, tools: int = 0) -> list[Message]:
    calls = [ToolCall(f"{number}-{index}", "look") for index in range(tools)]
    middle: list[Message] = []
    for one in calls:
        middle += [assistant(one), tool_results([ToolResult(one.id, "look", ())])]
    return [user(f"question {number}"), *middle, assistant(f"answer {number}")]


async def seen(history: Sequence[Message], reduction: HistoryReduction) -> tuple[list[str], str]:
    model = ScriptedModel("ok")
    result = await Agent(model, middleware=[reduction]).run("now", history=history)
    assert len(result.messages) == len(history) + 2
    request = model.requests[0]
    return [message.text for message in request.messages], request.instructions


async def test_the_oldest_turns_are_left_out_above_target_and_threshold() -> None:
    short = [message for number in range(12) for message in turn(number)]
    assert len((await seen(short, HistoryReduction()))[0]) == 25
    longer = [message for number in range(13) for message in turn(number)]
    texts, _ = await seen(longer, HistoryReduction())
    assert len(texts) == 21
    assert texts[0].startswith("question")
    assert texts[-1] == "now"


async def test_system_and_pinned_messages_stay() -> None:
    history = [system("rules"), *[m for number in range(20) for m in turn(number)]]
    reduction = HistoryReduction(4, 0, pinned=lambda message: message.text == "question 3")
    texts, _ = await seen(history, reduction)
    assert texts[:3] == ["rules", "question 3", "answer 3"]


async def test_a_summary_is_made_once_and_may_fail() -> None:
    asked: list[int] = []

    async def summarize(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return "they talked"

    history = [message for number in range(10) for message in turn(number)]
    reduction = HistoryReduction(4, 0, summarize=summarize)
    for _ in range(2):
        _, instructions = await seen(history, reduction)
        assert instructions == "\n\nSummary of the earlier conversation:\nthey talked"
    assert len(asked) == 1

    async def fail(messages: Sequence[Message]) -> str:
        raise RuntimeError("down")

    texts, instructions = await seen(history, HistoryReduction(4, 0, summarize=fail))
    assert (instructions, texts[-1]) == ("", "now")


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=25),
    st.integers(1, 12),
    st.integers(0, 6),
)
def test_calls_and_results_are_never_separated(
    tools: list[int], target: int, threshold: int
) -> None:
    from holdfast.middleware.history_reduction import _split_turns

    messages = [m for number, count in enumerate(tools) for m in turn(number, tools=count)]
    turns = _split_turns(messages)
    assert [m for one in turns for m in one] == messages
    sizes = [len(one) for one in turns]
    cut = HistoryReduction(target, threshold)._count_dropped(sizes, target, target + threshold)
    assert cut < len(turns)
    sent = [m for one in turns[cut:] for m in one]
    calls = {part.id for m in sent for part in m.calls}
    answers = {p.call_id for m in sent for p in m.parts if isinstance(p, ToolResult)}
    assert calls == answers
    assert len(turns[cut:]) == 1 or len(sent) <= target + threshold


async def test_usage_ends_the_turn_before_the_next_call() -> None:
    model = ScriptedModel(call(), call(), "never")
    agent = Agent(model, tools=[look], middleware=[UsageLimits(model_calls=2)])
    result = await agent.run("go")
    assert result.status is Status.STOPPED
    assert result.output == "The limit of model calls is reached (2 of 2). Stopping execution."
    model = ScriptedModel(call(), "never")
    priced = UsageLimits(cost="1.5")
    prices = Prices({"*": {"input": "100000", "output": "100000"}})
    result = await Agent(model, tools=[look], middleware=[priced], prices=prices).run("go")
    assert result.stop_reason == "Usage limit: cost"


def test_the_tokens_of_a_failed_call_are_counted() -> None:
    limits = UsageLimits(tokens=20, per="session")
    info = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="It broke off.")
    failed = ModelFailed("t1.i0.model", 1.0, info, Reply((), usage=Usage(5, 7)), lost=Usage(1, 2))
    spent = limits.fold(limits.initial, failed)
    assert (spent.calls, spent.usage) == (1, Usage(6, 9))


async def test_usage_of_a_session_is_counted_over_its_turns_and_restored_from_its_journal() -> None:
    journal = MemoryJournal()
    limits = UsageLimits(tokens=20, per="session")
    agent = Agent(ScriptedModel("a", "b", "c"), middleware=[limits], journal=journal)
    assert (await agent.run("1", session="s")).output == "a"
    assert (await agent.run("2", session="s")).output == "b"
    assert (await agent.run("3", session="s")).status is Status.STOPPED
    fresh = Agent(
        ScriptedModel(), middleware=[UsageLimits(tokens=20, per="session")], journal=journal
    )
    assert (await fresh.run("4", session="s")).status is Status.STOPPED


def test_wrong_limits_are_named() -> None:
    with pytest.raises(
        ConfigurationError, match=r'cost: must be an exact number, got float. .*"1.5"'
    ):
        UsageLimits(cost=1.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="cost: needs prices, and the agent has none"):
        Agent(ScriptedModel(), middleware=[UsageLimits(cost="1")])
    with pytest.raises(ConfigurationError, match="tokens"):
        UsageLimits(tokens=0)
