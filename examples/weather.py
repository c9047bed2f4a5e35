"""An agent with two tools, over real HTTP, on a bad day.

The provider is an emulator on this machine. It is overloaded once, and the first reply breaks off.
One tool tells the model what to do instead; the other raises something that nobody should read.

It prints:

    forecast of Monday: No forecast before Tuesday. Ask for a later day.
    forecast of Tuesday: 18 degrees, clear sky
    alerts of Porto: Error: Function 'alerts' failed.
    Tuesday will be clear, 18 degrees. I could not look for alerts.
    5 requests for 3 replies
"""

import asyncio

from holdfast import Agent, RetryOptions, ToolCall, ToolError, ToolResult, tool
from holdfast.testing import Emulator
from holdfast.testing.emulator import DropAfter, EmulatedRequest, ErrorResponse, call

SOON = {"retry-after-ms": "50"}


@tool(effect="read", timeout=10)
async def forecast(day: str) -> str:
    """The weather on a day.

    Args:
        day: a day of the week.
    """
    if day == "Monday":
        raise ToolError("No forecast before Tuesday. Ask for a later day.")
    return "18 degrees, clear sky"


@tool(effect="read")
def alerts(city: str) -> list[str]:
    """Warnings for a city."""
    raise ConnectionError(f"postgres://admin:hunter2@10.0.0.5/{city} does not answer")


def choose_reply(request: EmulatedRequest) -> str | list[ToolCall]:
    """What a model might do: ask for Monday, then for Tuesday and the alerts, then answer."""
    if request.iteration == 0:
        return [call("forecast", {"day": "Monday"})]
    if request.iteration == 1:
        return [call("forecast", {"day": "Tuesday"}), call("alerts", {"city": "Porto"})]
    return "Tuesday will be clear, 18 degrees. I could not look for alerts."


async def main() -> None:
    """Ask, and show what the model was told."""
    faults = [ErrorResponse("overloaded", SOON), None, None, DropAfter(3)]
    async with Emulator(choose_reply, faults=faults) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="any",
            tools=[forecast, alerts],
            retry=RetryOptions(max_retries=2, retry_delay=0.05),
        )
        result = await agent.run("Do I need an umbrella in Porto?")
        calls = [part for message in result.messages for part in message.calls]
        parts = [part for message in result.messages for part in message.parts]
        told = [part.text for part in parts if isinstance(part, ToolResult)]
        subjects = ["Monday", "Tuesday", "Porto"]
        for one, subject, text in zip(calls, subjects, told, strict=True):
            print(f"{one.name} of {subject}: {text}")
        print(result.output)
        print(f"{len(provider.requests)} requests for {result.iterations} replies")


if __name__ == "__main__":
    asyncio.run(main())
