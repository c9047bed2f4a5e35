"""A program of a user: it streams a turn to its end, and prints what it was shown.

`python -m conformance.streaming_program ADDRESS KEY MESSAGE SESSION`
"""

from __future__ import annotations

import asyncio
import json
import sys

from holdfast.client import Client, ReplyText
from holdfast.event_log.stream_items import EventItem


async def main(address: str, key: str, message: str, session: str) -> None:
    reply, shown, sequences = ReplyText(), "", list[int]()
    async with Client(address, api_key=key) as client:
        async for item in client.turns.stream("support", message, session=session):
            if not shown and reply.add(item):
                print("it streams", flush=True)
            shown = reply.add(item) or shown
            if isinstance(item, EventItem):
                sequences.append(item.sequence)
    print(json.dumps({"shown": shown, "sequences": sequences}))


asyncio.run(main(*sys.argv[1:]))
