"""Approval: a person decides whether a tool may run."""

import asyncio

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool

MODEL = "openai:gpt-5.2"


def ask_person(words: str) -> bool:
    """Ask in the terminal."""
    return input(f"{words} [y/n] ") == "y"


def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted"


async def main() -> str:
    """Delete one file, after an approval."""
    tool = Tool(delete_file, requires_approval=True)
    agent = Agent(MODEL, tools=[tool], output_type=[str, DeferredToolRequests])
    result = await agent.run("Delete a.txt.")
    while isinstance(result.output, DeferredToolRequests):
        answers = DeferredToolResults()
        for call in result.output.approvals:
            answers.approvals[call.tool_call_id] = ask_person(f"{call.tool_name} {call.args}?")
        history = result.all_messages()
        result = await agent.run(message_history=history, deferred_tool_results=answers)
    return result.output


if __name__ == "__main__":
    print(asyncio.run(main()))
