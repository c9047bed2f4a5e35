"""Results that a provider's filter refuses: withheld once, for the turn, the session and a restart."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.test_tool_names import ARGUMENTS, NAMES, accepted

from holdfast import (
    Agent,
    Limits,
    MemoryJournal,
    Middleware,
    RetryOptions,
    tool,
    user,
)
from holdfast.core.effects import tool_key, turn_key, withheld_key
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    IllegalEventError,
    LimitError,
    ProviderError,
)
from holdfast.core.events import (
    Event,
    ModelReplied,
    ResultsWithheld,
    SessionRewound,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import (
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.core.model_request import ModelRequest
from holdfast.core.turn_history import (
    WITHHELD_DOUBT_TEXT,
    WITHHELD_FAILURE_TEXT,
    WITHHELD_TEXT,
    withhold,
)
from holdfast.journal.port import Journal
from holdfast.middleware import UsageLimits
from holdfast.middleware.decisions import CallTools
from holdfast.middleware.hook_contexts import (
    AfterIteration,
    AfterReply,
    BeforeIteration,
    OnError,
)
from holdfast.sessions.sessions import Sessions
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash, replay
from holdfast.testing.emulator.wires.emulator_wire import WIRES

REFUSED = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="refused", status=400)
DOWN = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down", status=503)
EVIL = "evil"


@tool(effect="read")
async def page(name: str) -> str:
    """Read a page."""
    return f"{name} is {EVIL}" if name == "bad" else f"{name} is fine"


@tool(effect="write")
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


def read_page(name: str, number: int = 0) -> ToolCall:
    return ToolCall(f"c{number}", "page", f'{{"name": "{name}"}}')


def is_evil(request: ModelRequest) -> bool:
    """Whether the filter refuses a request: a result or a text of the user is evil."""
    texts = [results_of([one]) or [one.text] for one in request.messages if one.role != "assistant"]
    return any(EVIL in text for some in texts for text in some)


def results_of(messages: Any) -> list[str]:
    return [part.text for one in messages for part in one.parts if isinstance(part, ToolResult)]


Line = str | list[ToolCall]


def filtered(*lines: Line) -> ScriptedModel:
    """A model behind a filter. A line is used up when it is said."""
    left = list(lines)

    def answer(request: ModelRequest) -> Any:
        if is_evil(request):
            return ProviderError("refused", info=REFUSED)
        return left.pop(0)

    return ScriptedModel(*[answer] * 60)


def agent_of(model: Any, journal: Journal | None = None, **more: Any) -> Agent[Any]:
    given = {"tools": [page, note], "retry": RetryOptions(max_retries=0), "clock": FakeClock()}
    return Agent(model, journal=journal, **{**given, **more})


async def events_of(journal: Journal, session: str = "ana") -> list[Event]:
    return [record.event for record in await journal.read(session)]


def count_withheld(events: list[Event]) -> int:
    return sum(isinstance(event, ResultsWithheld) for event in events)


async def test_all_new_results_are_withheld_and_the_journal_keeps_them() -> None:
    journal = MemoryJournal()
    model = filtered(
        [read_page("good")], [read_page("good", 1), read_page("bad", 2)], "Done.", "Hi."
    )
    result = await agent_of(model, journal).run("Go", session="ana")
    assert result.output == "Done."
    events = await events_of(journal)
    [event] = [event for event in events if isinstance(event, ResultsWithheld)]
    assert (event.key, event.tools, event.error) == ("t1.i2.withheld", ("page", "page"), REFUSED)
    kept = [event.result.text for event in events if isinstance(event, ToolFinished)]
    assert kept == ["good is fine", "good is fine", "bad is evil"]
    sent = ["good is fine", WITHHELD_TEXT, WITHHELD_TEXT]
    assert results_of(result.messages) == sent  # what a model has answered stays
    again = filtered("Hi.")
    later = await agent_of(again, journal).run("More", session="ana")
    assert results_of(again.requests[0].messages) == sent
    assert len(again.requests) == 1
    assert later.output == "Hi."
    assert count_withheld(await events_of(journal)) == 1


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("append", range(1, 10))
async def test_a_process_that_dies_at_any_append_sends_the_same(append: int, before: bool) -> None:
    journal = MemoryJournal()
    said: list[Line] = [[read_page("bad"), ToolCall("c1", "note", '{"text": "x"}')], "Done."]

    def model() -> ScriptedModel:
        def answer(request: ModelRequest) -> Any:
            if is_evil(request):
                return ProviderError("refused", info=REFUSED)
            return said[sum(one.role == "assistant" for one in request.messages)]

        return ScriptedModel(*[answer] * 9)

    first, second = model(), model()
    dying = CrashAt(journal, append, before=before)
    with suppress(SimulatedCrash):
        await agent_of(first, dying).run("Go", session="ana")
    known = count_withheld(await events_of(journal))
    if not await events_of(journal):
        return
    result = await agent_of(second, journal).resume("ana")
    assert result.output == "Done."
    texts = results_of(result.messages)
    assert texts[0] == WITHHELD_TEXT
    assert texts[1] in (WITHHELD_TEXT, WITHHELD_DOUBT_TEXT)
    assert count_withheld(await events_of(journal)) == 1
    if known:
        assert not any(map(is_evil, second.requests))


async def test_a_second_refusal_ends_the_turn_and_the_next_message_is_answered() -> None:
    journal, refusals = MemoryJournal(), [0]

    def refuse(request: ModelRequest) -> Any:
        refusals[0] += 1
        return ProviderError("refused", info=REFUSED)

    model = ScriptedModel([read_page("bad")], refuse, refuse, "Hi.")
    agent = agent_of(model, journal)
    with pytest.raises(ProviderError, match="refused"):
        await agent.run("Go", session="ana")
    assert refusals == [2]
    result = await agent.run("More", session="ana")
    assert result.output == "Hi."
    assert results_of(model.requests[-1].messages) == [WITHHELD_TEXT]


async def test_without_new_results_a_refusal_ends_the_turn_as_before() -> None:
    journal = MemoryJournal()
    model = filtered([read_page("good")], "Done.", "Hi.")
    agent = agent_of(model, journal)
    await agent.run("Go", session="ana")
    with pytest.raises(ProviderError):
        await agent.run("Something evil", session="ana")
    assert len(model.requests) == 3
    result = await agent.run("More", session="ana")
    assert [one.text for one in result.messages if one.role == "user"] == ["Go", "More"]
    assert results_of(result.messages) == ["good is fine"]
    assert not count_withheld(await events_of(journal))


async def test_results_of_an_earlier_turn_that_no_model_has_seen() -> None:
    journal = MemoryJournal()
    model = filtered([read_page("bad")], "Hi.", "Bye.")
    agent = agent_of(model, journal)
    with pytest.raises(LimitError):
        await agent.run("Go", session="ana", limits=Limits(iterations=1))
    result = await agent.run("More", session="ana")
    assert result.output == "Hi."
    assert results_of(result.messages) == [WITHHELD_TEXT]
    assert [
        event.key for event in await events_of(journal) if isinstance(event, ResultsWithheld)
    ] == ["t2.i0.withheld"]


async def test_a_refusal_of_the_next_results_is_one_of_its_own() -> None:
    journal = MemoryJournal()
    model = filtered([read_page("bad")], [read_page("bad", 1)], "Done.")
    result = await agent_of(model, journal).run("Go", session="ana")
    assert result.output == "Done."
    keys = [event.key for event in await events_of(journal) if isinstance(event, ResultsWithheld)]
    assert keys == ["t1.i1.withheld", "t1.i2.withheld"]


async def test_results_of_calls_that_code_made_since_the_last_reply() -> None:
    class ReadFirst(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> CallTools | None:
            called = sum(one.role == "assistant" for one in context.messages)
            name = "good" if called else "bad"
            return CallTools(("page", {"name": name})) if called < 2 else None

    journal = MemoryJournal()
    model = filtered("Done.")
    result = await agent_of(model, journal, middleware=[ReadFirst()]).run("Go", session="ana")
    assert result.output == "Done."
    assert results_of(result.messages) == [WITHHELD_TEXT] * 2
    assert len(model.requests) == 2


async def test_hooks_see_one_call_and_its_final_outcome() -> None:
    seen: list[str] = []

    class Watch(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> None:
            seen.append(f"before {context.iteration} {results_of(context.messages)}")

        async def after_reply(self, context: AfterReply) -> None:
            seen.append(f"reply {context.iteration}")

        async def on_error(self, context: OnError) -> None:
            seen.append("error")

        async def after_iteration(self, context: AfterIteration) -> None:
            seen.append(f"after {context.iteration}")

    await agent_of(filtered([read_page("bad")], "Done."), middleware=[Watch()]).run("Go")
    assert seen == [
        "before 0 []",
        "reply 0",
        "after 0",
        "before 1 ['bad is evil']",
        f"before 1 {[WITHHELD_TEXT]}",
        "reply 1",
        "after 1",
    ]


async def test_the_tokens_of_the_refused_request_count() -> None:
    def refuse(request: ModelRequest) -> Any:
        empty = Reply((), ReplyKind.FILTERED, usage=Usage(input=7))
        info = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="no", code="filtered")
        return FilteredError("no", info=info, partial=empty)

    journal = MemoryJournal()
    agent = agent_of(ScriptedModel([read_page("bad")], refuse, "Done."), journal)
    result = await agent.run("Go", session="ana")
    assert result.usage == Usage(input=27, output=10)
    assert result.iterations == 2
    limited = agent_of(
        ScriptedModel([read_page("bad")], refuse, "Done."),
        middleware=[UsageLimits(model_calls=2)],
    )
    stopped = (await limited.run("Go")).output
    assert stopped.startswith("The limit of model calls is reached (2 of 2)")


async def test_a_reply_that_the_filter_cut_is_no_refused_request() -> None:
    def cut(request: ModelRequest) -> Any:
        info = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="no", code="filtered")
        return FilteredError("no", info=info, partial=Reply((Text("First, "),), ReplyKind.FILTERED))

    journal = MemoryJournal()
    with pytest.raises(FilteredError):
        await agent_of(ScriptedModel([read_page("good")], cut), journal).run("Go", session="ana")
    assert not count_withheld(await events_of(journal))


async def test_text_of_the_refused_reply_is_withdrawn_from_a_stream() -> None:
    def refuse(request: ModelRequest) -> Any:
        return ProviderError("no", info=REFUSED, partial=Reply((Text("I see"),)))

    agent = agent_of(ScriptedModel([read_page("bad")], refuse, "Done."))
    async with agent.stream("Go") as run:
        kinds = [type(item).__name__ async for item in run]
    assert run.result.output == "Done."
    begin = kinds.index("AttemptAbandoned")
    assert kinds[begin : begin + 4] == [
        "AttemptAbandoned",
        "ResultsWithheld",
        "AttemptStarted",
        "TextDelta",
    ]
    async with agent_of(ScriptedModel([read_page("bad")], refuse, "Done.")).stream("Go") as run:
        texts = [text async for text in run.text()]
    assert "".join(texts) == "Done."


async def test_an_agent_that_is_a_tool_withholds_its_own_results() -> None:
    inner = agent_of(filtered([read_page("bad")], "I cannot say."), name="helper")
    outer_model = filtered([ToolCall("h", "helper", '{"task": "look"}')], "Done.")
    journal = MemoryJournal()
    outer = agent_of(outer_model, journal, tools=[inner.as_tool()])
    result = await outer.run("Go", session="ana")
    assert results_of(result.messages) == ["I cannot say."]
    assert count_withheld(await events_of(journal, "ana/t1.i0.tool.0")) == 1
    assert not count_withheld(await events_of(journal))


async def test_a_fallback_model_may_refuse_too() -> None:
    down = ProviderError("down", info=DOWN)
    first = ScriptedModel([read_page("bad")], down, down, name="scripted:first")
    second = filtered("Done.")
    journal = MemoryJournal()
    result = await agent_of(first, journal, fallback=[second]).run("Go", session="ana")
    assert result.output == "Done."
    assert results_of(result.messages) == [WITHHELD_TEXT]
    [event] = [one for one in await events_of(journal) if isinstance(one, ResultsWithheld)]
    assert [one.target for one in event.tried] == ["scripted:first"]
    assert len(result.tried) == 2


async def test_replay_fork_rewind_and_a_reader_of_the_session() -> None:
    journal = MemoryJournal()
    model = filtered([read_page("bad")], "Done.", "Hi.", "Bye.", "Again.")
    agent = agent_of(model, journal)
    await agent.run("Go", session="ana")
    await agent.run("More", session="ana")
    played = await replay(journal, agent, run="ana")
    assert results_of(played.messages) == [WITHHELD_TEXT]
    sessions = Sessions(journal)
    copy = await sessions.fork("ana", 1)
    forked = await agent.run("And?", session=copy)
    await sessions.rewind("ana", 1)
    rewound = await agent.run("And?", session="ana")
    assert results_of(forked.messages) == results_of(rewound.messages) == [WITHHELD_TEXT]


async def test_a_snapshot_knows_what_a_model_has_answered() -> None:
    machine = SessionMachine()
    machine.apply(TurnOpened("t1", 0.0, user("Go")))
    machine.apply(ModelReplied("t1.i0.model", 0.0, Reply((read_page("good"),))))
    machine.apply(ToolsBegun("t1.i0.begun", 0.0))
    result = ToolResult("c0", "page", (Text("fine"),))
    machine.apply(ToolFinished("t1.i0.tool.0", 0.0, result))
    machine.apply(ModelReplied("t1.i1.model", 0.0, Reply((Text("x"),)), attempts=0))
    machine.apply(TurnClosed("t1.closed", 0.0, machine.status))
    snapshot = machine.take_snapshot()
    assert snapshot is not None
    restored = SessionMachine()
    restored.restore_snapshot(snapshot)
    rewound = SessionMachine()
    rewound.restore_snapshot(snapshot)
    rewound.apply(SessionRewound("t2", 0.0, 1))
    for number, one in ((2, machine), (2, restored), (3, rewound)):
        one.apply(TurnOpened(f"t{number}", 0.0, user("More")))
        assert one.turn_history.find_new_results(one.transcript) == (result,)


def test_the_doubt_about_a_call_stays() -> None:
    content = (Text(EVIL),)
    done, failed, doubt = (
        ToolResult("1", "page", content),
        ToolResult("1", "page", content, is_error=True),
        ToolResult("1", "page", content, is_error=True, in_doubt=True),
    )
    texts = [withhold(one) for one in (done, failed, doubt)]
    assert [one.text for one in texts if isinstance(one, ToolResult)] == [
        WITHHELD_TEXT,
        WITHHELD_FAILURE_TEXT,
        WITHHELD_DOUBT_TEXT,
    ]
    assert [withhold(one) for one in texts] == texts


def test_nothing_is_withheld_twice() -> None:
    machine = SessionMachine()
    machine.apply(TurnOpened("t1", 0.0, user("Go")))
    with pytest.raises(IllegalEventError):
        machine.apply(ResultsWithheld("t1.i0.withheld", 0.0, REFUSED))
    machine.apply(ModelReplied("t1.i0.model", 0.0, Reply((read_page("bad"),))))
    machine.apply(ToolFinished("t1.i0.tool.0", 0.0, ToolResult("c0", "page", (Text(EVIL),))))
    before = machine.pending_effects()
    machine.apply(ResultsWithheld("t1.i1.withheld", 0.0, REFUSED, lost=Usage(input=3)))
    assert machine.pending_effects() == before
    assert machine.usage == Usage(input=3)
    with pytest.raises(IllegalEventError):
        machine.apply(ResultsWithheld("t1.i1.withheld", 0.0, REFUSED))


@pytest.mark.slow  # takes half a second or more
@given(
    turns=st.lists(
        st.lists(
            st.lists(st.tuples(NAMES, ARGUMENTS, st.booleans()), min_size=1, max_size=3), max_size=3
        ),
        min_size=1,
        max_size=3,
    ),
    wire=st.sampled_from(WIRES),
)
def test_whatever_was_called_and_refused_the_next_message_is_accepted(
    turns: list[list[list[tuple[str, str, bool]]]], wire: str
) -> None:
    machine = SessionMachine()
    for number, batches in enumerate(turns, 1):
        machine.apply(TurnOpened(turn_key(number), 0.0, user("Go")))
        for iteration, batch in enumerate(batches):
            calls = tuple(
                ToolCall(f"c{at}", name, text) for at, (name, text, _) in enumerate(batch)
            )
            key = machine.pending_effects()[0].key
            machine.apply(ModelReplied(key, 0.0, Reply(calls)))
            for at, (call, (_, _, evil)) in enumerate(zip(calls, batch, strict=True)):
                result = ToolResult(call.id, call.name, (Text(EVIL if evil else "fine"),))
                machine.apply(ToolFinished(tool_key(number, iteration, at), 0.0, result))
            if any(evil for _, _, evil in batch):
                withheld = withheld_key(number, iteration + 1)
                machine.apply(ResultsWithheld(withheld, 0.0, REFUSED))
        machine.apply(ModelReplied(machine.pending_effects()[0].key, 0.0, Reply((Text("Ok."),))))
        machine.apply(TurnClosed(f"t{number}.closed", 0.0, machine.status))
    history = [*machine.transcript, user("Next")]
    request = accepted(wire, history, "weather")
    assert request.text == "Next"
    assert EVIL not in str(request.body)
