"""Turns of real agents as stream items: as a reader sees them live, and as the journal tells them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast import Agent
from holdfast.core.events import Event
from holdfast.core.messages import FinishReason, Part, Reply, Text, ToolCall, Usage
from holdfast.core.notices import ToolStarted
from holdfast.core.questions import Question
from holdfast.event_log.display.display_fold import DisplayFold
from holdfast.event_log.display.display_items import DisplayItem
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import EndItem, StreamItem
from holdfast.event_log.text_fold import TextFold, is_event
from holdfast.journal import MemoryJournal
from holdfast.server.protocols.openai_shapes import SegmentName
from holdfast.server.protocols.responses.projection import ResponseProjection
from holdfast.server.protocols.segments import Hold, SegmentEvent, SegmentFold, find_void_replies
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import Fault, cited, hosted_call
from holdfast.testing.emulator.script import expand_hosted

ENDED = EndItem("", "turn_ended")
NAME = SegmentName("ada", 1)


def searched(wire: str = "anthropic") -> Reply:
    """A reply with a search of the provider, and a text that cites what it found."""
    search = hosted_call("web_search", {"query": "bridges"}, pages=["https://porto.pt"])
    cites = cited("six bridges", "https://porto.pt", "Porto")
    parts = expand_hosted([Text("I look. "), search, Text("There are "), cites], wire, 1)
    return Reply(parts, usage=Usage(input=3, output=3))


def reply(*parts: Part | str, tokens: int = 3) -> Reply:
    """A reply with texts and calls."""
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    has_calls = any(isinstance(part, ToolCall) for part in made)
    finish = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
    return Reply(made, finish=finish, usage=Usage(input=tokens, output=tokens))


class Talk:
    """A session of an agent, with everything that its stream told."""

    def __init__(self, *script: Any, model: Any = None, **keywords: Any) -> None:
        self.journal = MemoryJournal()
        self.agent = Agent(
            model or ScriptedModel(*script),
            name="greeter",
            journal=self.journal,
            on_wait="suspend",
            **keywords,
        )
        self._fold = TextFold()
        self.live: list[StreamItem] = []
        self.cancels = False
        """Whether the turn is cancelled when its first tool starts."""

    async def run(self, prompt: str = "Hi", **keywords: Any) -> Talk:
        """Run a turn."""
        await self._read(self.agent.stream(prompt, session="ada", **keywords))
        return self

    async def answer(self, *values: object) -> None:
        """Answer the open questions in order, and go on."""
        questions = await self.agent.questions("ada")
        for question, value in zip(questions, values, strict=True):
            assert await self.agent.answer("ada", question.answer(value))
        records = await self.journal.read("ada")
        for record in records[self._fold.position.sequence :]:
            self.live.extend(self._fold.feed(record.event))
        await self._read(self.agent.resume_stream("ada"))

    async def _read(self, stream: Any) -> None:
        try:
            async with stream as run:
                run.leave_questions()
                async for item in run:
                    if not isinstance(item, Question):
                        self.live.extend(self._fold.feed(item))
                    if self.cancels and isinstance(item, ToolStarted):
                        run.cancel(by="ada")
        except Exception:  # noqa: BLE001  # REASON: the turn failed, and its events say so
            pass

    async def events(self) -> list[Event]:
        """What the journal has."""
        return [record.event for record in await self.journal.read("ada")]


async def talk_with_search(*faults: Fault | None) -> Talk:
    """A turn whose provider searches between two texts, and does these things wrong."""
    search = hosted_call("web_search", {"query": "bridges"}, pages=["https://porto.pt"])
    reply = ["I look. ", search, "There are ", cited("six.", "https://porto.pt", "Porto")]
    async with Emulator([reply], faults=faults) as provider:
        keywords = {"base_url": provider.base_url_for("anthropic"), "api_key": "k"}
        return await Talk(model="anthropic:m", clock=FakeClock(), **keywords).run()


def show_items(items: Iterable[StreamItem]) -> list[DisplayItem]:
    """Return what the items of a turn show."""
    fold = DisplayFold("ada")
    return [shown for item in items for shown in fold.feed(item)]


def saved_items(events: Iterable[Event]) -> list[StreamItem]:
    """Return what a reader of the journal sees."""
    fold = TextFold(Position())
    assert all(is_event(event) for event in events)
    return [item for event in events for item in fold.feed(event)]


def tell(
    items: Iterable[StreamItem],
    number: int | None = 0,
    hold: Hold = "no",
    void: frozenset[str] = frozenset(),
) -> list[SegmentEvent]:
    """Return what a segment tells."""
    fold = SegmentFold(number, hold, void)
    return [told for item in [*items, ENDED] for told in fold.feed(item)]


def project(
    items: Iterable[StreamItem], number: int = 0, after: int | None = None, hold: Hold = "no"
) -> list[dict[str, Any]]:
    """Return the events of Responses for a segment, read by a reader that knows the journal's events."""
    known = list(items)
    void = find_void_replies([one.event for one in known if hasattr(one, "event")])
    name = SegmentName("ada", 1, number)
    projection = ResponseProjection(name, after)
    return [told for event in tell(known, number, hold, void) for told in projection.feed(event)]


def project_live(items: Iterable[StreamItem], number: int = 0) -> list[dict[str, Any]]:
    """Return the events of Responses for a segment as they were sent live."""
    projection = ResponseProjection(SegmentName("ada", 1, number))
    return [told for event in tell(items, number) for told in projection.feed(event)]


def text_of(events: Iterable[dict[str, Any]]) -> str:
    """Return the text of all deltas."""
    return "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta")
