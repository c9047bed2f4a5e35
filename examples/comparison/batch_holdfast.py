"""A batch: translate many texts, four at once, with two retries, in their order."""

import asyncio

from holdfast import Agent

MODEL = "openai:gpt-5.2"


async def main(texts: list[str]) -> list[str | None]:
    """Translate the texts; None stands for a text that failed."""
    agent = Agent(MODEL, instructions="Translate to Portuguese.")
    batch = await agent.map(texts, parallel=4, retries=2)
    for item in batch.failures:
        print(item.item, item.error)
    print(batch.usage.total, "tokens")
    return batch.outputs


if __name__ == "__main__":
    print(asyncio.run(main(["one", "two", "three"])))
