"""An agent with tools, as a process that can be killed: `python -m tests.server.protocols.chat_program`.

Arguments: the port, the journal and the address of the model, which `script` answers for.
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from tests.server.protocols.chatting import make_agent

from holdfast import Agent, RetryOptions
from holdfast.server import create_app
from holdfast.testing.emulator import EmulatedRequest, call, cited, hosted_call

LONG = " ".join(f"word{number}" for number in range(60))


def script(request: EmulatedRequest) -> object:
    """Answer by what the last message of the user contains."""
    text = request.text
    if request.wire == "openai_responses":
        return _search(request)
    if request.tool_results:
        return f"Done: {request.tool_results[-1].text}"
    if "pay twice" in text:
        return [call("pay", {"amount": 3}), call("pay", {"amount": 4})]
    if "pay" in text:
        return ["I ask first.", call("pay", {"amount": 3})]
    if "weather" in text:
        return ["I look.", call("weather", {"city": "Porto"})]
    if "book" in text:
        return [call("book", {"nights": 2})]
    if "where am I" in text:
        return [call("get_location", {"exact": True})]
    if "long" in text:
        return LONG
    if "context" in text:
        system = [message.text for message in request.messages if message.role == "system"]
        return f"I know: {system[-1] if system else 'nothing'}"
    return f"You said: {text}"


def _search(request: EmulatedRequest) -> object:
    """Answer as the finder, which asks an agent that searches the web."""
    if request.tool_results:
        return f"It says: {request.tool_results[-1].text}"
    if "Porto?" in request.text:
        page = "https://porto.pt"
        return [hosted_call("web_search", {"query": "Porto"}, pages=[page]), cited("Sun.", page)]
    if "ask" in request.text:
        return [call("searcher", {"task": "Porto?"})]
    page = "https://faro.pt"
    return [
        "I look.",
        hosted_call("web_search", {"query": "Faro"}, pages=[page]),
        cited("Rain.", page),
    ]


async def serve(port: str, journal: str, model: str) -> None:
    """Serve the agent until the process ends."""
    retry = RetryOptions(max_retries=20, retry_delay=0.05, max_retry_delay=0.1)
    agent = make_agent("openai:m", base_url=model, api_key="k", retry=retry)
    keywords = {"base_url": model, "api_key": "k"}
    searcher = Agent("openai-responses:m", name="searcher", **keywords)
    finder = Agent("openai-responses:m", name="finder", tools=[searcher.as_tool()], **keywords)
    app = create_app([agent, finder], journal=journal)
    config = uvicorn.Config(app, host="127.0.0.1", port=int(port), log_level="warning")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
