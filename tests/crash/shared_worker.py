"""One of several processes over a PostgreSQL journal: `python -m tests.crash.shared_worker URL FOLDER WORD`.

"run" begins a turn of the session "ada" whose model asks for a quick tool and for a slow one, which
ends when there is a file `free`; "recover" looks until there was something to recover, and says
"nothing" before. Every tool notes in the folder that it ran. The last line says how it ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast import Agent, HoldfastError, PostgresJournal, tool
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.testing import ScriptedModel

LEASE = 1.0


def answer(request: ModelRequest) -> Reply | str:
    """Two calls, and then what the tools said."""
    last = request.messages[-1]
    if last.role == "user":
        city = '{"city": "Porto"}'
        return Reply((ToolCall("a", "quick", city), ToolCall("b", "slow", city)))
    return " | ".join(part.text for part in last.parts if isinstance(part, ToolResult))


def agent_for(journal: object, folder: Path) -> Agent[str]:
    """The agent that all of them run."""

    def note(name: str) -> None:
        with (folder / "ran").open("a") as out:
            out.write(f"{name}\n")

    @tool(effect="write")
    async def quick(city: str) -> str:
        """Book at once."""
        note("quick")
        return f"booked {city}"

    @tool(effect="write")
    async def slow(city: str) -> str:
        """Book, some day."""
        note("slow")
        while not (folder / "free").exists():
            await asyncio.sleep(0.005)
        return f"booked {city}"

    return Agent(ScriptedModel(*[answer] * 50), name="booker", tools=[quick, slow], journal=journal)


async def main(url: str, folder: Path, word: str) -> None:
    with PostgresJournal(url, lease=LEASE) as journal:
        agent = agent_for(journal, folder)
        try:
            if word == "run":
                print((await agent.run("book", session="ada")).output, flush=True)
                return
            while not (found := await agent.recover()):
                print("nothing", flush=True)
                await asyncio.sleep(0.02)
            print([(one.run_id, one.result.output if one.result else one.error) for one in found])
        except HoldfastError as error:
            print(type(error).__name__, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
