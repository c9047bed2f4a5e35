"""A batch: translate many texts, four at once, with two retries, in their order."""

import asyncio

from pydantic_ai import Agent, ModelAPIError, RunUsage

MODEL = "openai:gpt-5.2"


async def main(texts: list[str]) -> list[str | None]:
    """Translate the texts; None stands for a text that failed."""
    agent = Agent(MODEL, instructions="Translate to Portuguese.")
    places, usage = asyncio.Semaphore(4), RunUsage()

    async def translate(text: str) -> str | None:
        async with places:
            for attempt in range(3):
                try:
                    return (await agent.run(text, usage=usage)).output
                except ModelAPIError as error:
                    if attempt == 2:
                        print(text, error)
                    await asyncio.sleep(2**attempt)
        return None

    outputs = await asyncio.gather(*map(translate, texts))
    print(usage.total_tokens, "tokens")
    return outputs


if __name__ == "__main__":
    print(asyncio.run(main(["one", "two", "three"])))
