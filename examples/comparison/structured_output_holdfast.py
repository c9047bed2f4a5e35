"""Structured output: read an invoice into an object."""

import asyncio

from pydantic import BaseModel

from holdfast import Agent

MODEL = "openai:gpt-5.2"


class Invoice(BaseModel):
    """An invoice."""

    customer: str
    euros: float


async def main() -> Invoice:
    """Read one invoice."""
    agent = Agent(MODEL, output=Invoice, instructions="Read the invoice.")
    result = await agent.run("Ana pays 20 euros.")
    return result.output


if __name__ == "__main__":
    print(asyncio.run(main()))
