"""An approval that takes its time: the run ends as waiting, and goes on when somebody has said yes.

No process waits. The question is in the journal, where another process finds it, answers it, and
goes on with the run.

It prints:

    waiting: may refund run with {'order': 17, 'euros': 900}?
    --- two days later, in another process ---
    open: t1.i0.tool.0.ask.0, may refund run?
    refunded 900 euros for order 17
    completed: Order 17 is refunded.
"""

import asyncio
import tempfile

from holdfast import Agent, PermissionQuestion, ToolCall, ToolPermission, tool
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, call


@tool(effect="write")
def refund(order: int, euros: int) -> str:
    """Give money back."""
    print(f"refunded {euros} euros for order {order}")
    return "done"


def choose_reply(request: EmulatedRequest) -> str | list[ToolCall]:
    """Refunds, then tells."""
    if request.tool_results:
        return "Order 17 is refunded."
    return [call("refund", {"order": 17, "euros": 900})]


def agent_of(provider: Emulator, folder: str) -> Agent[str]:
    """The same agent in each process."""
    return Agent(
        "openai:demo",
        base_url=provider.base_url,
        api_key="any",
        tools=[refund],
        middleware=[ToolPermission(ask=["refund"])],
        journal=f"sqlite:///{folder}/journal.db",
        on_wait="suspend",
    )


async def main() -> None:
    """Ask, end, answer, go on."""
    with tempfile.TemporaryDirectory() as folder:
        async with Emulator(choose_reply) as provider:
            result = await agent_of(provider, folder).run("Refund order 17.", session="order 17")
            for question in result.questions:
                if isinstance(question, PermissionQuestion):
                    asked = f"may {question.tool} run with {dict(question.arguments)}?"
                    print(f"{result.status}: {asked}")

            print("--- two days later, in another process ---")
            agent = agent_of(provider, folder)
            for question in await agent.questions("order 17"):
                if isinstance(question, PermissionQuestion):
                    print(f"open: {question.key}, may {question.tool} run?")
                    await agent.answer("order 17", question.approve())
            result = await agent.resume("order 17")
            print(f"{result.status}: {result.output}")


if __name__ == "__main__":
    asyncio.run(main())
