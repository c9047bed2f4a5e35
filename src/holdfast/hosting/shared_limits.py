"""Shares the limits of endpoints among processes: "paused until", and the number of calls at once.

Each process sends its use, and takes its part of the whole: there is no lock and no leader. A
process that receives nothing keeps to its own limits. This module must never show a key: an endpoint is
named by a digest.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from holdfast.journal.encoding import to_json
from holdfast.resilience.endpoint_states import PROCESS, EndpointStates
from holdfast.resilience.limiter.strategy import RateLimiter

SECONDS_BETWEEN_LOOKS = 0.25
"""Seconds after which a process looks again at its use."""

_SECONDS_BETWEEN_MESSAGES = 2.0
_SECONDS_ALIVE = 6.0


class EndpointUse(Struct, frozen=True, array_like=True):
    """How a process uses an endpoint.

    Args:
        endpoint: the digest of the endpoint and its account.
        running: the calls in progress.
        wanted: the calls in progress and those that wait.
        paused: seconds for which the provider made this process pause.
        refused: those of them that a refusal asked for.
    """

    endpoint: str
    running: int
    wanted: int
    paused: float = 0.0
    refused: float = 0.0


class LimitsExchange(Protocol):
    """Carries uses between processes."""

    note_limits: Callable[[str, Sequence[Raw]], None]

    @property
    def is_up(self) -> bool:
        """Whether messages of other processes arrive."""
        ...

    @property
    def has_peers(self) -> bool:
        """Whether another process was heard of lately."""
        ...

    def send_limits(self, uses: Sequence[Raw]) -> None:
        """Send the other processes how this one uses endpoints."""
        ...


class _Peer:
    """The last message of another process."""

    def __init__(self) -> None:
        self.received_at = 0.0
        self.uses: dict[str, EndpointUse] = {}
        self.pauses: dict[str, tuple[float, float]] = {}
        """Endpoint -> the moments until which it pauses, by the clock of this process."""


@lru_cache(maxsize=4096)
def digest_endpoint(endpoint: str, account: str) -> str:
    """Return the name of an endpoint in messages; nobody can read a key or an address from it.

    >>> digest_endpoint("openai:m", "a") == digest_endpoint("openai:m", "a") != digest_endpoint("openai:m", "b")
    True
    """
    text = f"{endpoint}\x1f{account}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:24]


class SharedLimits:
    """Shares the limits of this process with the others, until it is closed; make it on the event loop.

    Args:
        exchange: carries the messages.
        states: the limiters of this process.
    """

    def __init__(self, exchange: LimitsExchange, states: EndpointStates = PROCESS) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchange = exchange
        self._states = states
        self._peers: dict[str, _Peer] = {}
        self._paused: dict[str, RateLimiter] = {}
        """The limiters that a provider made this process pause, by their digests."""
        self._sent: dict[str, EndpointUse] = {}
        self._sent_at = 0.0
        exchange.note_limits = self._receive_uses
        states.observers.add(self)
        self._task = self._loop.create_task(self._look_regularly(), name="holdfast-shared-limits")

    def close(self) -> None:
        """Share nothing more. The limits of this process are its own again."""
        self._task.cancel()
        self._states.observers.discard(self)
        for _, _, limiter in self._states.find_limiters():
            limiter.share(None)

    def record_limiter(self, endpoint: str, account: str, limiter: RateLimiter) -> None:
        """Let a new limiter pause if another process has to."""
        name = digest_endpoint(endpoint, account)
        for peer in tuple(self._peers.values()):
            _apply_pause(limiter, peer.pauses.get(name))

    def record_pause(self, endpoint: str, account: str, limiter: RateLimiter) -> None:
        """Report to the others at once that a provider makes this process pause."""
        name = digest_endpoint(endpoint, account)
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._send_pause, name, limiter)

    def _send_pause(self, name: str, limiter: RateLimiter) -> None:
        self._paused[name] = limiter
        self._send_uses()

    async def _look_regularly(self) -> None:
        was_up = False
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            now = monotonic()
            if self._exchange.is_up and not was_up:
                self._exchange.send_limits([])  # the others answer with their use
            was_up = self._exchange.is_up
            if not self._exchange.has_peers and not self._peers:
                continue  # a process that comes asks for the uses
            for sender, peer in list(self._peers.items()):
                if now - peer.received_at > _SECONDS_ALIVE or not self._exchange.is_up:
                    del self._peers[sender]
            uses = self._measure_uses()
            is_due = now - self._sent_at >= _SECONDS_BETWEEN_MESSAGES
            if uses != self._sent or (is_due and any(use.wanted for use in uses.values())):
                self._send_uses(uses)
            self._divide(uses)

    def _measure_uses(self) -> Mapping[str, EndpointUse]:
        """Return the use of this process, and how long a provider lets it pause; nothing of other processes.

        A process may remember thousands of limiters, so those are left out that are idle now and were before.
        """
        now = monotonic()
        found = {name: EndpointUse(name, 0, 0) for name in (*self._sent, *self._paused)}
        for name, limiter in self._name_limiters():
            load = limiter.load()
            if not load.running and not load.waiting:
                continue
            before = found.get(name, EndpointUse(name, 0, 0))
            running = before.running + load.running
            wanted = before.wanted + load.running + load.waiting
            found[name] = EndpointUse(name, running, wanted)
        for name, limiter in list(self._paused.items()):
            paused, refused = limiter.measure_pause(now)
            if not paused:
                del self._paused[name]
            elif name in found:
                use = found[name]
                found[name] = EndpointUse(
                    name, use.running, use.wanted, round(paused, 1), round(refused, 1)
                )
        return found

    def _name_limiters(self) -> Iterator[tuple[str, RateLimiter]]:
        for endpoint, account, limiter in self._states.find_limiters():
            yield digest_endpoint(endpoint, account), limiter

    def _send_uses(self, uses: Mapping[str, EndpointUse] | None = None) -> None:
        uses = self._measure_uses() if uses is None else uses
        sent = list(uses.values())
        self._sent = {name: use for name, use in uses.items() if use.wanted or use.paused}
        self._sent_at = monotonic()
        if sent and self._exchange.has_peers:
            self._exchange.send_limits([Raw(to_json(use)) for use in sent])

    def _receive_uses(self, sender: str, uses: Sequence[Raw]) -> None:
        is_new = sender not in self._peers
        peer = self._peers.setdefault(sender, _Peer())
        peer.received_at = now = monotonic()
        limiters = list(self._name_limiters())
        for raw in uses:
            with suppress(msgspec.DecodeError):  # of another version
                use = msgspec.json.decode(raw, type=EndpointUse)
                peer.uses[use.endpoint] = use
                if use.paused > 0:
                    peer.pauses[use.endpoint] = until = now + use.paused, now + use.refused
                    for name, limiter in limiters:
                        if name == use.endpoint:
                            _apply_pause(limiter, until)
        if is_new:
            self._send_uses()  # it knows nothing of this process
        self._divide(self._measure_uses())

    def _divide(self, uses: Mapping[str, EndpointUse]) -> None:
        """Give each limiter its share of the limit of all processes together."""
        busy = {
            name for peer in self._peers.values() for name, use in peer.uses.items() if use.wanted
        }
        for name, limiter in self._name_limiters():
            if name not in busy:
                limiter.share(None)
                continue
            others = {
                sender: use
                for sender, peer in tuple(self._peers.items())
                if (use := peer.uses.get(name)) is not None and use.wanted
            }
            total = limiter.options.concurrency
            wanted = {sender: use.wanted for sender, use in others.items()}
            own = uses[name].wanted if name in uses else 0
            fair = divide_fairly(total, {**wanted, "": own})[""]
            free = total - sum(use.running for use in others.values())
            limiter.share(max(1, min(fair, free)))


def _apply_pause(limiter: RateLimiter, until: tuple[float, float] | None) -> None:
    now = monotonic()
    if until is not None and until[0] > now:
        limiter.pause(until[0] - now, max(0.0, until[1] - now), now)


def divide_fairly(total: int, wanted: Mapping[str, int]) -> Mapping[str, int]:
    """Return how many calls each process may have at once.

    A process that wants less than an equal part gets what it wants, and the others divide the rest.
    What nobody wants is divided too, so that a process can begin calls before it says so. Each gets
    at least one, which is more than `total` if there are more processes than that.

    Args:
        total: the number of calls of all processes together.
        wanted: the number of calls that each process has or wants.

    >>> divide_fairly(10, {"a": 20, "b": 1})
    {'b': 1, 'a': 9}
    >>> divide_fairly(10, {"a": 2, "b": 1})
    {'b': 4, 'a': 5}
    >>> divide_fairly(2, {"a": 9, "b": 9, "c": 9})
    {'a': 1, 'b': 1, 'c': 1}
    """
    ordered = sorted(wanted.items(), key=lambda item: (item[1], item[0]))
    unwanted = total - sum(max(number, 1) for _, number in ordered)
    if ordered and unwanted >= 0:
        part = unwanted // len(ordered)
        return {name: max(number, 1) + part for name, number in ordered}
    shares: dict[str, int] = {}
    left = total
    for place, (name, number) in enumerate(ordered):
        share = max(1, min(max(number, 1), left // (len(ordered) - place)))
        shares[name] = share
        left = max(0, left - share)
    return shares
