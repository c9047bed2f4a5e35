"""A tool with dependencies: the balance of a customer of a bank."""

import asyncio
from dataclasses import dataclass

from pydantic_ai import Agent, RunContext

MODEL = "openai:gpt-5.2"


@dataclass
class Bank:
    """The accounts."""

    euros: dict[str, float]


async def find_balance(context: RunContext[Bank], customer: str) -> float:
    """Return the balance of a customer in euros."""
    return context.deps.euros.get(customer, 0.0)


async def main() -> str:
    """Ask for one balance."""
    agent = Agent(MODEL, deps_type=Bank, tools=[find_balance])
    result = await agent.run("How much money has Ana?", deps=Bank({"Ana": 20.0}))
    return result.output


if __name__ == "__main__":
    print(asyncio.run(main()))
