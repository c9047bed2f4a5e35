"""A tool that runs only when somebody says so.

The model wants to pay too much. A person sees the call before it runs and lets it pay less.

It prints:

    may pay run with {'amount': 500, 'to': 'Ana'}?
    yes, but with 50
    paid 50 to Ana
    Done: 50 went to Ana.
"""

import asyncio

from holdfast import Agent, PermissionQuestion, ToolCall, ToolFinished, ToolPermission, tool
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, call


@tool(effect="write")
def pay(amount: int, to: str) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def choose_reply(request: EmulatedRequest) -> str | list[ToolCall]:
    """Pays, then tells."""
    if request.tool_results:
        return "Done: 50 went to Ana."
    return [call("pay", {"amount": 500, "to": "Ana"})]


async def main() -> None:
    """Run, and answer what the run asks."""
    async with Emulator(choose_reply) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="any",
            tools=[pay],
            middleware=[ToolPermission(ask=["pay"])],
        )
        async with agent.stream("Pay Ana what I owe her.") as run:
            async for item in run:
                if isinstance(item, PermissionQuestion):
                    print(f"may {item.tool} run with {dict(item.arguments)}?")
                    print("yes, but with 50")
                    run.answer(item.approve(arguments={**item.arguments, "amount": 50}))
                elif isinstance(item, ToolFinished):
                    print(item.result.text)
        print(run.result.output)


if __name__ == "__main__":
    asyncio.run(main())
