"""Follows a queued turn in a process of its own: `JOURNAL ORDER` prints what was shown, and then the result."""

from __future__ import annotations

import asyncio
import sys

import msgspec
from tests.worker.paying_worker import PayingSettings, make_agent

from holdfast.event_log.stream_items import EventItem, TextItem, WithdrawnItem


async def main(settings: PayingSettings, order: str) -> None:
    agent = make_agent(settings)
    tenant, session, _ = order.split("/")
    run = await agent.submit(order, session=session, tenant=tenant, request=order)
    shown, replies, pieces = "", [], 0
    async for _, item in run.events():
        if isinstance(item, TextItem):
            shown = shown[: item.offset] + item.text
            pieces += 1
            print("text", flush=True)
        elif isinstance(item, WithdrawnItem):
            shown = ""
        elif isinstance(item, EventItem) and type(item.event).__name__ == "ModelReplied":
            replies.append(shown)
            shown = ""
    result = await run.wait(60)
    found = {"replies": replies, "pieces": pieces, "result": result.text}
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=PayingSettings), sys.argv[2]))
