"""Clients that call, wait and call again, driven through one heap of moments.

Every client is a generator that yields the moment of its next event; the heap holds them all, so
ten thousand clients and minutes of outage pass in seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from random import Random

from msgspec import Struct

from benchmarks.outage.policies import DOWN, POLICIES, REFUSED, Policy
from benchmarks.outage.provider import Incident, Provider

PROCESSES = 100
SECONDS = 300
LOAD = 0.7


class Seen(Struct):
    """What one run counted."""

    calls: int = 0
    attempts: int = 0
    goodput: list[int] = []
    latencies: list[float] = []
    failed: int = 0

    @property
    def amplification(self) -> float:
        """Attempts for each call."""
        return self.attempts / max(1, self.calls)


class Client:
    """One client: thinks, calls, and does what its policy says until the call ends."""

    def __init__(self, policy: Policy, provider: Provider, dice: Random, think: float) -> None:
        self.policy = policy
        self.provider = provider
        self.dice = dice
        self.think = think

    def life(self, seen: Seen) -> Generator[float, None, None]:
        """Yields the moment at which it wants to go on."""
        now = self.dice.random() * self.think
        while True:
            yield now
            begun = now
            seen.calls += 1
            ended, well = yield from self._call(now, seen)
            now = ended
            if well:
                if ended < SECONDS:
                    seen.goodput[int(ended)] += 1
                seen.latencies.append(ended - begun)
            else:
                seen.failed += 1
            now += self.dice.expovariate(1.0 / self.think)

    def _call(self, now: float, seen: Seen) -> Generator[float, None, tuple[float, bool]]:
        policy, attempt, waited = self.policy, 0, 0.0
        policy.begin()
        while True:
            hold = policy.hold(now, waited)
            if hold is None:
                return now, False
            if hold:
                waited += hold
                now += hold
                yield now
                continue
            waited = 0.0
            ticket = policy.ticket()
            seen.attempts += 1
            kind, now = self.provider.attempt(now)
            yield now
            failure = None if kind == "served" else (DOWN if kind == "down" else REFUSED)
            policy.done(ticket, now, failure)
            if failure is None:
                return now, True
            wait = policy.again(now, failure, attempt)
            if wait is None:
                return now, False
            attempt += 1
            now += wait
            yield now


def simulate(name: str, incident: Incident, *, clients: int, seed: int = 1) -> Seen:
    """One policy through one incident.

    Args:
        name: of the policy.
        incident: what happens to the provider.
        clients: how many; capacity and load grow with them.
        seed: of all dice.
    """
    dice = Random(seed)
    capacity = clients / 10
    provider = Provider(capacity, incident)
    think = clients / (capacity * LOAD)
    processes = min(PROCESSES, clients)
    policies = [POLICIES[name](dice) for _ in range(processes)]
    seen = Seen(goodput=[0] * SECONDS, latencies=[])
    heap: list[tuple[float, int, Generator[float, None, None]]] = []
    for number in range(clients):
        life = Client(policies[number % processes], provider, dice, think).life(seen)
        heap.append((next(life), number, life))
    heapq.heapify(heap)
    while heap[0][0] < SECONDS:
        _, number, life = heap[0]
        heapq.heapreplace(heap, (next(life), number, life))
    return seen
