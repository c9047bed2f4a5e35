"""Records a turn of every kind as the stream items that a live reader gets: one line of JSON for each turn.

`python -m tests.server.protocols.record_turns` writes them to `tests/golden/turns/turns.jsonl` again. Nonces,
ports and waits differ then, and so do the texts of the protocols beside it: `write_texts` writes those.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.server.protocols.recorded_turns import TURNS, RecordedTurn
from tests.server.protocols.told import Talk, reply

from holdfast import Agent, Limits, ToolError, ToolPermission, tool
from holdfast.core.client_tools import ClientToolResult
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.messages import Media, Reasoning, Refusal, ToolCall
from holdfast.core.notices import CustomNotice
from holdfast.core.questions import Approved, ClarificationQuestion, Denied
from holdfast.journal.encoding import to_json
from holdfast.middleware import Middleware, Stop
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, Fault, call, cited, hosted_call, thinking
from holdfast.tools import ClientTool
from holdfast.tools.context import ToolContext

CITIES = ("Porto", "Atlantis")
PAY = ToolCall("p", "pay", '{"euros": 3}')
BOOK = ToolCall("b", "book", '{"nights": 2}')
WEATHER = ToolCall("w", "weather", '{"city": "Porto"}')
LOCATE = ToolCall("l", "locate", "{}")
LOCATOR = ClientTool("locate", "Where the user is.")


class Progress(CustomNotice, frozen=True):
    """How much is done."""

    percent: int


@tool(effect="write")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="read")
async def weather(context: ToolContext, city: str) -> dict[str, object]:
    """Return the weather."""
    context.emit(Progress(50))
    if city == "Atlantis":
        raise ToolError("There is no such city.")
    return {"city": city, "degrees": 18}


@tool(effect="read")
async def book(context: ToolContext, nights: int) -> str:
    """Book a room."""
    where = await context.ask(ClarificationQuestion(question="Where?", options=("Porto", "Faro")))
    return f"{nights} nights in {where}"


@tool(effect="write")
async def wait_for_ever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return ""


class StopAtOnce(Middleware):
    """Ends a turn after its first tools."""

    async def before_iteration(self, context: Any) -> Stop | None:
        """Stop in the second iteration."""
        return Stop("enough", "That is enough.") if context.iteration else None


def _talk(*script: Any, **keywords: Any) -> Talk:
    tools = [pay, weather, book, wait_for_ever, *keywords.pop("tools", ())]
    allowed = ["weather", "book", "wait_for_ever", "locate*", "forecaster*"]
    middleware = [ToolPermission(allow=allowed, ask=["pay"]), *keywords.pop("more", ())]
    keywords = {"tools": tools, "middleware": middleware, "clock": FakeClock(), **keywords}
    return Talk(*script, **keywords)


async def _talk_over_http(replies: list[Any], *faults: Fault | None) -> Talk:
    async with Emulator(replies, faults=faults) as provider:
        address = {"base_url": provider.base_url_for("anthropic"), "api_key": "k"}
        return await _talk(model="anthropic:m", **address).run()


async def record_turns() -> AsyncIterator[tuple[str, Talk]]:
    """Yield sessions of one turn, with their names."""
    yield "text", await _talk(reply("Hello, Ada.")).run()
    picture = Media("image/png", data=b"PNG")
    weathers = [
        ToolCall(f"c{at}", "weather", f'{{"city": "{city}"}}') for at, city in enumerate(CITIES)
    ]
    first = reply(Reasoning("Let me look."), "One moment.", *weathers)
    yield "tools", await _talk(first, reply("It is 18.", picture)).run()
    talk = await _talk(reply(PAY), reply("Paid.")).run()
    await talk.answer(Approved())
    yield "approved", talk
    talk = await _talk(reply("I pay.", PAY, BOOK), reply("Not paid.")).run()
    await talk.answer(Denied(reason="Too much."), "Faro")
    yield "denied", talk
    yield "waits", await _talk(reply("I ask.", BOOK), reply("Booked.")).run()
    inner = Agent(ScriptedModel(reply(WEATHER), reply("Rain.")), name="forecaster", tools=[weather])
    ask = ToolCall("c", "forecaster", '{"task": "Porto?"}')
    yield "subagent", await _talk(reply(ask), reply("It rains."), tools=[inner.as_tool()]).run()
    talk = await _talk(reply(LOCATE), reply("In Porto.")).run(tools=[LOCATOR])
    await talk.answer(ClientToolResult("Porto"))
    yield "client_tool", talk
    yield "refusal", await _talk(reply(Refusal("I cannot help with that."))).run()
    search = hosted_call("web_search", {"query": "bridges"}, pages=["https://porto.pt"])
    searched = ["I look. ", search, "There are ", cited("six.", "https://porto.pt", "Porto")]
    yield "hosted", await _talk_over_http([searched])
    yield "hosted_again", await _talk_over_http([searched], DropAfter(12), None)
    thought = [thinking("Which city?"), "I look.", call("weather", {"city": "Porto"})]
    faults = (DropAfter(12), None, DropAfter(2))
    yield "retried", await _talk_over_http([thought, "18 degrees."], *faults)
    talk = _talk(reply("I wait.", ToolCall("c", "wait_for_ever", "{}")))
    talk.cancels = True
    yield "cancelled", await talk.run()
    yield (
        "limit",
        await _talk(reply("One.", WEATHER), reply("Two."), limits=Limits(iterations=1)).run(),
    )
    yield "stopped", await _talk(reply(WEATHER), reply("Two."), more=[StopAtOnce()]).run()
    wanted = JsonSchema({"type": "object", "required": ["city"]}, name="trip")
    structured = _talk(reply('{"town": 1}'), reply('{"city": "Porto"}'))
    yield "structured", await structured.run(output=wanted)
    info = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="refused", status=400)
    refuse = ProviderError("refused", info=info)
    yield "withheld", await _talk(reply(WEATHER), refuse, reply("Hello.")).run()
    yield "failed", await _talk(reply("One.", WEATHER), ProviderError("It is down.")).run()


async def write_turns() -> None:
    """Write the turns."""
    lines = []
    async for name, talk in record_turns():
        lines.append(to_json(RecordedTurn(name, tuple(talk.live))))
    TURNS.write_bytes(b"\n".join([*lines, b""]))


if __name__ == "__main__":
    asyncio.run(write_turns())
