"""Two people answered one question at the same time, each at another process of a PostgreSQL journal.

The second was told that there is no such question.
"""

from __future__ import annotations

import asyncio

from tests.server.every_route import make_clerk
from tests.server.serving import Api, serve

from holdfast import PostgresJournal
from holdfast.server import create_app

TRIES = 12


async def test_whoever_answers_second_in_another_process_reads_who_was_first(url: str) -> None:
    apps = [create_app(make_clerk(), journal=PostgresJournal(url)) for _ in range(2)]
    async with serve(apps[0]) as one, serve(apps[1]) as two, Api(one) as here, Api(two) as there:
        for number in range(TRIES):
            session = f"s{number}"
            turn = {"agent": "clerk", "message": "pay", "session": session, "wait": 20}
            (asked,) = (await here.post("/turns", turn)).json["questions"]
            answer = {"key": asked["key"], "binding": asked["binding"], "answer": "deny"}
            path = f"/sessions/{session}/answers"
            both = await asyncio.gather(here.post(path, answer), there.post(path, answer))
            told = sorted((one.json for one in both), key=lambda view: bool(view["accepted"]))
            first, second = told[1], told[0]
            assert first["accepted"] is True
            assert second == {"accepted": False, "reason": "answered", "by_whom": "local"}
