"""Streaming: show the text while the model writes it."""

import asyncio

from holdfast import Agent

MODEL = "openai:gpt-5.2"


async def main() -> str:
    """Show one story, and return it whole."""
    agent = Agent(MODEL)
    async with agent.stream("Tell a short story.") as run:
        async for text in run.text(live=True):
            print(text, end="", flush=True)
    return run.result.output


if __name__ == "__main__":
    asyncio.run(main())
