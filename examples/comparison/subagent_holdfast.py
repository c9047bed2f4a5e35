"""A subagent: one agent writes jokes, another one chooses the best."""

import asyncio

from holdfast import Agent

MODEL = "openai:gpt-5.2"


async def main() -> str:
    """Choose one joke."""
    writer = Agent(MODEL, name="write_jokes", instructions="Write five jokes.", output=list[str])
    chooser = Agent(MODEL, instructions="Choose the best joke.", tools=[writer.as_tool()])
    result = await chooser.run("Tell me a joke about cats.")
    print(result.usage)
    return result.output


if __name__ == "__main__":
    print(asyncio.run(main()))
