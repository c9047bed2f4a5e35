"""The chunks of a turn: live, from the journal, and for a reader that continues."""

from __future__ import annotations

from tests.server.protocols.chatting import (
    build,
    kinds,
    make_agent,
    make_service,
    show_chunks,
    shown_parts,
)

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Reasoning, Reply, Text, ToolCall
from holdfast.server.protocols.vercel.chat_history import read_history
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, call, thinking

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
