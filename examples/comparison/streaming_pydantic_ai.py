"""Streaming: show the text while the model writes it."""

import asyncio

from pydantic_ai import Agent

MODEL = "openai:gpt-5.2"


async def main() -> str:
    """Show one story, and return it whole."""
    agent = Agent(MODEL)
    async with agent.run_stream("Tell a short story.") as run:
        async for text in run.stream_text(delta=True):
            print(text, end="", flush=True)
        return await run.get_output()


if __name__ == "__main__":
    asyncio.run(main())
