"""The agent of the tests with killed processes: it looks, saves a note, and says so at length.

`python -m tests.server.note_agent JOURNAL PORT MODEL_URL FOLDER SECONDS GRACE` serves it. The writing tool
takes so many seconds; it adds its idempotency key to `notes` in the folder when it begins, and to `saved` when it ends.
`HOLDFAST_LEASE` is the lease of the journal. `HOLDFAST_LATER` is by how many seconds its clock is ahead; whether to pay is asked for an hour.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import uvicorn

from holdfast import Agent, PostgresJournal, Resilience, RetryOptions, ToolPermission, tool
from holdfast.journal.port import Journal
from holdfast.resilience.system_clock import SystemClock
from holdfast.server import create_app
from holdfast.testing.emulator import EmulatedRequest, call
from holdfast.tools.context import ToolContext

LEASE = 1.0


class LaterClock(SystemClock):
    """A clock that is ahead."""

    def now(self) -> float:
        """Return the time so much later."""
        return super().now() + float(os.environ.get("HOLDFAST_LATER", "0"))


def final_text(message: str) -> str:
    """What the agent says at the end of a turn with this message."""
    return f"{message}: " + " ".join(f"word-{number}" for number in range(40))


def answer(request: EmulatedRequest) -> object:
    """The script of the model: look and save a note at once, or pay beside it; and then say so."""
    if request.iteration == 0 and request.text.startswith("Pay"):
        return [call("pay"), call("save", {"note": request.text})]
    if request.iteration == 0:
        return [f"I save {request.text}.", call("look"), call("save", {"note": request.text})]
    return final_text(request.text)


def add_line(path: Path, line: str) -> None:
    """Add a line to a file, whole."""
    with path.open("a") as out:
        out.write(f"{line}\n")


def note_agent(model_url: str, folder: Path, seconds: float) -> Agent[str]:
    """Make the agent."""

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0.01)
        return "nothing new"

    @tool(effect="write")
    async def save(note: str, context: ToolContext) -> str:
        """Save a note."""
        add_line(folder / "notes", context.idempotency_key)
        await asyncio.sleep(seconds)
        add_line(folder / "saved", context.idempotency_key)
        return f"saved {note}"

    @tool(effect="write")
    async def pay() -> str:
        """Pay, if somebody approves it."""
        add_line(folder / "paid", "paid")
        return "paid"

    return Agent(
        "openai:emulated-model",
        base_url=model_url,
        api_key="none",
        name="noter",
        tools=[look, save, pay],
        middleware=[ToolPermission(allow=["look", "save"], ask=["pay"], timeout=3600)],
        clock=LaterClock(),
        retry=RetryOptions(max_retries=20, retry_delay=0.01, max_retry_delay=0.05),
        resilience=Resilience(budget=None, breaker=None),  # a fifth of all calls fails
    )


def main() -> None:
    journal_url, port, model_url, folder, seconds, grace = sys.argv[1:]
    journal: Journal | str = journal_url
    if journal_url.startswith("postgresql:"):
        lease = float(os.environ.get("HOLDFAST_LEASE", LEASE))
        journal = PostgresJournal(journal_url, lease=lease)
    agent = note_agent(model_url, Path(folder), float(seconds))
    app = create_app(agent, journal=journal, grace=float(grace))
    uvicorn.run(app, port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
