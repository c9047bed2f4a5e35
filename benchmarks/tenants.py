"""Whether the time of a 404 tells if another tenant has what was asked for.

`python -m benchmarks.tenants [--requests 2000] [--journal sqlite:///FILE]`. A caller of one tenant asks in random order for what another
tenant has and for what nobody has, by names of one length. The requests go to the application itself: a network only adds noise.
The figure is the probability that the first takes longer than the second; 0.5 tells nothing. z is its distance from 0.5 in standard
deviations of chance.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from holdfast import Agent
from holdfast.journal.service_store.service_store import Upload
from holdfast.server import AccessLimits, AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.server.protocols.openai_shapes import SegmentName
from holdfast.server.protocols.responses.response_object import RESPONSE
from holdfast.testing import ScriptedModel

ROUTES = (
    "/api/v1/sessions/{session}",
    "/api/v1/sessions/{session}/history",
    "/api/v1/sessions/{session}/turns/1",
    "/api/v1/sessions/{session}/events",
    "/api/v1/sessions/{session}/questions",
    "/api/v1/sessions/{session}/acts",
    "/api/v1/sessions/{session}/export",
    "/api/v1/media/{media}",
    "/v1/responses/{response}",
    "/vercel/clerk/chat/{session}",
)
_SESSIONS = 200
_MEDIUM = 500_000


class Names:
    """Names of one length: those that another tenant has, and others.

    Args:
        seed: the beginning of the names.
        count: how many there are.
    """

    def __init__(self, seed: str, count: int = _SESSIONS) -> None:
        digests = [blake2b(f"{seed}{number}".encode(), digest_size=16) for number in range(count)]
        self.sessions = [one.hexdigest() for one in digests]

    def fill(self, route: str, number: int) -> str:
        """Return the path of a route."""
        session = self.sessions[number % len(self.sessions)]
        response = SegmentName(session, 1).to_id(RESPONSE)
        return route.format(session=session, media=f"m_{session}", response=response)


async def ask(app: Starlette, path: str, key: str) -> float:
    """Send a request; return the seconds until its answer, which is a 404."""
    headers = [
        (b"host", b"127.0.0.1"),
        (b"authorization", key.encode()),
        (b"accept", b"application/json"),
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    statuses: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    began = time.perf_counter()
    await app(scope, receive, send)
    seconds = time.perf_counter() - began
    assert statuses == [404], (path, statuses)
    return seconds


def compare(mine: list[float], others: list[float]) -> tuple[float, float]:
    """Return the probability that one of the first is above one of the second, and its z."""
    ranked = sorted([(value, 1) for value in mine] + [(value, 0) for value in others])
    ranks = sum(place for place, (_, is_mine) in enumerate(ranked, 1) if is_mine)
    count, other = len(mine), len(others)
    area = (ranks - count * (count + 1) / 2) / (count * other)
    return area, (area - 0.5) / ((count + other + 1) / (12 * count * other)) ** 0.5


async def fill_tenant(app: Starlette, tenant: str, agent: str, names: Names) -> None:
    """Make sessions and media with these names."""
    service = app.state.service
    for session in names.sessions:
        accepted = await service.for_tenant(tenant).start(agent, "Hello.", session=session)
        await service.for_tenant(tenant).runner.wait(accepted.session)
        upload = Upload(
            tenant=tenant,
            name=f"m_{session}",
            media_type="image/png",
            data=bytes(_MEDIUM),
            created_at=time.time(),
        )
        await service.store.add_upload(upload)


async def measure(journal: str, requests: int) -> None:
    """Print a line for each route."""
    agent = Agent(
        ScriptedModel(*["Good morning. " * 200] * _SESSIONS), name="clerk", journal=journal
    )
    limits = AccessLimits(turns_per_minute=100_000, requests_per_minute=1_000_000)
    app = create_app(agent, access=AccessOptions(auth="keys", limits=limits))
    existing, missing = Names("a"), Names("b")
    access = app.state.access
    async with app.router.lifespan_context(app):
        await fill_tenant(app, "alpha", "clerk", existing)
        text, key = make_key("reader", scopes=("read",), now=time.time(), tenant="bravo")
        await access.keys.store.add_key(key)
        for route in ROUTES:
            taken: dict[bool, list[float]] = {True: [], False: []}
            order = [True, False] * requests
            random.Random(7).shuffle(order)
            for number, is_there in enumerate(order):
                names = existing if is_there else missing
                taken[is_there].append(await ask(app, names.fill(route, number), f"Bearer {text}"))
            area, z = compare(taken[True], taken[False])
            halves = [1e6 * statistics.median(taken[is_there]) for is_there in (True, False)]
            print(
                f"{route:40} {halves[0]:8.1f} {halves[1]:8.1f} us  {area:.3f}  z {z:+.1f}",
                flush=True,
            )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="Whether the time of a 404 tells something.")
    parser.add_argument("--requests", type=int, default=2000, help="of each kind and route")
    parser.add_argument("--journal", help="the address of an empty journal; by default a new file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        journal = options.journal or f"sqlite:///{Path(folder) / 'talk.db'}"
        asyncio.run(measure(journal, options.requests))


if __name__ == "__main__":
    main()
