"""The processes that are measured: `python -m benchmarks.service.served KIND MODEL_URL [PORT]`.

"holdfast" serves an agent until it is ended. "in-process" runs turns of it, as many as
each line of its input says, and answers with its CPU seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from benchmarks.floor import KEY
from benchmarks.service.peers import SCENARIOS

QUESTION = "What will the weather be in Porto tomorrow?"
EMITTED = 100
"""Notices of the tool that tells the time."""


def make_agents(url: str, journal: Any = None) -> list[Any]:
    """Make an agent for each scenario, and one that tells the time a hundred times in five seconds."""
    from holdfast import (  # noqa: PLC0415 - not in the process of another framework
        Agent,
        Reply,
        ToolCall,
        ToolContext,
        tool,
    )
    from holdfast.events import CustomNotice  # noqa: PLC0415
    from holdfast.testing import ScriptedModel  # noqa: PLC0415

    class ClockTold(CustomNotice, frozen=True, kw_only=True):
        """The time."""

        seconds: float

    @tool(effect="read")
    async def tell_time(context: ToolContext) -> str:
        """Tell the time."""
        for _ in range(EMITTED):
            context.emit(ClockTold(seconds=time.monotonic()))
            await asyncio.sleep(0.05)
        return "told"

    def answer(request: Any) -> Reply | str:
        if request.messages[-1].role == "user":
            return Reply((ToolCall("c", "tell_time", "{}"),))
        return "Done."

    clock = Agent(ScriptedModel(*[answer] * 1000), name="clock", tools=[tell_time])
    named = SCENARIOS.items()
    return [
        *(
            Agent(f"openai:{model}", base_url=url, api_key=KEY, name=name, journal=journal)
            for name, model in named
        ),
        clock,
    ]


def serve_holdfast(url: str, port: int) -> None:
    """Serve the agents."""
    import uvicorn  # noqa: PLC0415

    from holdfast import MemoryJournal  # noqa: PLC0415
    from holdfast.server import (  # noqa: PLC0415
        AccessLimits,
        AccessOptions,
        create_app,
    )

    limits = AccessLimits(
        streams_per_key=10_000, turns_per_minute=1_000_000, requests_per_minute=1_000_000
    )
    journal = MemoryJournal()
    app = create_app(make_agents(url), journal=journal, access=AccessOptions(limits=limits))
    uvicorn.run(
        app,
        port=port,
        log_level="warning",
        loop="asyncio",
        access_log=False,
        proxy_headers=False,  # as `holdfast serve` does: the application reads them itself
        server_header=False,
    )


async def run_in_process(url: str) -> None:
    """Run turns as a stream that is read to its end; print the CPU seconds of each request."""
    from holdfast import MemoryJournal  # noqa: PLC0415

    turn, deltas, _ = make_agents(url, MemoryJournal())
    number = 0
    for line in sys.stdin:
        name, count = line.split()
        began = time.process_time()
        for _ in range(int(count)):
            number += 1
            agent = turn if name == "turn" else deltas
            async with agent.stream(QUESTION, session=f"s{number}") as run:
                async for _item in run:
                    pass
        print(time.process_time() - began, flush=True)


def main() -> None:
    """Run one of the processes."""
    kind, url, *port = sys.argv[1:]
    if kind == "in-process":
        asyncio.run(run_in_process(url))
    else:
        serve_holdfast(url, int(port[0]))


if __name__ == "__main__":
    main()
