"""A service with a few sessions, for programs that send it anything: prints its address.

usage: python conformance/schemathesis/fuzzed_service.py
"""

import asyncio
import socket
import sys

import uvicorn

from holdfast import Agent, MemoryJournal, StructuredOutput, ToolPermission, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.server import AccessLimits, AccessOptions, create_app
from holdfast.testing import ScriptedModel

_MANY = 200_000


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def reply(request: ModelRequest) -> Reply | str:
    """Ask for a payment once, and then say something."""
    if request.messages[-1].role == "user" and "pay" in request.messages[-1].text.lower():
        return Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    return "This is a reply with some text."


async def main() -> None:
    """Serve until the process is killed."""
    permission = ToolPermission(ask=["pay"])
    payer = Agent(
        ScriptedModel(*([reply] * _MANY)), name="payer", tools=[pay], middleware=[permission]
    )
    counter = Agent(
        ScriptedModel(*(['{"value": 3}'] * _MANY)), name="counter", output=StructuredOutput(int)
    )
    journal = MemoryJournal()
    for name, message in (("ada", "Hello."), ("eve", "Hello."), ("waits", "Pay 3.")):
        agent = Agent(
            ScriptedModel(reply, reply),
            name="payer",
            tools=[pay],
            middleware=[permission],
            journal=journal,
            on_wait="suspend",
        )
        await agent.run(message, session=name)
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # so that asyncio sends small pieces at once
    listener.bind(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/openapi.json\n")
    sys.stdout.flush()
    # Else most of the requests to start a turn would be answered with 429.
    limits = AccessLimits(requests_per_minute=_MANY, turns_per_minute=_MANY, waiting_turns=_MANY)
    app = create_app([payer, counter], journal=journal, access=AccessOptions(limits=limits))
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
