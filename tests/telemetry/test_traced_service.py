"""Traces of turns that are started over HTTP, or submitted to a queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.server.serving import Api, serve
from tests.telemetry.recorded_spans import Recorder, draw_tree
from tests.telemetry.test_open_telemetry import PARENT, ids, parent_of

from holdfast import Agent, MemoryJournal
from holdfast.cli.main import main
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import TurnOpened
from holdfast.server import create_app
from holdfast.telemetry import OpenTelemetry
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker


async def start_turn(recorder: Recorder, agent: Agent[str], headers: dict[str, str]) -> None:
    """Start a turn over HTTP, and wait for its end."""
    async with (
        serve(create_app(agent, observe=[recorder.observer])) as base,
        Api(base, headers=headers) as api,
    ):
        await api.items("/turns", {"agent": "clerk", "message": "Hi.", "session": "s"})


async def test_a_turn_of_a_request_is_in_the_trace_of_the_request() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedModel("Hello."), name="clerk")
    await start_turn(recorder, agent, {"traceparent": PARENT})
    (drive,) = recorder.named("invoke_agent")
    assert (ids(drive)[0], parent_of(drive)) == (PARENT[3:35], PARENT[36:52])


async def test_a_malformed_header_is_ignored() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedModel("Hello."), name="clerk")
    await start_turn(recorder, agent, {"traceparent": "00-xyz"})
    (drive,) = recorder.named("invoke_agent")
    assert drive.parent is None


async def test_an_agent_that_observes_itself_too_is_observed_once() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedModel("Hello."), name="clerk", observers=[recorder.observer])
    await start_turn(recorder, agent, {})
    assert len(recorder.named("invoke_agent")) == 1


async def test_a_submitted_turn_is_in_the_trace_of_the_code_that_submits_it() -> None:
    recorder, journal = Recorder(), MemoryJournal()
    agent = Agent(
        ScriptedModel("Hello.", "Hello."),
        name="clerk",
        journal=journal,
        observers=[recorder.observer],
    )
    async with Worker(agent):
        with recorder.provider.get_tracer("application").start_as_current_span("request") as span:
            run = await agent.submit("Hi.", session="s")
        await run.wait(20)
        given = await agent.submit("Hi.", session="t", trace=PARENT)
        await given.wait(20)
    mine, other = recorder.named("invoke_agent")
    here = span.get_span_context()
    assert (ids(mine)[0], parent_of(mine)) == (f"{here.trace_id:032x}", f"{here.span_id:016x}")
    assert (ids(other)[0], parent_of(other)) == (PARENT[3:35], PARENT[36:52])
    assert "    holdfast.queue" in draw_tree(recorder.spans).splitlines()
    assert "holdfast.queue.duration" in recorder.measures()
    opened = (await journal.read("t"))[0].event
    assert isinstance(opened, TurnOpened)
    assert opened.options is not None
    assert opened.options.trace == PARENT


async def test_the_same_submission_in_another_trace_is_the_same() -> None:
    agent = Agent(ScriptedModel("Hello."), name="clerk", journal=MemoryJournal())
    first = await agent.submit("Hi.", request="r", trace=PARENT)
    assert (await agent.submit("Hi.", request="r")).id == first.id


def test_an_observer_of_a_service_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="observers"):
        create_app(Agent(ScriptedModel()), observe=[OpenTelemetry])  # type: ignore[list-item]


class Lost:
    """An observer that cannot say where it is."""

    def on_event(self, _seen: object) -> None:
        """Do nothing."""

    def find_trace(self) -> str:
        raise RuntimeError("nowhere")


async def test_an_observer_that_finds_no_trace_changes_no_submission(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent(ScriptedModel(), name="clerk", journal=MemoryJournal(), observers=[Lost()])
    assert (await agent.submit("Hi.")).id
    assert any("find_trace" in one.message for one in caplog.records)


def test_the_option_otel_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert main(["run", "Hi.", "--model", "ollama:m", "--otel"]) == 2
    said: Any = capsys.readouterr()
    assert "--otel: needs opentelemetry" in said.err
    assert "pip install" in said.err


async def test_turns_at_once_in_one_service_have_their_own_traces() -> None:
    recorder = Recorder()

    async def answer(_request: object) -> str:
        await asyncio.sleep(0)
        return "Hello."

    agent = Agent(ScriptedModel(*[answer] * 8), name="clerk")
    async with serve(create_app(agent, observe=[recorder.observer])) as base:

        async def start(number: int) -> None:
            trace = f"00-{number + 1:032x}-b7ad6b7169203331-01"
            async with Api(base, headers={"traceparent": trace}) as api:
                body = {"agent": "clerk", "message": "Hi.", "session": f"s{number}"}
                await api.items("/turns", body)

        await asyncio.gather(*(start(number) for number in range(8)))
    drives = recorder.named("invoke_agent")
    assert {int(ids(one)[0], 16) for one in drives} == set(range(1, 9))
