"""Whatever a run does and whenever a client comes, it ends with what the journal has, and no rule is broken."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.protocols.agui_reader import AguiReader
from tests.server.protocols.chatting import shown_parts
from tests.server.test_readers_end_exactly import _CALLS, _LAST_CALL, Call, Script, Step, World

from holdfast.core.events import QuestionAsked
from holdfast.event_log.display.display_fold import DisplayFold
from holdfast.event_log.display.display_items import DisplayItem
from holdfast.event_log.live.reading import TURN_ENDED, ReadingEnd
from holdfast.event_log.stream_items import StreamItem
from holdfast.event_log.text_fold import TextFold
from holdfast.server.protocols.agui.message_list import MessageList
from holdfast.server.protocols.agui.projection import AguiProjection
from holdfast.server.protocols.vercel.projection import VercelProjection


class Page:
    """A page of each protocol that reads the same items."""

    def __init__(self) -> None:
        self._fold = DisplayFold("s")
        self._vercel = VercelProjection("s", 1)
        self.chunks = [self._vercel.start()]
        self.messages = MessageList("s")
        self._agui = AguiProjection("s", "r", self.messages)
        self.reader = AguiReader()
        for event in self._agui.start():
            self.reader.take(event)

    def take(self, item: StreamItem) -> None:
        for shown in self._fold.feed(item):
            self._show(shown)

    def parts(self) -> list[object]:
        """Return what is visible: a step that shows nothing is not."""
        return [part for part in shown_parts(self.chunks) if part["type"] != "step-start"]

    def replies(self) -> list[dict[str, object]]:
        """Return the messages of the assistant and its tools."""
        return [one for one in self.reader.shown() if one["role"] != "user"]

    def _show(self, shown: DisplayItem) -> None:
        self.chunks += self._vercel.feed(shown, self._fold.position)
        for event in self._agui.feed(shown):
            self.reader.take(event)


async def read(world: World, page: Page) -> None:
    async for entry in world.here.follow("s", end=ReadingEnd(1, TURN_ENDED)):
        page.take(entry.item)


async def play(steps: list[Step], joins: list[int], lag: int) -> None:
    world = World(lag)
    await world.do(steps[0])
    pages, readings = [], []
    for at, step in enumerate(steps[1:]):
        if at in joins or at == len(steps) - 2:
            pages.append(Page())
            readings.append(asyncio.ensure_future(read(world, pages[-1])))
        await world.do(step)
        for _ in range(4):
            await asyncio.sleep(0)
    world.finish()
    await asyncio.wait_for(asyncio.gather(*readings), 60)
    later, fold = Page(), TextFold()
    for record in await world._journal.read("s"):
        for item in fold.feed(record.event):
            later.take(item)
    for page in pages:
        assert page.parts() == later.parts()
        assert page.replies() == later.replies() == later.messages.messages[1:]


@pytest.mark.slow  # takes half a second or more
@given(
    st.lists(_CALLS, max_size=2),
    _LAST_CALL,
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.integers(0, 2),
)
def test_every_page_ends_with_what_the_journal_has(
    calls: list[Call], last: Call, joins: list[int], lag: int
) -> None:
    steps = Script([*calls, last]).steps
    # A question is shown where it is asked, which may be before the step that it belongs to.
    asyncio.run(play([one for one in steps if not isinstance(one, QuestionAsked)], joins, lag))
