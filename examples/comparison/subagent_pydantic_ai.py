"""A subagent: one agent writes jokes, another one chooses the best."""

import asyncio

from pydantic_ai import Agent, RunContext

MODEL = "openai:gpt-5.2"


async def main() -> str:
    """Choose one joke."""
    writer = Agent(MODEL, instructions="Write five jokes.", output_type=list[str])
    chooser = Agent(MODEL, instructions="Choose the best joke.")

    @chooser.tool
    async def write_jokes(context: RunContext[None], task: str) -> list[str]:
        """Write jokes."""
        result = await writer.run(task, usage=context.usage)
        return result.output

    result = await chooser.run("Tell me a joke about cats.")
    print(result.usage)
    return result.output


if __name__ == "__main__":
    print(asyncio.run(main()))
