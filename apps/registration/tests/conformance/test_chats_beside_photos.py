"""Chats are answered while large and hostile photos arrive and are checked."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from copy import copy
from pathlib import Path

from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.photos import samples
from apps.registration.tests.photos.stages import reach_step_in
from PIL import Image

PHOTOS = 6


async def chat(club: Served, turns: int) -> list[float]:
    """Send messages that need no model; return the seconds of each turn."""
    took = []
    for number in range(turns):
        began = time.perf_counter()
        reply = await club.say("200-nobody-u10-2526", message_id=os.urandom(8).hex())
        assert reply.status == 200, reply.json
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.02 if number else 0)
    return took


async def watch_loop(gaps: list[float]) -> None:
    """Note by how much the event loop is late."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        gaps.append(time.perf_counter() - began - 0.005)


def make_photos() -> list[bytes]:
    """A bomb of ten megabytes, and a photo of 48 million pixels, in turn."""
    noise = Image.frombytes("RGB", (1000, 750), os.urandom(1000 * 750 * 3))
    large = samples.write(noise.resize((8000, 6000)), "JPEG", quality=60)
    bomb = samples.full_bomb(9_900_000)
    return [bomb, large] * (PHOTOS // 2)


def describe(took: list[float]) -> str:
    p95 = statistics.quantiles(took, n=20)[-1]
    return (
        f"p50 {statistics.median(took) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, {len(took)} turns"
    )


async def test_chats_are_answered_beside_photos(tmp_path: Path) -> None:
    photos, before, gaps = make_photos(), list[float](), list[float]()
    async with serve_club(tmp_path) as club:
        session, token = club.session, club.token
        senders = []
        for data in photos:
            await club.begin()
            await reach_step_in(tmp_path, club.session)
            senders.append((club.session, club.token, data))
        club.session, club.token = session, token
        watching = asyncio.create_task(watch_loop(before))
        alone = await chat(club, 80)
        watching.cancel()

        async def send(session: str, token: str, data: bytes) -> str:
            own = copy(club)
            own.session, own.token = session, token
            assert (await own.send_photo(data)).status == 202
            return str((await own.follow_photo())["state"])

        watching = asyncio.create_task(watch_loop(gaps))
        sending = asyncio.gather(*(send(*one) for one in senders))
        beside = []
        while not sending.done():
            beside += await chat(club, 5)
        watching.cancel()
        states = await sending
    assert sorted(states) == ["done"] * (PHOTOS // 2) + ["rejected"] * (PHOTOS // 2)
    print(f"alone: {describe(alone)}; beside {PHOTOS} photos: {describe(beside)}")
    late = f"{max(before) * 1000:.0f} ms, beside photos {max(gaps) * 1000:.0f} ms"
    print(f"the event loop was late by at most {late}")
    # Seconds; more where each turn takes long, since others use the processor. A photo that is converted in
    # the event loop blocks it each time, and a process that was stopped only once.
    assert statistics.quantiles(beside, n=20)[-1] < max(1.0, 20 * statistics.median(alone))
    assert sum(gap >= 1.0 for gap in gaps) < PHOTOS // 2
