"""The real exporter: processes that are killed, and a receiver that refuses, hangs or answers late."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.telemetry.otlp_receiver import receive

from holdfast import Agent, tool
from holdfast.core.messages import ToolCall
from holdfast.telemetry import OpenTelemetry
from holdfast.testing import Emulator, ScriptedModel

PARENT = "0af7651916cd43dd8448eb211c80319c"


def run_process(path: Path | str, url: str, act: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.telemetry.traced_process", str(path), url, act]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.slow  # kills and starts processes
def test_a_turn_whose_process_is_killed_is_one_trace_with_two_linked_drives(
    tmp_path: Path,
) -> None:
    with receive() as receiver:
        killed = run_process(tmp_path / "j.db", receiver.url, "begin")
        assert killed.returncode == -9, killed.stderr
        before = list(receiver.spans)
        continued = run_process(tmp_path / "j.db", receiver.url, "continue")
        assert continued.stdout.strip() == "recovered", continued.stderr
        spans = list(receiver.spans)
    assert {one.trace_id.hex() for one in spans} == {PARENT}
    assert sorted(one.name for one in before) == ["chat model", "holdfast.attempt"]
    (chat,) = [one for one in before if one.name == "chat model"]
    (drive,) = [one for one in spans if one.name == "invoke_agent agent"]  # the first never ended
    assert [link.span_id for link in drive.links] == [chat.parent_span_id]
    assert drive.span_id != chat.parent_span_id
    assert drive.parent_span_id.hex() == "b7ad6b7169203331"
    ids = [one.span_id for one in spans]
    assert len(ids) == len(set(ids))
    below = [one.name for one in spans if one.parent_span_id == drive.span_id]
    assert sorted(below) == ["chat model", "execute_tool work"]


@pytest.mark.slow  # kills and starts processes
def test_a_turn_whose_worker_is_killed_is_one_trace_with_two_linked_drives(url: str) -> None:
    with receive() as receiver:
        killed = run_process(url, receiver.url, "begin")
        assert killed.returncode == -9, killed.stderr
        before = list(receiver.spans)
        continued = run_process(url, receiver.url, "continue")
        assert continued.stdout.strip() == "completed", continued.stderr
        spans = list(receiver.spans)
    assert {one.trace_id.hex() for one in spans} == {PARENT}
    (chat,) = [one for one in before if one.name == "chat model"]
    (drive,) = [one for one in spans if one.name == "invoke_agent agent"]
    assert [link.span_id for link in drive.links] == [chat.parent_span_id]
    ids = [one.span_id for one in spans]
    assert len(ids) == len(set(ids))


@tool(effect="read")
def look() -> str:
    """Look."""
    return "a room"


async def run_turns(provider: TracerProvider, number: int) -> float:
    """Run turns with traces, and return the seconds that they took."""
    agent = Agent(
        ScriptedModel(*[ToolCall("1", "look"), "Hi"] * number),
        tools=[look],
        observers=[OpenTelemetry(tracer_provider=provider)],
    )
    began = time.monotonic()
    for _ in range(number):
        assert (await agent.run("Go")).output == "Hi"
    return time.monotonic() - began


@pytest.mark.slow  # takes half a second or more
def test_a_receiver_that_hangs_holds_no_turn_and_fills_no_memory() -> None:
    with receive(hangs=True) as receiver:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{receiver.url}/v1/traces", timeout=60)
        processor = BatchSpanProcessor(
            exporter, max_queue_size=64, schedule_delay_millis=10, max_export_batch_size=16
        )
        provider.add_span_processor(processor)
        asyncio.run(run_turns(provider, 1))
        receiver.wait_for_requests(1)  # and it hangs from now on
        seconds = asyncio.run(run_turns(provider, 50))
        assert seconds < 30.0  # the request hangs for as long as the receiver lives
        assert receiver.requests == 1
        queue = processor._batch_processor._queue
        assert len(queue) <= 64
        receiver.end()
    exporter.shutdown()
    provider.shutdown()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("statuses", [(400,), (503,), (429,)])
def test_a_receiver_that_refuses_changes_no_turn(statuses: tuple[int, ...]) -> None:
    with receive(statuses) as receiver:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{receiver.url}/v1/traces", timeout=10)
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=10))
        asyncio.run(run_turns(provider, 2))
        receiver.wait_for_requests(1)
        asyncio.run(run_turns(provider, 2))
        provider.shutdown()
        assert receiver.spans  # what came after the refusal


@pytest.mark.slow  # takes half a second or more
def test_nobody_listening_changes_no_turn() -> None:
    with receive() as receiver:
        url = receiver.url
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"{url}/v1/traces", timeout=1)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=10))
    assert asyncio.run(run_turns(provider, 2)) < 30.0
    exporter.shutdown()
    provider.shutdown()


@pytest.mark.slow  # starts a process
def test_the_command_run_sends_its_traces_by_the_standard_variables(tmp_path: Path) -> None:
    with receive() as receiver, Emulator(["Hi."]) as emulator:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OPENAI_API_KEY": "k",
            "OTEL_SERVICE_NAME": "club",
        }
        program = "import sys; from holdfast.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "run", "Go", "--otel"]
        command += ["--model", "openai:gpt-5.2", "--base-url", emulator.base_url]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **variables},
            cwd=tmp_path,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        names = [one.name for one in receiver.spans]
    assert "chat gpt-5.2" in names
    assert sum(one.startswith("invoke_agent") for one in names) == 1
    assert "gen_ai.client.inference.usage.input_tokens" in receiver.metrics
