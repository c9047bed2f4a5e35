"""Iterations of one tool call each: a turn of 10 and an answer, divided by 10."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache

from msgspec import Struct
from msgspec.json import Decoder

from benchmarks.case import Budget, Case, Seen, Turn, each
from benchmarks.floor import KEY, Client, encode

QUESTION = "What will the weather be in Porto tomorrow?"
RESULT = "sunny, 24 degrees"
TOOLS = encode(
    [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Weather in a city.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city", "days"],
                    "additionalProperties": False,
                },
            },
        }
    ]
)


class Arguments(Struct):
    """Of the tool."""

    city: str
    days: int


async def weather(city: str, days: int) -> str:
    """Weather in a city."""
    return RESULT if city and days else ""


Weather = Callable[[str, int], Awaitable[str]]


@asynccontextmanager
async def floor(url: str, weather: Weather = weather) -> AsyncIterator[Turn]:
    """The history is kept as bytes; a call is decoded, awaited, and answered."""
    arguments = Decoder(Arguments).decode
    async with Client(url) as client:

        async def turn(scenario: str) -> Seen:
            head = b'{"model":"%b","messages":[' % scenario.encode()
            history = [encode({"role": "user", "content": QUESTION})]
            used_in = used_out = 0
            while True:
                body = b"".join((head, *history, b'],"tools":', TOOLS, b"}"))
                reply = await client.ask(body)
                used_in += reply.usage.prompt_tokens
                used_out += reply.usage.completion_tokens
                choice = reply.choices[0]
                if choice.finish_reason != "tool_calls":
                    return Seen(choice.message.content or "", used_in, used_out)
                [call] = choice.message.tool_calls or []
                given = arguments(call.function.arguments)
                said = {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": call.id, "type": "function", "function": call.function}],
                }
                result = await weather(given.city, given.days)
                told = {"role": "tool", "tool_call_id": call.id, "content": result}
                history.append(b",%b,%b" % (encode(said), encode(told)))

        yield turn


@asynccontextmanager
async def ours(url: str, weather: Weather = weather) -> AsyncIterator[Turn]:
    """`agent.run` with one tool."""
    from holdfast import Agent, Limits, tool  # noqa: PLC0415 - not in the floor's process

    tools = [tool(weather)]

    @cache
    def agent(scenario: str) -> Agent[str]:
        limits = Limits(iterations=1000)
        return Agent(f"vllm:{scenario}", base_url=url, api_key=KEY, tools=tools, limits=limits)

    async def turn(scenario: str) -> Seen:
        result = await agent(scenario).run(QUESTION)
        return Seen(result.text, result.usage.input, result.usage.output)

    yield turn


CASE = Case(
    name="tool-iteration",
    floor=floor,
    ours=ours,
    scenario="tools-10",
    sample=each("tools-10", times=8, per=10),
    budgets=(Budget(metric="cpu", what="one tool iteration of 10 in a row", limit=2.0),),
)
