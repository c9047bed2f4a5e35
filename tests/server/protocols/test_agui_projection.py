"""The events of a run: exactly these, live and for a client that attaches."""

from __future__ import annotations

from typing import Any

from tests.server.protocols.agui_reader import AguiReader
from tests.server.protocols.chatting import make_agent, make_service
from tests.server.protocols.told import show_items, talk_with_search

from holdfast import Agent
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import Status
from holdfast.core.messages import Reasoning, Reply, Text, ToolCall, ToolResult, Usage
from holdfast.event_log.display.display_items import (
    AgentStarted,
    CallReady,
    DisplayItem,
    ResultShown,
    StepStarted,
    TurnEnded,
    TurnWaits,
)
from holdfast.hosting.tenant_service import TenantService
from holdfast.server.protocols.agui.message_list import MessageList, list_messages
from holdfast.server.protocols.agui.projection import AguiProjection
from holdfast.server.protocols.session_turns import list_turns, show_turn
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, call, thinking

PAY = ToolCall("c1", "pay", '{"amount": 3}')


async def show_events(service: TenantService, after: int | None = None) -> list[dict[str, Any]]:
    """Return the events of the last turn, until it rests."""
    turn = (await list_turns(service, "ada"))[-1]
    records = (await service.journal.read("ada"))[: turn.sequence if after is None else after]
    projection = AguiProjection("ada", "r1", MessageList("ada", list_messages("ada", records)))
    events = list(projection.start(None if after is None else []))
    async for item, _, is_new in show_turn(service, "ada", turn, after, counts_all=False):
        events += projection.feed(item) if is_new else ()
    reader = AguiReader()
    for event in events:
        reader.take(event)
    return events


ENDS = {"threadId": "ada", "runId": "r1"}
USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
STARTED = {"type": "RUN_STARTED", **ENDS, "protocolVersion": "1.0"}


async def test_withheld_results_are_told() -> None:
    info = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="refused", status=400)
    refuse = ProviderError("refused", info=info)
    model = ScriptedModel(ToolCall("c1", "unknown", "{}"), refuse, "Hello.")
    service = make_service(make_agent(model))
    await service.start("clerk", "Hi.", session="ada")
    told = {"tools": ("unknown",), "reason": "refused"}
    events = await show_events(service)
    assert {"type": "CUSTOM", "name": "results_withheld", "value": told} in events
    assert events[-1]["result"] == {"status": "completed"}
    assert await show_events(service, after=0) != []


async def test_the_events_of_a_text() -> None:
    service = make_service(make_agent(ScriptedModel("Hello.")))
    await service.start("clerk", "Hi.", session="ada")
    assert await show_events(service) == [
        STARTED,
        {"type": "STEP_STARTED", "stepName": "t1.i0"},
        {"type": "TEXT_MESSAGE_START", "messageId": "ada.t1.i0", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "ada.t1.i0", "delta": "Hello."},
        {"type": "TEXT_MESSAGE_END", "messageId": "ada.t1.i0"},
        {"type": "STEP_FINISHED", "stepName": "t1.i0"},
        {
            "type": "RUN_FINISHED",
            **ENDS,
            "outcome": {"type": "success"},
            "result": {"status": "completed"},
            "usage": [USAGE],
        },
    ]


async def test_the_events_of_an_approval_and_of_the_run_that_continues() -> None:
    asking = Reply((Reasoning("Hm."), Text("I ask."), PAY), usage=Usage(10, 5), model="m")
    service = make_service(make_agent(ScriptedModel(asking, "Done.")))
    await service.start("clerk", "Pay 3.", session="ada", metadata={"message_id": "m1"})
    first = await show_events(service)
    reasoning, message = {"messageId": "ada.t1.i0.reasoning"}, {"messageId": "ada.t1.i0"}
    assert first[:-1] in (
        [*_asked(reasoning, message), {"type": "STEP_FINISHED", "stepName": "t1.i0"}],
        [
            *_asked(reasoning, message, corrected=True),
            {"type": "STEP_FINISHED", "stepName": "t1.i0"},
        ],
    )
    (interrupt,) = first[-1]["outcome"]["interrupts"]
    question = (await (await service.agent_of("ada")).questions("ada"))[0]
    assert interrupt["id"] == f"{question.key}~{question.binding}"
    assert first[-1]["usage"] == [{**USAGE, "model": "m"}]
    seen = len(await service.journal.read("ada"))
    await service.answer("ada", question.approve(by="ann"))
    rest = await show_events(service, seen)
    assert [one["id"] for one in rest[1]["messages"]] == ["m1", "ada.t1.i0.reasoning", "ada.t1.i0"]
    assert rest[2] == {
        "type": "TOOL_CALL_RESULT",
        "messageId": "ada.t1.i0.tool.0.result",
        "toolCallId": "t1.i0.tool.0",
        "content": "paid 3",
        "role": "tool",
    }
    assert [one["type"] for one in rest[3:]] == [
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert rest[-1]["usage"] == [USAGE], "and not those of the run before"


def _asked(
    reasoning: dict[str, str], message: dict[str, str], *, corrected: bool = False
) -> list[dict[str, Any]]:
    """Return the events of the first step; live text came before reasoning that is only in the record."""
    called = {"toolCallId": "t1.i0.tool.0"}
    text = [
        {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": "I ask."},
        {"type": "TEXT_MESSAGE_END", **message},
    ]
    streamed = [
        text[0],
        {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": "I"},
        {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": " ask."},
        text[2],
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [{"id": "m1", "role": "user", "content": "Pay 3."}],
            "metadata": {
                "@ag-ui/client": {"authoritativeActivityTypes": ["hosted_tool", "sources"]}
            },
        },
    ]
    return [
        STARTED,
        {"type": "STEP_STARTED", "stepName": "t1.i0"},
        *(streamed if corrected else []),
        {"type": "REASONING_START", **reasoning},
        {"type": "REASONING_MESSAGE_START", **reasoning, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", **reasoning, "delta": "Hm."},
        {"type": "REASONING_MESSAGE_END", **reasoning},
        {"type": "REASONING_END", **reasoning},
        *text,
        {
            "type": "TOOL_CALL_START",
            **called,
            "toolCallName": "pay",
            "parentMessageId": "ada.t1.i0",
        },
        {"type": "TOOL_CALL_ARGS", **called, "delta": '{"amount": 3}'},
        {"type": "TOOL_CALL_END", **called},
    ]


async def test_an_abandoned_attempt_is_replaced_by_a_snapshot() -> None:
    replies = [[thinking("Which?"), "I look.", call("weather", {"city": "Porto"})], "18 degrees."]
    async with Emulator(replies, faults=[DropAfter(12), None, DropAfter(2)]) as provider:
        agent = make_agent(
            "anthropic:m", base_url=provider.base_url, api_key="k", clock=FakeClock()
        )
        service = make_service(agent)
        await service.start("clerk", "Hi.", session="ada")
        events = await show_events(service)
    reader = AguiReader()
    for event in events:
        reader.take(event)
    assert "MESSAGES_SNAPSHOT" in [one["type"] for one in events]
    shown = [one for one in reader.shown() if one["role"] != "user"]
    assert shown == list_messages("ada", await service.journal.read("ada"))[1:]
    assert [one["role"] for one in shown] == ["reasoning", "assistant", "tool", "assistant"]


async def test_a_run_that_fails_or_is_cancelled() -> None:
    service = make_service(make_agent(ScriptedModel(PAY)))
    await service.start("clerk", "Pay.", session="ada")
    await show_events(service)
    await service.cancel("ada")
    assert (await show_events(service))[-1]["outcome"] == {"type": "cancelled"}
    await service.start("clerk", "Again.", session="ada")
    failed = (await show_events(service))[-1]
    assert (failed["type"], failed["code"]) == ("RUN_ERROR", "client_error")


async def test_a_search_of_the_provider_and_its_source_are_activities() -> None:
    talk = await talk_with_search(DropAfter(13), None)
    projection = AguiProjection("ada", "r1", MessageList("ada"))
    events = [*projection.start()]
    events += [event for shown in show_items(talk.live) for event in projection.feed(shown)]
    types = [one["type"] for one in events]
    assert "ACTIVITY_SNAPSHOT" in types[: types.index("MESSAGES_SNAPSHOT")]
    reader = AguiReader()
    for event in events:
        reader.take(event)
    shown = [one for one in reader.shown() if one["role"] != "user"]
    assert shown == list_messages("ada", await talk.journal.read("ada"))[1:]
    text, searched, sources = shown
    assert text["content"] == "I look. There are six."
    assert (searched["id"], searched["activityType"]) == ("ada.t1.i0.hosted.0", "hosted_tool")
    assert searched["content"]["name"] == "web_search"
    assert searched["content"]["finished"] is True
    assert sources["content"]["sources"][0]["url"] == "https://porto.pt"


async def test_an_agent_in_a_tool_has_a_beginning_its_text_and_an_end() -> None:
    inner = Agent(ScriptedModel("Rain."), name="forecaster")
    ask = ToolCall("c", "forecaster", '{"task": "Porto?"}')
    agent = Agent(ScriptedModel(ask, "It rains."), name="clerk", tools=[inner.as_tool()])
    service = make_service(agent)
    await service.start("clerk", "Hi.", session="ada")
    events = await show_events(service)
    call, run = "t1.i0.tool.0", {"subagentRunId": "t1.i0.tool.0.forecaster"}
    assert [one for one in events if "subagentRunId" in one] == [
        {"type": "SUBAGENT_STARTED", **run, "name": "forecaster", "parentToolCallId": call},
        {
            "type": "CUSTOM",
            "name": "agent_text",
            "value": {"toolCallId": call, "offset": 0, "text": "Rain."},
            **run,
        },
        {"type": "SUBAGENT_FINISHED", **run},
    ]


def test_nested_agents_end_from_within_and_a_failure_is_told() -> None:
    def feed(*items: DisplayItem) -> list[dict[str, Any]]:
        projection = AguiProjection("ada", "r1", MessageList("ada"))
        events = [*projection.start(), *(one for item in items for one in projection.feed(item))]
        reader = AguiReader()
        for event in events:
            reader.take(event)
        return [one for one in events if str(one["type"]).startswith("SUBAGENT")]

    call = "t1.i0.tool.0"
    begun = [
        StepStarted("t1.i0"),
        CallReady("t1.i0", call, "a", "{}"),
        AgentStarted(call, ("a", "b")),
    ]
    result = ToolResult(call, "a", (Text("No."),), is_error=True)
    *_, inner, outer = feed(*begun, ResultShown(call, result), TurnEnded(Status.COMPLETED))
    assert (inner["type"], inner["subagentRunId"]) == ("SUBAGENT_FINISHED", f"{call}.a.b")
    assert (outer["type"], outer["message"]) == ("SUBAGENT_ERROR", "No.")
    first, second, *ends = feed(*begun, TurnWaits(()))
    assert second["parentSubagentRunId"] == first["subagentRunId"]
    assert [one["outcome"] for one in ends] == [{"type": "suspended"}] * 2
