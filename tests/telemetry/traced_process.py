"""A process of an agent with traces: `python -m tests.telemetry.traced_process JOURNAL URL begin|continue`.

The tool of the one that begins kills its process. The one that continues recovers the turn.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from holdfast import Agent, SqliteJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.telemetry import OpenTelemetry
from holdfast.testing import ScriptedModel

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def main(path: str, url: str, act: str) -> None:
    """Begin a turn, or continue it."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    begins = act == "begin"

    @tool(effect="idempotent")
    def work() -> str:
        """Work."""
        if begins:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    replies = [ToolCall("1", "work"), "Hi."] if begins else ["Hi."]
    agent = Agent(
        ScriptedModel(*replies),
        tools=[work],
        journal=SqliteJournal(path),
        observers=[OpenTelemetry(tracer_provider=provider)],
    )
    if begins:
        await agent.run("Go", session="s", trace=PARENT)
    else:
        (run,) = await agent.recover()
        print(run.status.value)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
