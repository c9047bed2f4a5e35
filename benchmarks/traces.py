"""`python -m benchmarks.traces`: the cost of OpenTelemetry in a turn, beside the bare calls that make the same spans.

Three loops are compared by CPU time: turns without an observer, turns with one, and the calls of the SDK alone
(spans, attributes, metrics), which one turn with an observer makes. The spans go to a processor that drops them.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import Token
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from holdfast import Agent, tool
from holdfast.core.messages import ToolCall
from holdfast.telemetry import OpenTelemetry
from holdfast.telemetry import genai_names as names
from holdfast.telemetry.span_fold import AddValue, EndSpan, SpanStep, StartSpan
from holdfast.testing import ScriptedModel

TURNS = 400
ROUNDS = 7


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "a room"


class Dropping(SpanProcessor):
    """Drops every span."""


def make_agent(observers: list[Any]) -> Agent[str]:
    """Return an agent whose turns have two calls of the model and one of a tool."""
    call = ToolCall("1", "look")
    answers = [one for _ in range(TURNS) for one in (call, "done")]
    return Agent(ScriptedModel(*answers), tools=[look], observers=observers)


def run_turns(observers: list[Any]) -> float:
    """Return the CPU seconds of one turn."""
    agent = make_agent(observers)

    async def run() -> float:
        began = time.process_time()
        for _ in range(TURNS):
            await agent.run("Go")
        return (time.process_time() - began) / TURNS

    return asyncio.run(run())


def record_steps(observer: OpenTelemetry) -> list[SpanStep]:
    """Return the steps of one turn."""
    found: list[SpanStep] = []
    writer: Any = vars(observer)["_writer"]

    class Recording(type(writer)):  # type: ignore[misc]
        """Keeps the steps that it applies."""

        __slots__ = ()

        def _apply(self, drive: Any, steps: list[SpanStep]) -> None:
            found.extend(steps)
            super()._apply(drive, steps)

    writer.__class__ = Recording
    asyncio.run(_run_once(observer))
    return found


async def _run_once(observer: OpenTelemetry) -> None:
    model = ScriptedModel(ToolCall("1", "look"), "done")
    await Agent(model, tools=[look], observers=[observer]).run("Go")


def call_sdk(tracer: trace.Tracer, instruments: dict[str, Any], steps: list[SpanStep]) -> float:
    """Return the CPU seconds of the bare calls of one turn."""
    began = time.process_time()
    for _ in range(TURNS):
        spans: dict[str, trace.Span] = {}
        tokens: dict[str, Token[Context]] = {}
        for step in steps:
            if isinstance(step, StartSpan):
                context = trace.set_span_in_context(spans[step.parent]) if step.parent else None
                span = spans[step.id] = tracer.start_span(
                    step.name, context, attributes=step.attributes, start_time=step.at
                )
                tokens[step.id] = attach(trace.set_span_in_context(span))
            elif isinstance(step, EndSpan):
                span = spans[step.id]
                detach(tokens[step.id])
                span.set_attributes(step.attributes)
                span.end(step.at)
            elif isinstance(step, AddValue):
                instruments[step.metric](step.value, step.attributes)
    return (time.process_time() - began) / TURNS


def main() -> None:
    """Measure, and print the least of several rounds."""
    provider, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    provider.add_span_processor(Dropping())
    observer = OpenTelemetry(tracer_provider=provider, meter_provider=meters)
    meter = meters.get_meter("bare")
    instruments: dict[str, Any] = {
        **{one: meter.create_histogram(one).record for one in names.HISTOGRAMS},
        **{one: meter.create_counter(one).add for one in names.COUNTERS},
        **{one: meter.create_gauge(one).set for one in names.GAUGES},
    }
    steps = record_steps(OpenTelemetry(tracer_provider=provider, meter_provider=meters))
    spans = sum(isinstance(step, StartSpan) for step in steps)
    tracer = provider.get_tracer("bare")
    off = on = bare = float("inf")
    for _ in range(ROUNDS):
        off = min(off, run_turns([]))
        on = min(on, run_turns([observer]))
        bare = min(bare, call_sdk(tracer, instruments, steps))
    print(f"a turn without an observer: {off * 1e6:.0f} us CPU")
    print(f"a turn with one: {on * 1e6:.0f} us CPU, {spans} spans")
    print(f"the bare calls of the SDK: {bare * 1e6:.0f} us CPU")
    print(f"cost of being on: {(on - off) / bare:.2f} times the bare calls")


if __name__ == "__main__":
    main()
