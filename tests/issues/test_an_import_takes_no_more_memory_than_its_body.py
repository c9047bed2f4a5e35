"""An import of many short lines took twenty times the memory of its body."""

from __future__ import annotations

import tracemalloc
from io import BytesIO

from tests.server.serving import Api, serve

from holdfast import Agent
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

LINES = b"{}\n" * 1_000_000


async def test_an_import_takes_no_more_memory_than_its_body() -> None:
    app = create_app(Agent(ScriptedModel("Hi."), name="greeter"))
    async with serve(app) as base, Api(base) as api:
        headers = {"Content-Type": "application/x-ndjson"}
        tracemalloc.start()
        try:
            answer = await api.call(
                "POST", "/sessions/import", data=BytesIO(LINES), headers=headers
            )
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (answer.status, answer.json["kind"]) == (422, "lines")
        assert peak < 10 * len(LINES)
