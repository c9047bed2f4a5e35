"""The chunks of a turn: live, from the journal, and for a reader that continues."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.server.protocols.chatting import (
    build,
    kinds,
    make_agent,
    make_service,
    show_chunks,
    shown_parts,
)
from tests.server.protocols.told import saved_items, show_items, talk_with_search

from holdfast import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    FinishReason,
    Media,
    Reasoning,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.event_log.display.display_fold import NO_RESULT
from holdfast.event_log.display.display_items import (
    AgentStarted,
    AgentTextShown,
    CallReady,
    DisplayItem,
    ResultShown,
    StepStarted,
)
from holdfast.event_log.stream_items import StreamItem
from holdfast.server.protocols.vercel.projection import VercelProjection
from holdfast.server.protocols.vercel.provider_chunks import Chunk
from holdfast.server.protocols.vercel.ui_messages import read_history
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, call, hosted_call, thinking
from holdfast.testing.emulator.script import expand_hosted

CALL = "t1.i0.tool.0"
PAY = ToolCall("c1", "pay", '{"amount": 3}')


async def test_a_text_is_one_step() -> None:
    service = make_service(make_agent(ScriptedModel("Hello you.")))
    await service.start("clerk", "Hi.", session="ada")
    chunks = await show_chunks(service)
    assert kinds(chunks) == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert shown_parts(chunks) == [
        {"type": "step-start"},
        {"type": "text", "text": "Hello you.", "state": "done"},
    ]
    assert chunks[0]["messageId"] == "ada.t1"
    message = build(chunks)
    assert message["metadata"]["status"] == "completed"
    assert message["metadata"]["position"] == "3"


async def test_reasoning_a_tool_and_a_file_in_the_order_of_the_reply() -> None:
    picture = Media("image/png", data=b"PNG")
    first = Reply(
        (
            Reasoning("Let me look."),
            Text("One moment."),
            ToolCall("c", "weather", '{"city": "Porto"}'),
        )
    )
    service = make_service(make_agent(ScriptedModel(first, Reply((Text("18."), picture)))))
    await service.start("clerk", "Hi.", session="ada")
    live = shown_parts(await show_chunks(service))
    assert live == shown_parts(await show_chunks(service))
    assert live == [
        {"type": "step-start"},
        {"type": "reasoning", "text": "Let me look.", "state": "done"},
        {"type": "text", "text": "One moment.", "state": "done"},
        {
            "type": "tool-weather",
            "toolCallId": "t1.i0.tool.0",
            "providerExecuted": True,
            "state": "output-available",
            "input": {"city": "Porto"},
            "output": {"city": "Porto", "degrees": 18},
        },
        {"type": "step-start"},
        {"type": "text", "text": "18.", "state": "done"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,UE5H"},
    ]


async def test_an_abandoned_attempt_resets_the_step_with_its_calls_and_reasoning() -> None:
    replies = [
        [thinking("Which city?"), "I look.", call("weather", {"city": "Porto"})],
        "18 degrees.",
    ]
    async with Emulator(replies, faults=[DropAfter(12), None, DropAfter(2)]) as provider:
        agent = make_agent(
            "anthropic:m", base_url=provider.base_url, api_key="k", clock=FakeClock()
        )
        service = make_service(agent)
        await service.start("clerk", "Hi.", session="ada")
        chunks = await show_chunks(service)
        again = await show_chunks(service)
    assert "reset-step" in kinds(chunks)
    assert "data-retry_scheduled" in kinds(chunks)
    assert "reset-step" not in kinds(again)
    assert shown_parts(chunks) == shown_parts(again)
    assert [part["type"] for part in shown_parts(chunks)] == [
        "step-start",
        "reasoning",
        "text",
        "tool-weather",
        "step-start",
        "text",
    ]


async def test_an_approval_is_requested_answered_and_continued_at_its_place() -> None:
    service = make_service(make_agent(ScriptedModel(PAY, "Done.")))
    await service.start("clerk", "Pay 3.", session="ada")
    first = await show_chunks(service)
    (step, part) = shown_parts(first)
    question = (await (await service.agent_of("ada")).questions("ada"))[0]
    assert part["state"] == "approval-requested"
    assert part["approval"]["id"] == f"{question.key}~{question.binding}"
    assert part["approval"]["descriptor"]["arguments"] == {"amount": 3}
    assert first[-1]["finishReason"] == "tool-calls"
    place = int(build(first)["metadata"]["position"])
    assert await service.answer("ada", question.approve(by="ann"))
    rest = await show_chunks(service, place)
    assert kinds(rest) == [
        "start",
        "tool-approval-response",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    joined = shown_parts(first + rest[1:])
    assert joined == shown_parts(await show_chunks(service))
    assert joined[1]["output"] == "paid 3"
    assert joined[1]["approval"]["approved"] is True
    assert step == {"type": "step-start"}


async def test_a_denied_call_is_denied() -> None:
    service = make_service(make_agent(ScriptedModel(PAY, "As you wish.")))
    await service.start("clerk", "Pay 3.", session="ada")
    await show_chunks(service)
    question = (await (await service.agent_of("ada")).questions("ada"))[0]
    await service.answer("ada", question.deny("Too much."))
    parts = shown_parts(await show_chunks(service))
    assert parts[1]["state"] == "output-denied"
    assert parts[1]["approval"]["reason"] == "Too much."


async def test_a_question_is_a_dynamic_tool_whose_output_is_the_answer() -> None:
    script = ScriptedModel(ToolCall("c1", "book", '{"nights": 2}'), "Booked.")
    service = make_service(make_agent(script))
    await service.start("clerk", "Book.", session="ada")
    first = await show_chunks(service)
    asked = shown_parts(first)[-1]
    assert (asked["type"], asked["toolName"]) == ("dynamic-tool", "clarification_question")
    assert asked["input"] == {"question": "Where?", "options": ["Porto", "Faro"], "source": ""}
    question = (await (await service.agent_of("ada")).questions("ada"))[0]
    await service.answer("ada", question.answer("Porto"))
    parts = shown_parts(await show_chunks(service))
    assert [part.get("output") for part in parts if "toolCallId" in part] == [
        "2 nights in Porto",
        "Porto",
    ]


async def test_a_failed_turn_ends_with_its_error_and_a_cancelled_one_with_abort() -> None:
    service = make_service(make_agent(ScriptedModel(ConfigurationError("model", "is gone"), PAY)))
    await service.start("clerk", "Hi.", session="ada")
    chunks = await show_chunks(service)
    assert kinds(chunks)[-2:] == ["message-metadata", "error"]
    assert build(chunks)["metadata"]["status"] == "failed"
    await service.start("clerk", "Pay.", session="ada")
    await show_chunks(service)
    await service.cancel("ada")
    chunks = await show_chunks(service)
    assert kinds(chunks)[-1] == "abort"
    assert shown_parts(chunks)[1]["state"] == "output-error"


async def test_the_history_is_what_was_shown_and_without_rewound_turns() -> None:
    script = ScriptedModel("One.", PAY, "Two.")
    service = make_service(make_agent(script))
    await service.start("clerk", "First", session="ada", metadata={"message_id": "m1"})
    first = build(await show_chunks(service))
    await service.start("clerk", "Pay 3.", session="ada")
    second = build(await show_chunks(service))
    messages = read_history("ada", await service.journal.read("ada"), {"pay"})
    assert messages[0] == {
        "id": "m1",
        "role": "user",
        "parts": [{"type": "text", "text": "First"}],
    }
    assert [message["parts"] for message in (messages[1], messages[3])] == [
        first["parts"],
        second["parts"],
    ]
    await service.cancel("ada")
    await service.sessions.rewind("ada", 1)
    messages = read_history("ada", await service.journal.read("ada"), {"pay"})
    assert [message["id"] for message in messages] == ["m1", "ada.t1"]


def word(items: Iterable[StreamItem]) -> list[Chunk]:
    """Return the chunks for the items of a turn."""
    projection = VercelProjection("ada", 1)
    worded = [chunk for shown in show_items(items) for chunk in projection.feed(shown, "1")]
    return [projection.start(), *worded]


async def test_a_search_of_the_provider_and_its_source_live_and_from_the_journal() -> None:
    talk = await talk_with_search()
    live, again = word(talk.live), word(saved_items(await talk.events()))
    assert "reset-step" not in kinds(live)
    assert shown_parts(live) == shown_parts(again)
    assert shown_parts(live) == [
        {"type": "step-start"},
        {"type": "text", "text": "I look. ", "state": "done"},
        {
            "type": "dynamic-tool",
            "toolName": "web_search",
            "toolCallId": "t1.i0.hosted.0",
            "providerExecuted": True,
            "state": "output-available",
            "input": {"query": "bridges"},
            "output": "porto.pt https://porto.pt",
        },
        {"type": "text", "text": "There are six.", "state": "done"},
        {
            "type": "source-url",
            "sourceId": "t1.i0.source.0",
            "url": "https://porto.pt",
            "title": "Porto",
        },
    ]
    first_output = next(at for at, one in enumerate(live) if one["type"] == "tool-output-available")
    last_text = max(at for at, one in enumerate(live) if one["type"] == "text-delta")
    assert first_output < last_text, "it is shown while the reply is streamed"


async def test_a_search_whose_result_is_in_the_next_reply_gets_it_there() -> None:
    call, result = expand_hosted([hosted_call("web_search", {"query": "q"})], "anthropic", 1)
    paused = Reply((call,), finish=FinishReason.PAUSE, kind=ReplyKind.PAUSED)
    service = make_service(make_agent(ScriptedModel(paused, Reply((result, Text("Done."))))))
    await service.start("clerk", "Hi.", session="ada")
    parts = shown_parts(await show_chunks(service))
    assert [one["type"] for one in parts] == ["step-start", "dynamic-tool", "step-start", "text"]
    assert (parts[1]["state"], parts[1]["input"]) == ("output-available", {"query": "q"})


async def test_a_search_that_never_ends_is_an_error_at_the_end_of_the_turn() -> None:
    call, _ = expand_hosted([hosted_call("web_search", {"query": "q"})], "anthropic", 1)
    service = make_service(make_agent(ScriptedModel(Reply((call, Text("Done."))))))
    await service.start("clerk", "Hi.", session="ada")
    parts = shown_parts(await show_chunks(service))
    assert (parts[1]["state"], parts[1]["errorText"]) == ("output-error", NO_RESULT)


@pytest.mark.parametrize("chunks", range(4, 14))
async def test_an_attempt_that_breaks_off_beside_a_search_leaves_no_trace(chunks: int) -> None:
    talk = await talk_with_search(DropAfter(chunks), None)
    live = word(talk.live)
    assert "reset-step" in kinds(live)
    if chunks > 12:
        assert "tool-output-available" in kinds(live)[: kinds(live).index("reset-step")]
    assert shown_parts(live) == shown_parts(word(saved_items(await talk.events())))


async def test_a_reader_who_missed_the_search_is_shown_it_at_its_place() -> None:
    talk = await talk_with_search()
    missed = [one for one in talk.live if getattr(one, "name", "")[:6] != "hosted"]
    assert "reset-step" in kinds(word(missed))
    assert shown_parts(word(missed)) == shown_parts(word(talk.live))


def test_what_an_agent_in_a_tool_writes_is_a_preliminary_output() -> None:
    projection = VercelProjection("ada", 1, {"research"})
    shown: list[DisplayItem] = [
        StepStarted("t1.i0"),
        CallReady("t1.i0", CALL, "research", "{}"),
        AgentStarted(CALL, ("research",)),
        *(AgentTextShown(CALL, ("research",), at, "x") for at in range(1000)),
        AgentTextShown(CALL, ("research",), 0, "Found it."),
        AgentTextShown(CALL, ("research", "inner"), 0, "hidden"),
    ]
    chunks = [projection.start(), *(one for item in shown for one in projection.feed(item, "1"))]
    outputs = [one for one in chunks if one["type"] == "tool-output-available"]
    assert sum(len(str(one["output"])) for one in outputs) < 6000
    part = shown_parts(chunks)[-1]
    assert (part["output"], part["preliminary"]) == ("Found it.", True)
    result = ResultShown(CALL, ToolResult(CALL, "research", (Text("The answer."),)))
    part = shown_parts([*chunks, *projection.feed(result, "2")])[-1]
    assert (part["output"], "preliminary" in part) == ("The answer.", False)


async def test_an_agent_in_a_tool_is_shown_while_it_works() -> None:
    inner = Agent(ScriptedModel("Rain."), name="forecaster")
    ask = ToolCall("c", "forecaster", '{"task": "Porto?"}')
    agent = Agent(ScriptedModel(ask, "It rains."), name="clerk", tools=[inner.as_tool()])
    service = make_service(agent)
    await service.start("clerk", "Hi.", session="ada")
    chunks = await show_chunks(service)
    assert "Rain." in [one.get("output") for one in chunks if one.get("preliminary")]
    assert shown_parts(chunks) == shown_parts(await show_chunks(service))
