"""Clients with equal bodies that time out, drop and repeat, through kills and two processes: one turn each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.server.note_agent import answer, final_text
from tests.server.processes import GONE, ServedProcess

from holdfast.testing.emulator import Emulator, Pace

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # kills services

CALLS = 6
MOST_TRIES = 5
TEXT = "Note"
LAST_WORD = final_text(TEXT).rsplit(" ", 1)[1].encode()
BODIES: dict[str, dict[str, object]] = {
    "/chat/completions": {"messages": [{"role": "user", "content": TEXT}]},
    "/responses": {"input": TEXT},
}


class WantedCall:
    """A call of one client, which is sent again until it has its answer.

    Args:
        processes: the servers; each try goes to the next one.
        path: the path of its protocol.
        dice: decides when it drops.
        counts: whether it says how often it has sent the request.
    """

    def __init__(
        self,
        processes: Sequence[ServedProcess],
        path: str,
        dice: random.Random,
        *,
        counts: bool,
    ) -> None:
        self._processes = processes
        self._path = path
        self._dice = dice
        self._counts = counts
        self._body = {"model": "noter", **BODIES[path], "stream": dice.random() < 0.5}
        self._turn = dice.randrange(len(processes))
        self.drops = asyncio.Event()
        """Whether it may drop from now on: every first try is known by then."""
        self.is_answered = False

    async def run(self) -> None:
        """Send the request until it is answered."""
        tries = 0
        while not self.is_answered:
            await self._send(tries)
            tries += 1
            await asyncio.sleep(self._dice.uniform(0.3, 0.8))  # as the SDKs wait

    async def _send(self, tries: int) -> None:
        process = self._processes[(self._turn + tries) % len(self._processes)]
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
            writer.write(self._make_request(process.port, tries))
            reading = asyncio.ensure_future(reader.read())
            await self._wait(reading, tries)
            if not reading.done():
                # It leaves, and reads what was sent to it before its server knew.
                writer.write_eof()
            async with asyncio.timeout(60):
                answer = await reading
            writer.close()
        except GONE:
            return
        self.is_answered = is_whole(answer)
        assert not self.is_answered or LAST_WORD in answer

    async def _wait(self, reading: asyncio.Future[bytes], tries: int) -> None:
        """Wait until the answer is complete, or the client drops."""
        if not tries:
            known = asyncio.ensure_future(self.drops.wait())
            await asyncio.wait([reading, known], return_when=asyncio.FIRST_COMPLETED)
            known.cancel()
        # One that does not count is known to have left a moment later in the other process.
        drops = tries < MOST_TRIES and (self._counts or len(self._processes) == 1)
        await asyncio.wait([reading], timeout=self._dice.uniform(0.05, 0.6) if drops else 60.0)

    def _make_request(self, port: int, tries: int) -> bytes:
        body = msgspec.json.encode(self._body)
        count = f"x-stainless-retry-count: {tries}\r\n" if self._counts else ""
        head = (
            f"POST /v1{self._path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{count}\r\n"
        )
        return head.encode() + body


def is_whole(answer: bytes) -> bool:
    """Whether an answer is complete, and no error."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        assert not head or b" 503 " in head.split(b"\r\n")[0], answer
        return False
    if b"chunked" in head:
        is_end = b"[DONE]" in body or b"event: response.completed" in body
        return is_end and body.endswith(b"0\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return len(body) == int(length)


@contextmanager
def serving(url: str, folder: Path, count: int) -> Iterator[list[ServedProcess]]:
    """Serve the note agent, whose model writes slowly, in some processes."""
    with ExitStack() as stack:
        model = stack.enter_context(Emulator(answer, faults=lambda _: Pace(0.02)))
        yield [
            stack.enter_context(ServedProcess(url, model.base_url, folder)) for _ in range(count)
        ]


async def play(processes: list[ServedProcess], folder: Path, seed: int, *, counts: bool) -> None:
    """Let clients call, and kill each process once; check that each call has one turn."""
    dice = random.Random(seed)
    paths = list(BODIES)
    calls = [
        WantedCall(processes, paths[seed % len(paths)], dice, counts=counts) for _ in range(CALLS)
    ]
    running = [asyncio.create_task(call.run()) for call in calls]
    notes = folder / "notes"
    async with asyncio.timeout(90):
        while not notes.exists() or len(notes.read_text().split()) < CALLS:
            await asyncio.sleep(0.02)
        for call in calls:
            call.drops.set()
        for process in processes:
            await asyncio.sleep(dice.uniform(0.2, 0.8))
            await process.kill()
            process.start()
        await asyncio.gather(*running)
    assert len(set(notes.read_text().split())) == CALLS


@pytest.mark.parametrize(("seed", "counts"), [(1, True), (2, True), (3, False), (4, False)])
async def test_one_process_that_is_killed(tmp_path: Path, seed: int, counts: bool) -> None:
    with serving(f"sqlite:///{tmp_path / 'talk.db'}", tmp_path, 1) as processes:
        await play(processes, tmp_path, seed, counts=counts)


@pytest.mark.parametrize(("seed", "counts"), [(5, True), (6, True), (7, False), (8, False)])
async def test_two_processes_of_one_database(
    tmp_path: Path, url: str, seed: int, counts: bool
) -> None:
    with serving(url, tmp_path, 2) as processes:
        await play(processes, tmp_path, seed, counts=counts)
