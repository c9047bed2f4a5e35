"""The registration service under load: `python -m benchmarks.registration [--quick]`.

The service is a process of its own. The parties and the parents share another one, so that on two cores
nothing is faster than it would be. The model answers at once: what is left is the time without it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import aiohttp
from PIL import Image

from holdfast.testing.emulator import Delay, EmulatedRequest
from registration.parties import ServiceProcess, Trouble, emulate_parties, find_port
from registration.play.parent import draw_portrait

SESSIONS = 200
EVERY = 5.0  # seconds between two messages of a session
SLOW, SLOW_SECONDS = "Slow Slowson", 20.0
TEXTS = (
    "200-lions-u10-{season}",
    "Sarah Jones",
    "Jack Jones",
    "14-03-2017",
    "boy",
    "no",
    "no",
    "mum",
    "07700 900123",
    "sarah@example.com",
    "yes",
    "02-11-1985",
    "HF1 2AB",
    "12",
    "yes",
    "yes",
)
TO_PHOTO = ("yes", "15", "yes", "9/10", "NUMBER")
NAMES = ("Ben", "Carl", "Dan", "Eve")

MANY = {
    "REGISTRATION_REQUESTS_PER_WINDOW": "1000000",
    "REGISTRATION_SESSIONS_PER_WINDOW": "1000000",
}


class Club:
    """The service, and who writes to it."""

    def __init__(self, http: aiohttp.ClientSession, address: str, season: str, pid: int) -> None:
        self.http = http
        self.address = address
        self.season = season
        self.pid = pid

    async def begin(self) -> dict[str, str]:
        """Begins a conversation."""
        async with self.http.post(f"{self.address}/sessions", json={}) as response:
            assert response.status == 201, await response.text()
            return await response.json()

    async def say(self, session: dict[str, str], text: str) -> float:
        """Sends a message; the seconds until it is answered."""
        start = time.perf_counter()
        async with self.http.post(
            f"{self.address}/chat",
            json={
                "user_message": text.format(season=self.season),
                "session_id": session["session_id"],
            },
            headers={"Authorization": f"Bearer {session['token']}"},
        ) as response:
            assert response.status == 200, await response.text()
            await response.read()
        return time.perf_counter() - start

    def memory(self) -> float:
        """The memory of the service that is its own, in KB."""
        with Path(f"/proc/{self.pid}/smaps_rollup").open() as lines:
            return sum(float(line.split()[1]) for line in lines if line.startswith("Private_"))

    def delay(self) -> float:
        """The seconds that the service was ready to run, and another program had the core."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    async def send_photo(self, session: dict[str, str], picture: bytes) -> str:
        """Sends a photo, and waits for its check; its state."""
        headers = {"Authorization": f"Bearer {session['token']}"}
        form = aiohttp.FormData({"session_id": session["session_id"]})
        form.add_field("file", picture, filename="photo.jpg", content_type="image/jpeg")
        address = f"{self.address}/upload_photo"
        async with self.http.post(address, data=form, headers=headers) as response:
            sent = await response.json()
            assert response.status == 202, sent
        while True:
            job = f"{self.address}/jobs/{sent['job_id']}"
            async with self.http.get(job, headers=headers) as response:
                told = await response.json()
            if told["complete"]:
                return str(told["state"])
            await asyncio.sleep(0.2)

    def cpu(self) -> float:
        """The seconds of CPU that the service has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def open_club(journal: str | None) -> AsyncIterator[Club]:
    """Starts the service and its parties."""

    def answer_slowly(request: EmulatedRequest) -> Delay | None:
        return Delay(SLOW_SECONDS) if SLOW in request.text else None

    with tempfile.TemporaryDirectory(prefix="registration-load-") as folder:
        port = find_port()
        parties = emulate_parties(Path(folder), port, journal, Trouble(model=answer_slowly))
        async with parties as outside:
            environment = {**outside.environment, **MANY}
            service = ServiceProcess(environment, port, log=Path(folder) / "service.log")
            try:
                await service.start()
                connector = aiohttp.TCPConnector(limit=0)
                async with aiohttp.ClientSession(connector=connector) as http:
                    yield Club(http, f"http://127.0.0.1:{port}", outside.season, service.pid)
            finally:
                await service.stop()


async def talk_alone(club: Club, times: int) -> list[float]:
    """One session at a time, one message each tenth of a second."""
    taken = []
    for _ in range(times):
        session = await club.begin()
        for text in TEXTS:
            taken.append(await club.say(session, text))
            await asyncio.sleep(0.1)
    return taken


async def talk_together(club: Club, sessions: int, turns: int) -> list[float]:
    """Many sessions, one message each five seconds."""
    begun = [await club.begin() for _ in range(sessions)]
    start = time.monotonic() + 0.5

    async def talk(place: int) -> list[float]:
        taken = []
        for turn, text in enumerate(TEXTS[:turns]):
            due = start + EVERY * (turn + place / sessions)
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            taken.append(await club.say(begun[place], text))
        return taken

    return [one for taken in await asyncio.gather(*map(talk, range(sessions))) for one in taken]


async def talk_beside_slow(club: Club, slow: int) -> tuple[list[float], list[float]]:
    """One session alone while others wait for a slow model."""
    begun = [await club.begin() for _ in range(slow)]
    for session in begun:
        await club.say(session, TEXTS[0])
    waiting = [asyncio.create_task(club.say(session, SLOW)) for session in begun]
    await asyncio.sleep(0.5)
    taken = await talk_alone(club, 5)
    return taken, await asyncio.gather(*waiting)


async def talk_beside_photos(club: Club, count: int) -> list[float]:
    """One session alone while photos are checked."""
    photo = BytesIO()
    portrait = Image.open(BytesIO(draw_portrait(1))).resize((3000, 4000))
    noise = Image.effect_noise((3000, 4000), 60).convert("RGB")
    Image.blend(portrait, noise, 0.3).save(photo, "JPEG", quality=90)
    begun = [await club.begin() for _ in range(count)]
    for place, session in enumerate(begun):
        for text in (*TEXTS, *TO_PHOTO):
            own = text.replace("Jack", NAMES[place]).replace("NUMBER", str(20 + place))
            await club.say(session, own)
    sending = [asyncio.create_task(club.send_photo(one, photo.getvalue())) for one in begun]
    taken = []
    while not all(task.done() for task in sending):
        taken += await talk_alone(club, 1)
    states = await asyncio.gather(*sending)
    assert states == ["done"] * count, states
    print(
        f"  {count} photos of 12 megapixels, {len(photo.getvalue()) / 1e6:.1f} MB each: {states[0]}"
    )
    return taken


async def measure_memory(club: Club, count: int) -> float:
    """The memory of an idle session, in KB."""

    async def begin() -> None:
        await club.say(await club.begin(), TEXTS[0])

    async def begin_many(number: int) -> None:
        for _ in range(number // 20):
            await asyncio.gather(*(begin() for _ in range(20)))

    await begin_many(200)
    await asyncio.sleep(2.0)
    before = club.memory()
    await begin_many(count)
    await asyncio.sleep(2.0)
    return (club.memory() - before) / count


def p95(taken: Sequence[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(taken, n=20)[-1]


def tell(name: str, taken: Sequence[float]) -> None:
    """Prints a line of the table."""
    median = statistics.median(taken)
    print(
        f"{name:<44} {len(taken):>5} turns   median {median * 1000:6.1f} ms   "
        f"p95 {p95(taken) * 1000:6.1f} ms   most {max(taken) * 1000:7.1f} ms",
        flush=True,
    )


async def measure(quick: bool, journal: str | None) -> None:
    """Measures everything, and prints a line for each."""
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    async with open_club(journal) as club:
        await talk_alone(club, 2)
        alone = await talk_alone(club, 3 if quick else 8)
        tell("one session alone", alone)
        cpu, delay, start = club.cpu(), club.delay(), time.monotonic()
        together = await talk_together(club, SESSIONS, 4 if quick else len(TEXTS))
        seconds = time.monotonic() - start
        used, waited = club.cpu() - cpu, club.delay() - delay
        tell(f"{SESSIONS} sessions, a message each {EVERY:.0f} s", together)
        print(
            f"  {1000 * used / len(together):.1f} ms of CPU for a turn: {used / seconds:.0%} of a core"
        )
        print(f"  other programs had the core for {waited / seconds:.0%} of the time")
        print(f"  p95 by p95 alone: {p95(together) / p95(alone):.1f} (at most 3)")
        beside, slow = await talk_beside_slow(club, 20)
        tell("one session beside 20 that wait for the model", beside)
        tell("those", slow)
        tell("one session while 4 photos are checked", await talk_beside_photos(club, 4))
        print(
            f"memory of an idle session: {await measure_memory(club, 400 if quick else 2000):.1f} KB (at most 20)"
        )
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def main() -> int:
    """Measures; the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.registration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns, for a first look")
    parser.add_argument("--journal", help="the URL of a PostgreSQL database")
    options = parser.parse_args()
    asyncio.run(measure(options.quick, options.journal))
    return 0


if __name__ == "__main__":
    sys.exit(main())
