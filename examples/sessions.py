"""A conversation that outlives its process: kept in a SQLite file, found again by its name.

Two agents stand for two processes. Turns of one session share a history; another session has its
own.

It prints:

    Hello, Ana.
    --- another process ---
    Your name is Ana.
    I do not know your name.
"""

import asyncio
import re
import tempfile
from pathlib import Path

from holdfast import Agent, SqliteJournal
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest


def choose_reply(request: EmulatedRequest) -> str:
    """Knows a name when it stands in the conversation."""
    said = " ".join(message.text for message in request.messages if message.role == "user")
    name = re.search(r"I am (\w+)", said)
    if request.text.startswith("I am"):
        return f"Hello, {request.text.split()[-1].strip('.')}."
    return f"Your name is {name[1]}." if name else "I do not know your name."


async def talk(provider: Emulator, file: Path, turns: list[tuple[str, str]]) -> None:
    """What one process does: opens the file, and takes a few turns."""
    with SqliteJournal(file) as journal:
        agent = Agent("openai:demo", base_url=provider.base_url, api_key="any", journal=journal)
        for session, text in turns:
            result = await agent.run(text, session=session)
            print(result.output)


async def main() -> None:
    """Two processes after each other."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "conversations.db")
        async with Emulator(choose_reply) as provider:
            await talk(provider, file, [("ana", "I am Ana.")])
            print("--- another process ---")
            await talk(provider, file, [("ana", "What is my name?"), ("ben", "What is my name?")])


if __name__ == "__main__":
    asyncio.run(main())
