"""A link of a PostgreSQL journal that ended after its process's event loop raised "Event loop is closed"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.event_log.live.process_exchange import LiveExchange
from holdfast.journal.live_link import LiveLink


class Journal:
    changed: Callable[[bool], None]

    def open_link(
        self, receive: Callable[[str], None], changed: Callable[[bool], None]
    ) -> LiveLink:
        self.changed = changed
        return None  # type: ignore[return-value]  # REASON: nothing is sent


def test_a_link_that_ends_after_its_event_loop_raises_nothing() -> None:
    journal = Journal()

    async def open_exchange() -> None:
        LiveExchange(journal.open_link, lambda _is_up: None)

    asyncio.run(open_exchange())
    journal.changed(False)
