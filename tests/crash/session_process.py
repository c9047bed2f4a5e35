"""A process that a test kills, with one turn of a session: `python -m tests.crash.session_process JOURNAL FOLDER PLAN`.

The plan says what the scripted model does: "plain" answers; "tools" asks for a quick tool and a slow
one that never ends; "again" answers with what it was told; "resume" goes on with the turn itself. Every tool notes in the folder that it ran.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast import Agent, SqliteJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.testing import ScriptedModel


def told(request: ModelRequest) -> str:
    """Return everything that the model reads as its answer."""
    lines = []
    for message in request.messages:
        for part in message.parts:
            text = getattr(part, "text", None) or f"calls {getattr(part, 'name', '?')}"
            lines.append(f"{message.role}: {text}")
    return " | ".join(lines)


async def main(journal: str, folder: Path, plan: str) -> None:
    @tool(effect="write")
    async def quick(city: str) -> str:
        """Book at once."""
        with (folder / "ran").open("a") as out:
            out.write("quick\n")
        return f"booked {city}"

    @tool(effect="write")
    async def slow(city: str) -> str:
        """Book, some day."""
        with (folder / "ran").open("a") as out:
            out.write("slow\n")
        while not (folder / "free").exists():
            await asyncio.sleep(0.005)
        return f"booked {city}"

    calls = (ToolCall("a", "quick", '{"city": "Porto"}'), ToolCall("b", "slow", '{"city": "Faro"}'))
    scripts = {
        "plain": ["Hello, Ada."],
        "tools": [calls, "Done."],
        "again": [told],
        "resume": [told],
    }
    with SqliteJournal(journal) as kept:
        agent = Agent(ScriptedModel(*scripts[plan]), tools=[quick, slow], journal=kept)
        if plan == "resume":
            result = await agent.resume("ada")
        else:
            result = await agent.run(f"prompt {plan}", session="ada")
        print(result.output, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
