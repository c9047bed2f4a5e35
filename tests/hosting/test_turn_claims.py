"""Which request gets the turn of an earlier one with the same body, and that no wanted call has two."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.hosting.turn_claims import HeldTurn, TurnClaims
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.service_store.service_store import TurnClaim
from holdfast.journal.service_store.service_store_memory import MemoryServiceStore
from holdfast.resilience.system_clock import new_run_id

pytestmark = pytest.mark.anyio

BODY = "0123456789abcdef" * 2
WINDOW = 600.0


class Line:
    """A connection, as its server sees it."""

    def __init__(self) -> None:
        self.looks_open = True

    def ask(self) -> bool:
        return self.looks_open


class World:
    """A journal, a store, a clock, and the processes that serve them.

    Args:
        is_shared: whether several processes serve at once.
    """

    def __init__(self, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.now = 1_000.0
        self.store = MemoryServiceStore()
        self.turns: set[str] = set()
        self.alive: set[str] = set()

    def start(self) -> TurnClaims:
        claims = TurnClaims(self.store, WINDOW, is_shared=self.is_shared, now=lambda: self.now)
        if self.is_shared:
            claims.link = _Link(self.alive)  # type: ignore[assignment]  # REASON: the part that is used
        return claims

    async def find(self, first: str, last: str) -> Collection[str]:
        return [name for name in self.turns if first <= name <= last]

    async def send(
        self, claims: TurnClaims, line: Line | None = None, *, tries: int = 0, body: str = BODY
    ) -> HeldTurn:
        """Send a request whose turn begins."""
        asked = (line or Line()).ask
        held = await claims.claim(body, self.find, asked, tries)
        self.now += 0.01
        self.turns.add(held.name)
        return held


class _Link:
    def __init__(self, alive: set[str]) -> None:
        self.process = new_run_id()
        self._alive = alive
        alive.add(self.process)

    async def find_ended(self, processes: Collection[str]) -> Collection[str]:
        return [one for one in processes if one not in self._alive]


def process_of(claims: TurnClaims) -> str:
    assert claims.link is not None
    return claims.link.process


@pytest.fixture(params=[False, True], ids=["alone", "shared"])
def world(request: pytest.FixtureRequest) -> World:
    return World(is_shared=request.param)


async def test_equal_bodies_alone_are_turns_of_their_own(world: World) -> None:
    claims = world.start()
    for _ in range(10):
        await world.send(claims)
    assert len(world.turns) == 10
    await claims.close()


async def test_the_turn_of_a_client_that_left_is_claimed_once_the_oldest_first(
    world: World,
) -> None:
    claims, lines = world.start(), [Line() for _ in range(3)]
    turns = [await world.send(claims, line) for line in lines]
    for line in lines[1:]:
        line.looks_open = False
    again = [await world.send(claims) for _ in range(3)]
    assert [one.is_joined for one in again] == [True, True, False]
    assert [one.name for one in again[:2]] == [turns[1].name, turns[2].name]
    await claims.close()


async def test_a_claimed_turn_is_free_again_when_that_client_leaves(world: World) -> None:
    claims = world.start()
    first = await world.send(claims)
    first.leave()
    second = await world.send(claims)
    first.leave()  # it holds nothing any more
    assert (await world.send(claims)).name != first.name
    second.leave()
    assert (await world.send(claims)).name == first.name
    await claims.close()


async def test_only_a_client_that_repeats_claims_a_turn_whose_connection_looks_open(
    world: World,
) -> None:
    claims = world.start()
    first = await world.send(claims)
    assert not (await world.send(claims)).is_joined
    again = await world.send(claims, tries=1)
    assert again.name == first.name
    first.finish()  # the connection only looked open, so nobody got it
    again.leave()
    assert (await world.send(claims, tries=2)).name == first.name
    await claims.close()


async def test_a_client_that_repeats_claims_first_what_nobody_waits_for(world: World) -> None:
    claims = world.start()
    await world.send(claims)
    second = await world.send(claims)
    second.leave()
    assert (await world.send(claims, tries=1)).name == second.name
    await claims.close()


async def test_a_client_claims_first_what_its_own_last_try_may_have_held(world: World) -> None:
    claims = world.start()
    await world.send(claims)
    first = await world.send(claims, tries=1)
    other = await world.send(claims)
    assert (await world.send(claims, tries=2)).name == first.name
    assert (await world.send(claims, tries=1)).name == other.name
    assert (await world.send(claims, tries=9)).is_joined  # whichever, rather than a new one
    await claims.close()


async def test_an_answer_that_was_got_is_not_claimed(world: World) -> None:
    claims = world.start()
    (await world.send(claims)).finish()
    assert not (await world.send(claims, tries=1)).is_joined
    await claims.save()
    assert len(world.turns) == 2
    (await world.send(claims, tries=1)).finish()  # the second, which looks open
    assert not (await world.send(claims, tries=1)).is_joined
    await claims.close()


async def test_another_body_or_a_turn_before_the_window_is_not_claimed(world: World) -> None:
    claims = world.start()
    (await world.send(claims)).leave()
    assert not (await world.send(claims, body=BODY[::-1], tries=1)).is_joined
    world.now += WINDOW
    assert not (await world.send(claims, tries=1)).is_joined
    await claims.close()


async def test_a_refused_request_leaves_nothing_to_claim(world: World) -> None:
    claims = world.start()
    held = await world.send(claims)
    world.turns.clear()
    held.drop()
    held.drop()
    assert not (await world.send(claims, tries=1)).is_joined
    await claims.close()


async def test_a_window_of_zero_is_off() -> None:
    assert not TurnClaims(MemoryServiceStore(), 0.0, is_shared=False).is_on
    assert TurnClaims(MemoryServiceStore(), 1.0, is_shared=False).is_on
    # Nobody could know that this process ends.
    assert not TurnClaims(MemoryServiceStore(), 1.0, is_shared=True).is_on


async def test_after_a_kill_the_turns_are_claimed_whose_answers_nobody_got(world: World) -> None:
    claims = world.start()
    got, lost = await world.send(claims), await world.send(claims)
    got.finish()
    await claims.save()
    world.alive.clear()
    later = world.start()
    again = await world.send(later)
    assert (again.name, again.is_joined) == (lost.name, True)
    assert not (await world.send(later)).is_joined
    await claims.close()
    await later.close()


async def test_a_turn_of_another_process_is_claimed_once_its_client_has_left() -> None:
    world = World(is_shared=True)
    one, other, line = world.start(), world.start(), Line()
    first = await world.send(one, line)
    assert not (await world.send(other)).is_joined
    line.looks_open = False
    one.look()
    await one.save()
    again = await world.send(other)
    assert again.name == first.name
    assert not (await world.send(one)).is_joined
    world.alive.discard(process_of(other))
    assert (await world.send(one)).name == first.name
    for claims in (one, other):
        await claims.close()


async def test_of_two_processes_one_claims_a_turn() -> None:
    world = World(is_shared=True)
    claims = [world.start() for _ in range(3)]
    first = await world.send(claims[0])
    first.leave()
    await claims[0].save()
    again = await asyncio.gather(*(world.send(one) for one in claims))
    assert sorted(one.is_joined for one in again) == [False, False, True]
    for one in claims:
        await one.close()


class _SlowStore(MemoryServiceStore):
    """Lets other requests go first, as a database does."""

    async def claim_turn(self, claim: TurnClaim, holder: str) -> bool:
        await asyncio.sleep(0)
        return await super().claim_turn(claim, holder)

    async def find_claims(self, body: str, since: float) -> Sequence[TurnClaim]:
        await asyncio.sleep(0)
        return await super().find_claims(body, since)


async def test_requests_that_claim_at_the_same_time_get_a_turn_each() -> None:
    world = World(is_shared=True)
    world.store = _SlowStore()
    claims = [world.start() for _ in range(3)]
    turns = [await world.send(one) for one in claims for _ in range(4)]
    for turn in turns:
        turn.leave()
    for one in claims:
        await one.save()
    again = await asyncio.gather(*(world.send(one, tries=1) for one in claims for _ in range(4)))
    assert {one.name for one in again} == {one.name for one in turns}
    for one in claims:
        await one.close()


async def test_a_claim_that_ends_on_the_way_is_free(world: World) -> None:
    """As if the request was cancelled after the store had its claim, and before it knew."""
    claims = world.start()
    first = await world.send(claims)
    first.leave()
    await claims.save()
    me = first.claim.holder.partition("-")[0]
    lost = TurnClaim(
        name=first.name, body=BODY, holder=f"{me}-ffff-0", state="open", at=first.claim.at
    )
    await world.store.claim_turn(lost, first.claim.holder)
    assert (await world.send(claims)).name == first.name
    await claims.close()


class _SickStore(MemoryServiceStore):
    is_sick = True

    async def save_claims(self, claims: Sequence[TurnClaim], since: float) -> None:
        if self.is_sick:
            raise JournalStorageError("talk.db", "no space")
        await super().save_claims(claims, since)


async def test_a_store_that_cannot_be_written_loses_no_answer() -> None:
    world = World(is_shared=False)
    world.store = store = _SickStore()
    claims = world.start()
    (await world.send(claims)).finish()
    await claims.save()
    assert not (await world.send(claims)).is_joined
    store.is_sick = False
    await claims.close()
    assert [one.state for one in await store.find_claims(BODY, 0.0)] == ["got"]


async def test_a_saving_that_is_cancelled_loses_no_answer() -> None:
    world = World(is_shared=False)
    world.store = store = _HeldStore()
    claims = world.start()
    (await world.send(claims)).finish()
    saving = asyncio.create_task(claims.save())
    await store.began.wait()
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    store.goes_on.set()
    await claims.close()
    assert [one.state for one in await store.find_claims(BODY, 0.0)] == ["got"]


class _HeldStore(MemoryServiceStore):
    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()

    async def save_claims(self, claims: Sequence[TurnClaim], since: float) -> None:
        self.began.set()
        await self.goes_on.wait()
        await super().save_claims(claims, since)


async def test_turns_of_a_load_test_are_not_looked_at_for_ever() -> None:
    world = World(is_shared=True)
    claims, looks = world.start(), list[str]()

    async def find(first: str, last: str) -> Collection[str]:
        looks.append(first)
        return await world.find(first, last)

    for _ in range(30):
        (await world.send(claims)).finish()
    (lost := await world.send(claims)).leave()
    await claims.save()
    world.now += 60.0
    for _ in range(2):
        held = await claims.claim(BODY, find, Line().ask, 0)
        assert held.name == lost.name
        held.leave()
    assert looks[0] < looks[1] == lost.name.rpartition(lost.claim.holder.partition("-")[0])[0][:-1]
    await claims.close()


async def test_old_claims_are_forgotten() -> None:
    world = World(is_shared=False)
    claims = world.start()
    (await world.send(claims)).finish()
    (await world.send(claims, body=BODY[::-1])).leave()
    await claims.save()
    world.now += 2 * WINDOW
    (await world.send(claims, body=32 * "0")).finish()
    await claims.save()
    assert await world.store.find_claims(BODY, 0.0) == []
    assert list(claims._bodies) == []
    await claims.close()


class Caller:
    """A client that wants one call, and sends it again until it has the answer."""

    def __init__(self) -> None:
        self.tries = 0
        self.held: HeldTurn | None = None
        self.line = Line()
        self.server: TurnClaims | None = None
        self.has_answer = False


Steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "leave", "vanish", "answer", "kill", "look"]), st.integers(0, 9)
    ),
    max_size=60,
)


@given(count=st.integers(1, 10), steps=Steps, is_shared=st.booleans(), counts_tries=st.booleans())
@settings(max_examples=150, deadline=None)
def test_there_is_one_turn_for_each_wanted_call(
    count: int, steps: list[tuple[str, int]], is_shared: bool, counts_tries: bool
) -> None:
    asyncio.run(_play(count, steps, is_shared=is_shared, counts_tries=counts_tries))


async def _play(
    count: int, steps: list[tuple[str, int]], *, is_shared: bool, counts_tries: bool
) -> None:
    """Let clients send, leave with or without a trace, and get answers, while processes are killed.

    Clients that do not count their tries repeat them only when their server has noticed that they left.
    """
    world = World(is_shared=is_shared)
    servers = [world.start() for _ in range(2 if is_shared else 1)]
    callers = [Caller() for _ in range(count)]
    for number, caller in enumerate(callers):
        await _send(world, caller, servers[number % len(servers)], counts_tries=counts_tries)
    for step, number in steps:
        caller, at = callers[number % count], number % len(servers)
        may_send = caller.held is None and not caller.has_answer and caller.tries <= 5
        if step == "send" and may_send:
            await _send(world, caller, servers[at], counts_tries=counts_tries)
        elif step == "kill":
            _kill(world, callers, servers[at])
            servers[at] = world.start()
        elif step == "look" or (step == "leave" and not counts_tries):
            _leave(caller, step)
            for server in servers:
                server.look()
                await server.save()
        elif step != "vanish" or counts_tries:
            _leave(caller, step)
    assert len(world.turns) == count


def _leave(caller: Caller, step: str) -> None:
    """Let a client leave, vanish so that its connection looks open for ever, or get its answer."""
    if caller.held is None or caller.has_answer:
        return
    if step == "answer":
        caller.held.finish()
        caller.has_answer = True
    elif step in ("leave", "vanish"):
        caller.line.looks_open = step == "vanish"
        caller.held = None


def _kill(world: World, callers: Sequence[Caller], dead: TurnClaims) -> None:
    if world.is_shared:
        world.alive.discard(process_of(dead))
    for caller in callers:
        if caller.server is dead and not caller.has_answer:
            caller.held = None


async def _send(world: World, caller: Caller, server: TurnClaims, *, counts_tries: bool) -> None:
    caller.line, caller.server = Line(), server
    tries = caller.tries if counts_tries else 0
    caller.held = await world.send(server, caller.line, tries=tries)
    caller.tries += 1
