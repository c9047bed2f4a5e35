"""Claims: which request gets the answer of a turn that was begun without an idempotency key.

A client that repeats a request by itself sends the same body again, and often no key. The repetition gets
the turn of the first try only if nobody got its answer: its client has left, its process has ended, or
the client says that it repeats. Two equal bodies alone are two turns. The name of such a turn, which the
journal has as its request, has the digest of the body, so the turns of a body are found by their names.
This module must never decide by the content of a body, and must never delay an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import HoldfastError
from holdfast.journal.live_link import LiveLink
from holdfast.journal.service_store.service_store import ClaimState, ServiceStore, TurnClaim
from holdfast.resilience.system_clock import new_run_id

FindRequests: TypeAlias = Callable[[str, str], Awaitable[Collection[str]]]
"""Returns the requests of the turns of a tenant from one to another."""

IsOpen: TypeAlias = Callable[[], bool]
"""Returns whether the connection of a request is open."""

_PREFIX: Final = "body-"
_PAUSE: Final = 0.25
"""Seconds between two looks at the connections, and between two groups of claims that are saved."""

_MOST_LOOKS: Final = 20
"""How often a request looks for turns that other requests claim at the same time."""

_MANY: Final = 20
_LONGEST_BEGIN: Final = 15.0
"""Seconds after which a turn that was wanted is saved, or never will be."""

_log = logging.getLogger("holdfast.hosting")


class OfferedTurn(Struct, frozen=True):
    """A turn with the body of a request.

    Args:
        at: when it was wanted first.
        name: its name.
        holder: the connection that holds it.
        state: whether the holder waits, has left or has got the answer.
        has_ended: whether the process of the holder has ended.
    """

    at: float
    name: str
    holder: str
    state: ClaimState
    has_ended: bool = False

    @property
    def is_free(self) -> bool:
        """Whether nobody waits for its answer."""
        return self.state == "left" or (self.state == "open" and self.has_ended)


def order_offers(turns: Collection[OfferedTurn], tries: int) -> list[OfferedTurn]:
    """Return the turns that a request may claim, the best one first.

    A client that counts its tries may also claim a turn whose connection looks open: it may be the one
    that it gave up. First come the turns that the try before may have held; of these, and of
    the others, those that nobody waits for, and the oldest.

    Args:
        turns: the turns with its body.
        tries: how often its client says that it has sent the request before.

    >>> turns = [OfferedTurn(1.0, "a", "p-1-0", "open"), OfferedTurn(2.0, "b", "p-2-0", "left")]
    >>> [turn.name for turn in order_offers(turns, 1)]
    ['b', 'a']
    >>> [turn.name for turn in order_offers(turns, 0)]
    ['b']
    """
    offered = [one for one in turns if one.is_free or (tries and one.state == "open")]
    is_other = {one.name: _read_tries(one.holder) != tries - 1 for one in offered}
    return sorted(offered, key=lambda one: (is_other[one.name], not one.is_free, one.at, one.name))


class HeldTurn:
    """The turn that one request holds, until it is answered or its client leaves.

    Args:
        claims: the claims of this process.
        claim: its claim.
        is_open: whether the connection of the request is open.
        is_joined: whether an earlier request has begun the turn.
    """

    __slots__ = ("_claims", "claim", "is_joined", "is_open")

    def __init__(
        self, claims: TurnClaims, claim: TurnClaim, is_open: IsOpen, *, is_joined: bool
    ) -> None:
        self._claims = claims
        self.claim = claim
        self.is_joined = is_joined
        self.is_open: IsOpen | None = is_open
        """Asks the connection; None once it sends its last byte."""

    @property
    def name(self) -> str:
        """The request of the turn."""
        return self.claim.name

    def close_line(self) -> bool:
        """Return whether the connection is open, and ask it no more: it is about to send its last byte."""
        is_open, self.is_open = self.is_open, None
        return is_open is not None and is_open()

    def leave(self) -> None:
        """Note that the client has left without the answer."""
        self._claims.note(self, "left")

    def finish(self) -> None:
        """Note that the last byte of the answer went to a connection that was open."""
        self._claims.note(self, "got")

    def drop(self) -> None:
        """Forget the turn: the request was refused, and nothing has begun."""
        self._claims.forget(self)


class TurnClaims:
    """The turns that were begun without an idempotency key, as this process knows them.

    Changes for other processes are saved in groups, after the answers.

    Args:
        store: the store of the service.
        window: seconds in which a turn may be claimed; 0 for never.
        is_shared: whether other processes serve the same journal.
        now: the time in seconds since the epoch.
    """

    def __init__(
        self,
        store: ServiceStore,
        window: float,
        *,
        is_shared: bool,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._window = window
        self._is_shared = is_shared
        self._now = now
        self._began = self._tidied = now()
        self._process = new_run_id()
        self._numbers = itertools.count(1)
        self._bodies: dict[str, dict[str, HeldTurn]] = {}
        self._settled: dict[str, float] = {}
        """Of bodies with many turns, the time before which all of them were got."""
        self._unsaved: dict[str, TurnClaim] = {}
        self._working: asyncio.Task[None] | None = None
        self.link: LiveLink | None = None
        """The link to the other processes; set before the first request if there are any."""

    @property
    def is_on(self) -> bool:
        """Whether turns are claimed; not in a process of which the others cannot know that it ends."""
        return self._window > 0 and (self.link is not None or not self._is_shared)

    @property
    def _me(self) -> str:
        return self._process if self.link is None else self.link.process

    async def claim(
        self, body: str, find_requests: FindRequests, is_open: IsOpen, tries: int
    ) -> HeldTurn:
        """Return the earlier turn that a request gets, or a new one.

        Args:
            body: the digest of the body and of its sender, in hexadecimal digits.
            find_requests: finds the turns of the sender's tenant.
            is_open: whether the connection of the request is open.
            tries: how often its client says that it has sent the request before.

        Raises:
            JournalError: it cannot be known which turns there are.
        """
        now = self._now()
        self._tidy(now)
        for _ in range(_MOST_LOOKS):
            offers = await self._find_offers(body, find_requests, now - self._window)
            ordered = order_offers(offers, tries)
            for offer in ordered:
                holder = self._new_holder(tries)
                claim = TurnClaim(
                    name=offer.name, body=body, holder=holder, state="open", at=offer.at
                )
                held = HeldTurn(self, claim, is_open, is_joined=True)
                if await self._take(held, offer.holder):
                    return held
            if not ordered:
                break  # otherwise others were faster, and there may be turns that are free now
        name = f"{_PREFIX}{body}-{_write_time(now)}-{self._new_holder(tries)}"
        at, holder = _read_name(name)
        claim = TurnClaim(name=name, body=body, holder=holder, state="open", at=at)
        held = HeldTurn(self, claim, is_open, is_joined=False)
        self._hold(held)
        return held

    def note(self, held: HeldTurn, state: ClaimState) -> None:
        """Note that a client has left or has got its answer, unless another request has claimed the turn."""
        if self._find(held.claim) is not held or held.claim.state == "got":
            return
        held.claim = replace(held.claim, state=state)
        if self._is_shared or state == "got":
            self._unsaved[held.name] = held.claim
            self._begin_work()

    def forget(self, held: HeldTurn) -> None:
        """Forget a turn that has not begun; one that another request has claimed stays."""
        if self._find(held.claim) is held:
            turns = self._bodies[held.claim.body]
            del turns[held.name]
            if not turns:
                del self._bodies[held.claim.body]

    def look(self) -> None:
        """Look whether the clients that wait are still there, since other processes cannot ask them."""
        for held in list(self._list_held()):
            if held.claim.state == "open" and held.is_open is not None and not held.is_open():
                held.leave()

    async def save(self) -> None:
        """Save the changes. A failure is logged, and tried again later."""
        unsaved, self._unsaved = self._unsaved, {}
        if not unsaved:
            return
        try:
            await self._store.save_claims(tuple(unsaved.values()), self._now() - self._window)
        except BaseException as error:
            self._unsaved = {**unsaved, **self._unsaved}
            if not isinstance(error, HoldfastError):
                raise  # such as the cancellation by `close`, which saves them
            _log.warning("the answers that were got cannot be saved now: %s", error)
            return
        for claim in unsaved.values():
            held = self._find(claim)
            if held is not None and held.claim == claim and claim.state == "got":
                self.forget(held)

    async def close(self) -> None:
        """Save the changes, and look no more."""
        if self._working is not None:
            self._working.cancel()
            with suppress(asyncio.CancelledError):
                await self._working
        await self.save()

    async def _find_offers(
        self, body: str, find_requests: FindRequests, since: float
    ) -> list[OfferedTurn]:
        claims = await self._list_claims(body, find_requests, since)
        wanted = [one for one in claims if one.at >= since and one.state != "got"]
        if len(claims) > _MANY:
            oldest = min((one.at for one in wanted), default=self._now())
            self._settled[body] = min(oldest, self._now() - _LONGEST_BEGIN)
        ended = await self._find_ended({_read_process(one.holder) for one in wanted})
        return [
            OfferedTurn(one.at, one.name, one.holder, one.state, _read_process(one.holder) in ended)
            for one in wanted
        ]

    async def _list_claims(
        self, body: str, find_requests: FindRequests, since: float
    ) -> list[TurnClaim]:
        """Return the claims of the turns with a body, but for those of this process alone that were got."""
        turns = self._bodies.get(body, {})
        names = {name for name, one in turns.items() if self._is_shared or one.claim.state != "got"}
        first = max(since, self._settled.get(body, 0.0))
        # A process without others knows the turns that it has begun itself.
        last = "~" if self._is_shared else _write_time(self._began)
        if self._is_shared or since < self._began:
            start = f"{_PREFIX}{body}-"
            found = await find_requests(start + _write_time(first), start + last)
            names.update(one for one in found if one.startswith(start) and one not in turns)
        if not names:
            return []
        saved: dict[str, TurnClaim] = {}
        if self._is_shared or not names <= turns.keys():
            saved = {one.name: one for one in await self._store.find_claims(body, first)}
        return [self._find_claim(body, name, saved.get(name)) for name in names]

    def _find_claim(self, body: str, name: str, saved: TurnClaim | None) -> TurnClaim:
        """Return the claim of a turn: as this process has it, as it is saved, or as the turn began."""
        held = self._bodies.get(body, {}).get(name)
        if held is not None and (saved is None or saved.holder == held.claim.holder):
            if held.is_open is not None and not held.is_open():
                held.leave()
            return held.claim
        at, holder = _read_name(name)
        claim = saved or TurnClaim(name=name, body=body, holder=holder, state="open", at=at)
        if claim.state == "open" and _read_process(claim.holder) == self._me:
            # What this process does not know any more was got, or its request ended as it claimed the turn.
            return replace(claim, state="got" if saved is None else "left")
        return claim

    async def _find_ended(self, processes: Collection[str]) -> Collection[str]:
        others = [one for one in processes if one != self._me]
        if not others or not self._is_shared:
            return others
        return () if self.link is None else await self.link.find_ended(others)

    async def _take(self, held: HeldTurn, before: str) -> bool:
        """Hold a turn of another holder; return whether that one still held it without its answer."""
        if self._is_shared:
            if not await self._store.claim_turn(held.claim, before):
                return False
        else:
            known = self._find(held.claim)
            if known is not None and (known.claim.holder != before or known.claim.state == "got"):
                return False
        self._hold(held)
        return True

    def _hold(self, held: HeldTurn) -> None:
        self._bodies.setdefault(held.claim.body, {})[held.name] = held
        self._unsaved.pop(held.name, None)
        if self._is_shared:
            self._begin_work()

    def _find(self, claim: TurnClaim) -> HeldTurn | None:
        return self._bodies.get(claim.body, {}).get(claim.name)

    def _list_held(self) -> Iterator[HeldTurn]:
        return itertools.chain.from_iterable(turns.values() for turns in self._bodies.values())

    def _new_holder(self, tries: int) -> str:
        return f"{self._me}-{next(self._numbers):x}-{tries}"

    def _begin_work(self) -> None:
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="holdfast-claims")

    async def _work(self) -> None:
        """Look and save, as long as there is something to look at or to save."""
        while self._unsaved or (self._is_shared and self._is_somebody_waiting()):
            await asyncio.sleep(_PAUSE)
            if self._is_shared:
                self.look()
            await self.save()

    def _is_somebody_waiting(self) -> bool:
        return any(held.claim.state == "open" for held in self._list_held())

    def _tidy(self, now: float) -> None:
        """Forget the turns that nobody can claim any more."""
        if now - self._tidied < self._window / 8:
            return
        self._tidied = now
        before = now - self._window
        self._settled = {body: at for body, at in self._settled.items() if at > before}
        for held in list(self._list_held()):
            if held.claim.state == "left" and held.claim.at < before:
                self.forget(held)


def _write_time(at: float) -> str:
    return f"{max(0, int(at * 1000)):011x}"


def _read_name(name: str) -> tuple[float, str]:
    """Return when a turn was wanted, and by which connection, from its name."""
    _, _, at, holder = name.split("-", 3)
    return int(at, 16) / 1000, holder


def _read_process(holder: str) -> str:
    return holder.partition("-")[0]


def _read_tries(holder: str) -> int:
    return int(holder.rpartition("-")[2])
