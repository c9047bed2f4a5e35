"""Approval: a person decides whether a tool may run."""

import asyncio

from holdfast import Agent, PermissionQuestion, ToolPermission

MODEL = "openai:gpt-5.2"


def ask_person(words: str) -> bool:
    """Ask in the terminal."""
    return input(f"{words} [y/n] ") == "y"


def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted"


async def main() -> str:
    """Delete one file, after an approval."""
    rules = ToolPermission(ask=["delete_file"])
    agent = Agent(MODEL, tools=[delete_file], middleware=[rules])
    async with agent.stream("Delete a.txt.") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                allowed = ask_person(f"{item.tool} {item.arguments}?")
                run.answer(item.approve() if allowed else item.deny())
    return run.result.output


if __name__ == "__main__":
    print(asyncio.run(main()))
