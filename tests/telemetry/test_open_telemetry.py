"""The observer for OpenTelemetry: where spans belong, across drives and agents, and what it never does."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest
from aiohttp import web
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from tests.openapi.api_server import document_of, make_toolset, serve_api
from tests.telemetry.recorded_spans import Recorder, draw_tree

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import TurnOpened
from holdfast.core.import_part import import_part
from holdfast.core.messages import Media, Reply, Text, ToolCall, Usage, user
from holdfast.core.questions import Approved
from holdfast.middleware import ToolPermission
from holdfast.models import Prices
from holdfast.telemetry import OpenTelemetry
from holdfast.telemetry import genai_names as names
from holdfast.telemetry.genai_content import encode_messages, encode_reply
from holdfast.telemetry.observers import CURRENT_TRACE
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@tool(effect="read")
def look() -> str:
    """Look."""
    return "a room"


LOOK = ToolCall("1", "look")


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


async def begin(journal: Any, recorder: Recorder, at: int = 2, **more: Any) -> None:
    """Begin a turn in a process that ends."""
    crashing = CrashAt(journal, at)
    agent = Agent(
        ScriptedModel(LOOK), tools=[look], journal=crashing, observers=[recorder.observer]
    )
    with pytest.raises(SimulatedCrash):
        await agent.run("Go", session="s", **more)


async def test_the_trace_of_the_caller_is_the_parent() -> None:
    recorder = Recorder()
    await Agent(ScriptedModel("Hi"), observers=[recorder.observer]).run("Go", trace=PARENT)
    (drive,) = recorder.named("invoke_agent")
    assert (ids(drive)[0], parent_of(drive)) == (PARENT[3:35], PARENT[36:52])


async def test_the_current_span_is_the_parent_and_a_tool_works_within_its_span() -> None:
    recorder = Recorder()
    inside: list[int] = []

    @tool(effect="read")
    def look() -> str:  # in a thread
        """Look."""
        inside.append(trace.get_current_span().get_span_context().span_id)
        return "a room"

    tracer = recorder.provider.get_tracer("application")
    agent = Agent(ScriptedModel(LOOK, "Hi"), tools=[look], observers=[recorder.observer])
    with tracer.start_as_current_span("request"):
        await agent.run("Go")
    assert draw_tree(recorder.spans).splitlines()[:2] == [
        "request",
        "  invoke_agent agent status=completed",
    ]
    (work,) = recorder.named("execute_tool")
    assert work.context is not None
    assert inside == [work.context.span_id]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_turn_that_another_process_continues_is_in_the_same_trace() -> None:
    journal, first, second = MemoryJournal(), Recorder(), Recorder()
    await begin(journal, first)
    agent = Agent(ScriptedModel("Hi"), tools=[look], journal=journal, observers=[second.observer])
    await agent.resume("s")
    (before,), (after,) = first.named("invoke_agent"), second.named("invoke_agent")
    assert ids(before)[0] == ids(after)[0]
    assert parent_of(after) == ids(before)[1]  # the turn has no caller: its first drive is the root
    assert [f"{link.context.span_id:016x}" for link in after.links] == [ids(before)[1]]
    assert draw_tree(second.spans).splitlines()[0] == (
        "invoke_agent agent status=completed continued=True"
    )


async def test_each_drive_is_linked_to_the_one_before() -> None:
    journal, recorders = MemoryJournal(), [Recorder(), Recorder(), Recorder()]
    await begin(journal, recorders[0], trace=PARENT)
    crashing = CrashAt(journal, 1)  # after the result of the tool
    with pytest.raises(SimulatedCrash):
        await Agent(
            ScriptedModel("Hi"), tools=[look], journal=crashing, observers=[recorders[1].observer]
        ).resume("s")
    await Agent(
        ScriptedModel("Hi"), tools=[look], journal=journal, observers=[recorders[2].observer]
    ).resume("s")
    drives = [one.named("invoke_agent")[0] for one in recorders]
    assert {ids(one)[0] for one in drives} == {PARENT[3:35]}
    assert {parent_of(one) for one in drives} == {PARENT[36:52]}
    links = [[f"{link.context.span_id:016x}" for link in one.links] for one in drives]
    assert links == [[], [ids(drives[0])[1]], [ids(drives[1])[1]]]


async def test_a_journal_saves_no_trace_without_an_observer_or_a_caller() -> None:
    journal = MemoryJournal()
    await Agent(ScriptedModel("Hi"), journal=journal).run("Go", session="s")
    opened = (await journal.read("s"))[0].event
    assert isinstance(opened, TurnOpened)
    assert opened.options is None


async def test_a_malformed_trace_is_ignored_and_counted() -> None:
    recorder = Recorder()
    before = recorder.measures()["holdfast.traceparents.ignored"][0][1]
    agent = Agent(ScriptedModel("Hi", "Hi"), observers=[recorder.observer])
    for text in ("garbage", "00-" + "0" * 32 + "-b7ad6b7169203331-01"):
        await agent.run("Go", trace=text)
    after = recorder.measures()["holdfast.traceparents.ignored"][0][1]
    assert after - (before if isinstance(before, int) else 0) == 2
    assert all(one.parent is None for one in recorder.named("invoke_agent"))


async def test_metrics_have_the_names_and_attributes_of_the_conventions() -> None:
    recorder = Recorder()
    usage = Usage(100, 20, cached_input=60, reasoning=5, audio_input=7)
    reply = Reply((LOOK,), usage=usage, model="m-2")
    prices = Prices({"*": {"input": "1", "output": "2", "audio_input": "1"}})
    agent = Agent(
        ScriptedModel(reply, "Hi"),
        tools=[look],
        observers=[recorder.observer],
        prices=prices,
        clock=FakeClock(),
    )
    result = await agent.run("Go")
    found = recorder.measures()
    assert {
        "gen_ai.client.inference.duration",
        "gen_ai.client.inference.usage.input_tokens",
        "gen_ai.client.inference.usage.output_tokens",
        "gen_ai.client.inference.usage.cache_read.input_tokens",
        "gen_ai.client.inference.usage.reasoning.output_tokens",
        "gen_ai.invoke_agent.duration",
        "gen_ai.invoke_agent.inference_calls",
        "gen_ai.invoke_agent.tool_calls",
        "gen_ai.execute_tool.duration",
        "holdfast.attempts",
        "holdfast.cost",
    } <= found.keys()
    counts = found["gen_ai.client.inference.usage.input_tokens"]
    assert sum(value for _, value in counts) == result.usage.input
    modalities = {said["gen_ai.token.modality"]: value for said, value in counts if value != 10}
    assert modalities == {"audio": 7, "unknown": 93}
    assert all(said["gen_ai.operation.name"] == "chat" for said, _ in counts)
    assert result.cost is not None
    paid = sum(value for _, value in found["holdfast.cost"])
    assert paid == pytest.approx(float(result.cost.amount))
    assert sum(value for _, value in found["holdfast.attempts"]) == 2


async def test_content_is_written_only_if_it_is_wanted() -> None:
    message = user(
        "My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.",
        Media("image/png", data=b"1234"),
        Media("image/png", url="https://example.com/a.png"),
    )
    for content in (False, True):
        recorder = Recorder(content=content)
        agent = Agent(
            ScriptedModel(LOOK, "x" * 20_000),
            instructions="Be brief.",
            tools=[look],
            observers=[recorder.observer],
        )
        await agent.run(message)
        chats = [dict(one.attributes or {}) for one in recorder.named("chat")]
        work = dict(recorder.named("execute_tool")[0].attributes or {})
        assert (names.INPUT_MESSAGES in chats[0]) is content
        assert (names.TOOL_CALL_RESULT in work) is content
        everything = str([dict(one.attributes or {}) for one in recorder.spans])
        assert "sk-proj" not in everything
    sent, said = str(chats[1][names.INPUT_MESSAGES]), str(chats[1][names.OUTPUT_MESSAGES])
    assert '"type":"uri","modality":"image"' in sent
    assert '"type":"blob"' in sent
    assert '"type":"tool_call_response","id":"1","response":"a room"' in sent
    assert chats[0][names.SYSTEM_INSTRUCTIONS] == '[{"type":"text","content":"Be brief."}]'
    assert work[names.TOOL_CALL_RESULT] == "a room"
    assert len(said) < 10_000


class Failing(SpanProcessor):
    """A processor that raises."""

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        raise RuntimeError("on_start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("on_end")


async def test_a_processor_that_raises_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    recorder.provider.add_span_processor(Failing())
    agent = Agent(ScriptedModel(LOOK, "Hi"), tools=[look], observers=[recorder.observer])
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert (await agent.run("Go")).output == "Hi"
    assert len([one for one in caplog.records if "could not be recorded" in one.message]) == 1
    assert not trace.get_current_span().get_span_context().is_valid


async def test_many_turns_at_once_do_not_mix() -> None:
    recorder = Recorder()

    async def reply(_request: object) -> str:
        await asyncio.sleep(0)
        return "Hi"

    agent = Agent(ScriptedModel(*[reply] * 20), observers=[recorder.observer])
    await asyncio.gather(*(agent.run("Go", session=f"s{number}") for number in range(20)))
    trees = draw_tree(recorder.spans)
    assert trees.count("invoke_agent agent status=completed\n  chat model\n    holdfast") == 20
    assert not recorder.observer._writer.drives


async def test_without_an_sdk_nothing_is_recorded_and_no_trace_is_saved() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("Hi"), journal=journal, observers=[OpenTelemetry()])
    assert (await agent.run("Go", session="s")).output == "Hi"
    opened = (await journal.read("s"))[0].event
    assert isinstance(opened, TurnOpened)
    assert opened.options is None


def test_a_wrong_argument_is_named() -> None:
    with pytest.raises(ConfigurationError, match="content"):
        OpenTelemetry(content="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tracer_provider"):
        OpenTelemetry(tracer_provider=7)  # type: ignore[arg-type]


async def test_a_suspended_turn_is_continued_in_the_same_trace() -> None:
    journal, recorder = MemoryJournal(), Recorder()
    agent = Agent(
        ScriptedModel(LOOK, "Hi"),
        tools=[look],
        middleware=[ToolPermission(ask=["look"])],
        journal=journal,
        on_wait="suspend",
        observers=[recorder.observer],
    )
    waiting = await agent.run("Go", session="s")
    await agent.answer("s", waiting.questions[0], Approved())
    assert (await agent.resume("s")).output == "Hi"
    first, second = recorder.named("invoke_agent")
    assert ids(first)[0] == ids(second)[0]
    lines = draw_tree(recorder.spans).splitlines()
    assert lines[0] == "invoke_agent agent status=waiting"
    assert "  holdfast.question outcome=open" in lines


def test_a_text_that_holds_no_unicode_is_written() -> None:
    reply = Reply((Text("\ud800"), ToolCall("\ud800", "a\udfff", "{")))
    assert "tool_call" in encode_reply(reply)
    assert encode_messages([reply.message])


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.telemetry.open_telemetry")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ModuleNotFoundError, match=r"\[otel\]"):
        import_part("holdfast.telemetry.open_telemetry")


async def test_a_tool_of_an_http_api_sends_the_place_of_its_span() -> None:
    recorder = Recorder()
    paths = {
        "/rooms": {"get": {"operationId": "rooms", "responses": {"200": {"description": "a"}}}}
    }
    async with serve_api(web.json_response(["a room"])) as server:
        toolset = make_toolset(document_of(paths), base_url=server.base_url)
        agent = Agent(
            ScriptedModel(ToolCall("1", "rooms"), "Hi"),
            toolsets=[toolset],
            observers=[recorder.observer],
        )
        assert (await agent.run("Go", trace=PARENT)).output == "Hi"
        ((_, _, headers, _),) = server.requests
    (work,) = recorder.named("execute_tool")
    sent = {name.lower(): value for name, value in headers.items()}["traceparent"]
    assert sent == f"00-{PARENT[3:35]}-{ids(work)[1]}-01"
    assert CURRENT_TRACE.get() == ""
