"""Limits that processes share: pauses are heard, calls at once are divided, and alone each keeps its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import msgspec
import pytest
from msgspec import Raw
from tests.postgres_server import PostgresServer
from tests.server.note_agent import answer
from tests.server.processes import Client, ServedProcess

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed
from holdfast.hosting import shared_limits
from holdfast.hosting.shared_limits import EndpointUse, SharedLimits, digest_endpoint
from holdfast.resilience.endpoint_states import EndpointStates
from holdfast.resilience.limiter.decision import FREE, EndpointPause
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import RateLimiter
from holdfast.resilience.pipeline import Failed
from holdfast.resilience.system_clock import SystemClock
from holdfast.testing.emulator import Emulator, HttpStatus

pytestmark = pytest.mark.anyio

KEY = "sk-hush-4711"


class Network:
    """Carries what processes tell, at once, while it is up."""

    def __init__(self) -> None:
        self.is_up = True
        self.ends: list[End] = []
        self.told: list[bytes] = []


class End:
    """The exchange of one process."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._name = f"process {len(network.ends)}"
        self.note_limits: Callable[[str, Sequence[Raw]], None] = lambda _sender, _uses: None
        network.ends.append(self)

    @property
    def is_up(self) -> bool:
        return self._network.is_up

    has_peers = is_up

    def send_limits(self, uses: Sequence[Raw]) -> None:
        self._network.told += [bytes(use) for use in uses]
        for end in self._network.ends:
            if end is not self and self._network.is_up:
                asyncio.get_running_loop().call_soon(end.note_limits, self._name, tuple(uses))


class Process:
    """One process: its limiters, and the calls that it has in progress."""

    def __init__(self, network: Network, concurrency: int) -> None:
        self.states = EndpointStates()
        self.options = LimiterOptions(concurrency=concurrency)
        self.limits = SharedLimits(End(network), self.states)
        self.calls = 0

    @property
    def limiter(self) -> RateLimiter:
        return self.states.limiter_for("openai:m", self.options, KEY)

    def call_while_free(self, most: int) -> None:
        while self.calls < most and self.limiter.try_enter() is not None:
            self.calls += 1

    def end_calls(self, number: int) -> None:
        for _ in range(min(number, self.calls)):
            self.calls -= 1
            self.limiter.leave(FREE, None, SystemClock())

    def be_refused(self, retry_after: float) -> None:
        assert self.limiter.try_enter() is not None
        info = ErrorInfo(
            category=ErrorCategory.RATE_LIMIT_RETRYABLE,
            safe="429",
            landed=Landed.NO,
            retry_after=retry_after,
        )
        self.limiter.leave(FREE, Failed(ValueError(), info), SystemClock())

    @property
    def pause(self) -> EndpointPause:
        return EndpointPause(*self.limiter.measure_pause(monotonic()))


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_limits, "SECONDS_BETWEEN_LOOKS", 0.01)


@asynccontextmanager
async def processes(
    network: Network, number: int, concurrency: int = 1000
) -> AsyncIterator[list[Process]]:
    found = [Process(network, concurrency) for _ in range(number)]
    try:
        yield found
    finally:
        for process in found:
            process.limits.close()


def list_wanted(process: Process, endpoint: str) -> list[int]:
    """The calls that other processes want of an endpoint, as this process heard."""
    peers = process.limits._peers.values()
    return [peer.uses[endpoint].wanted for peer in peers if endpoint in peer.uses]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


async def test_a_pause_is_heard_at_once_and_names_no_key() -> None:
    network = Network()
    async with processes(network, 2) as (one, other):
        assert other.limiter.try_enter() is FREE
        one.be_refused(30)
        await until(lambda: other.pause.refused > 0)
        assert other.limiter.try_enter() is None
        assert 29 < other.pause.all <= 30.2
        assert 29 < other.pause.refused <= 30.2
    assert KEY not in repr(network.told)
    assert b"openai" not in b"".join(network.told)


async def test_only_limiters_in_use_are_sent_and_once_more_at_their_end() -> None:
    network = Network()
    async with processes(network, 2) as (one, other):
        for number in range(50):
            one.states.limiter_for(f"openai:idle-{number}", one.options, KEY)
        one.call_while_free(2)
        name = digest_endpoint("openai:m", KEY)
        await until(lambda: list_wanted(other, name) == [2])
        one.end_calls(2)
        await until(lambda: list_wanted(other, name) == [0])
    assert {msgspec.json.decode(use, type=EndpointUse).endpoint for use in network.told} == {name}


async def test_a_limiter_that_is_made_later_pauses_too() -> None:
    async with processes(Network(), 2) as (one, other):
        one.be_refused(55)
        await asyncio.sleep(0.05)
        assert other.pause.all > 20
        elsewhere = other.states.limiter_for("openai:m", other.options, "another account")
        assert elsewhere.measure_pause(monotonic()) == (0, 0)


async def test_a_process_that_comes_later_is_told() -> None:
    network = Network()
    async with processes(network, 1) as (one,):
        one.be_refused(55)
        await asyncio.sleep(0.05)
        async with processes(network, 1) as (late,):
            await until(lambda: late.pause.all > 20)


@pytest.mark.slow  # takes half a second or more
async def test_a_pause_does_not_grow_by_being_repeated() -> None:
    async with processes(Network(), 3) as (one, other, third):
        one.be_refused(1.0)
        other.call_while_free(1)
        await asyncio.sleep(0.5)
        assert max(one.pause.all, other.pause.all, third.pause.all) < 0.65


@pytest.mark.slow  # takes half a second or more
async def test_calls_at_once_are_divided_by_what_each_wants() -> None:
    async with processes(Network(), 3, concurrency=12) as (one, other, third):
        one.call_while_free(99)
        assert one.calls == 12
        await until(lambda: one.limiter.load().limit == 12)
        other.call_while_free(99)  # before it heard of the other one, or as the last that it may
        await asyncio.sleep(0.1)
        one.end_calls(12)
        other.end_calls(12)
        for _ in range(20):
            one.call_while_free(99)
            other.call_while_free(99)
            third.call_while_free(2)
            await asyncio.sleep(0.03)
            assert one.calls + other.calls + third.calls <= 14
            one.end_calls(1)
            other.end_calls(1)
        one.call_while_free(99)
        assert 3 <= one.calls <= 8
        assert 3 <= other.calls <= 8
        assert third.calls == 2


async def test_a_process_leaves_the_places_that_others_still_use() -> None:
    network = Network()
    async with processes(network, 1, concurrency=12) as (one,):
        one.call_while_free(6)
        ((endpoint, account, _),) = one.states.find_limiters()
        name = digest_endpoint(endpoint, account)
        for running, limit in [(12, 1), (9, 3), (2, 6)]:
            use = EndpointUse(name, running, 12)
            network.ends[0].note_limits("other", [Raw(msgspec.json.encode(use))])
            assert one.limiter.load().limit == limit


async def test_limits_that_are_no_longer_shared_are_its_own() -> None:
    network = Network()
    async with processes(network, 2, concurrency=12) as (one, other):
        one.call_while_free(6)
        other.limiter.try_enter()
        await until(lambda: one.limiter.load().limit < 12)
    assert one.limiter.load().limit == 12


async def test_a_process_alone_or_without_a_link_keeps_its_own_limit() -> None:
    network = Network()
    async with processes(network, 2, concurrency=10) as (one, other):
        one.call_while_free(99)
        other.limiter.try_enter()
        await until(lambda: one.limiter.load().limit < 10)
        network.is_up = False
        await until(lambda: one.limiter.load().limit == other.limiter.load().limit == 10)
    assert one.limiter.load().limit == 10


async def test_what_another_version_tells_is_left_out() -> None:
    network = Network()
    async with processes(network, 1) as (one,):
        one.limiter.try_enter()
        network.ends[0].note_limits("x", [Raw(b'{"a":1}'), Raw(b'["q","w"]'), Raw(b"[1")])
        await asyncio.sleep(0.03)
        assert one.limiter.load().limit == 1000


@pytest.fixture
def emulator(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    """A provider that refuses the first request for some seconds, the parameter of the test."""

    def refuse_first(received: object) -> object:
        if getattr(received, "number", 0) == 1:
            return HttpStatus(429, {"retry-after": str(request.param)})
        return None

    with Emulator(answer, faults=refuse_first) as running:  # type: ignore[arg-type]
        yield running


@pytest.mark.slow  # starts services as processes
@pytest.mark.parametrize("emulator", [6], indirect=True)
async def test_a_second_process_sends_nothing_while_the_first_one_was_told_to_wait(
    emulator: Emulator, tmp_path: Path, url: str
) -> None:
    with (
        ServedProcess(url, emulator.base_url, tmp_path) as first,
        ServedProcess(url, emulator.base_url, tmp_path) as second,
    ):
        await asyncio.sleep(3.0)  # both have heard of each other, also on a busy machine
        one, other = Client([first.api], "ada", "Note"), Client([second.api], "bob", "Note")
        running = [asyncio.create_task(one.run())]
        await until(lambda: len(emulator.requests) == 1)
        await asyncio.sleep(2.0)  # the second one has heard of the pause
        running.append(asyncio.create_task(other.run()))
        await asyncio.wait_for(asyncio.gather(*running), 60)
    one.check()
    other.check()
    refused, *later = sorted(request.received for request in emulator.requests)
    assert len(later) == 4
    assert min(later) - refused >= 5.9


@pytest.mark.slow  # starts services as processes
@pytest.mark.parametrize("emulator", [600], indirect=True)
async def test_a_process_that_cannot_hear_of_a_pause_sends_its_request(
    emulator: Emulator, tmp_path: Path, postgres: PostgresServer, url: str
) -> None:
    with (
        ServedProcess(url, emulator.base_url, tmp_path) as first,
        ServedProcess(postgres.new_url(), emulator.base_url, tmp_path) as second,
    ):
        one, other = Client([first.api], "ada", "Note"), Client([second.api], "bob", "Note")
        waiting = asyncio.create_task(one.run())
        await until(lambda: len(emulator.requests) == 1)
        await asyncio.wait_for(other.run(), 120)
        other.check()
        assert len(emulator.requests) == 3
        waiting.cancel()
