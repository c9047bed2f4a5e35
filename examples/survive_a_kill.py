"""A process is killed in the middle of a booking, and another one goes on where it was.

The flight was booked and its outcome kept: nobody books it again. The hotel was booked, and the
process died before it could say so. A tool that writes is never repeated on suspicion: the model
is told that the outcome is unknown, looks, and sees that all is well.

It prints:

    process 1: flight booked
    process 1: hotel booked
    process 1 was killed by signal 9
    process 2: Function 'book' may have booked or not; looking
    process 2: flight, hotel are booked.
    booked, each once: flight hotel
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast import Agent, ToolCall, ToolResult, tool
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, call


def choose_reply(request: EmulatedRequest) -> str | list[ToolCall]:
    """Books a flight, then a hotel; looks when it does not know what became of one."""
    results = [
        part
        for message in request.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    if len(results) < 2:
        return [call("book", {"what": ("flight", "hotel")[len(results)]})]
    if "unknown" in results[-1].text:
        print("process 2: Function 'book' may have booked or not; looking", flush=True)
        return [call("booked", {})]
    return f"{results[-1].text} are booked."


def agent_in(folder: Path, provider: str, *, dies: bool) -> Agent[str]:
    """The same agent in each process; in the first one, the hotel is fatal."""
    book_of_bookings = folder / "bookings.txt"

    @tool(effect="write")
    def book(what: str) -> str:
        """Book something, for good."""
        with book_of_bookings.open("a") as file:
            file.write(f"{what}\n")
        print(f"process {1 if dies else 2}: {what} booked", flush=True)
        if dies and what == "hotel":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{what} booked"

    @tool(effect="read")
    def booked() -> str:
        """What is booked."""
        return ", ".join(book_of_bookings.read_text().split())

    return Agent(
        "openai:demo",
        base_url=provider,
        api_key="any",
        tools=[book, booked],
        journal=f"sqlite:///{folder}/journal.db",
    )


def first_process(folder: Path, provider: str) -> None:
    """Begins, and does not live to see the end."""
    agent_in(folder, provider, dies=True).run_sync("Book my trip.", session="trip")


async def main() -> None:
    """Let one process die, and go on in this one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Emulator(choose_reply) as provider:
            command = [sys.executable, __file__, str(folder), provider.base_url]
            died = await asyncio.to_thread(subprocess.run, command, check=False)
            print(f"process 1 was killed by signal {-died.returncode}", flush=True)
            agent = agent_in(folder, provider.base_url, dies=False)
            for recovered in await agent.recover():
                if recovered.result is not None:
                    print(f"process 2: {recovered.result.output}")
        print("booked, each once:", *(folder / "bookings.txt").read_text().split())


if __name__ == "__main__":
    if sys.argv[1:]:
        first_process(Path(sys.argv[1]), sys.argv[2])
    else:
        asyncio.run(main())
