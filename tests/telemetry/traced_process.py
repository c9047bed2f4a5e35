"""A process of an agent with traces: `python -m tests.telemetry.traced_process JOURNAL URL begin|continue`.

The tool of the one that begins kills its process. The one that continues recovers the turn. With a journal in
PostgreSQL both are workers, and the first one submits the turn.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from holdfast import Agent, PostgresJournal, SqliteJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.telemetry import OpenTelemetry
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker

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

    in_postgres = path.startswith("postgresql:")
    replies = [ToolCall("1", "work"), "Hi."] if begins else ["Hi."]
    agent = Agent(
        ScriptedModel(*replies),
        tools=[work],
        journal=PostgresJournal(path) if in_postgres else SqliteJournal(path),
        observers=[OpenTelemetry(tracer_provider=provider)],
    )
    if in_postgres:
        async with Worker(agent):
            # The same request is the same turn.
            run = await agent.submit("Go", session="s", trace=PARENT, request="r")
            print((await run.wait(60)).status.value)
    elif begins:
        await agent.run("Go", session="s", trace=PARENT)
    else:
        (run,) = await agent.recover()
        print(run.status.value)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
