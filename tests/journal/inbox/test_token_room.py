"""Tokens of a day are reserved for the turns that run: exactly, in each database, whoever dies."""

from __future__ import annotations

import random

import pytest
from tests.journal.inbox.queued_turns import InboxUnderTest

from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.journal.inbox.token_room import RESERVED_TOKENS


async def prepare(box: InboxUnderTest, quota: int, turns: int) -> None:
    """Set a quota, and submit turns; what was used before is known."""
    await box.inbox.set_limits("tenant", QueueLimits(tokens_per_day=quota))
    await box.add_worker()
    for _ in range(turns):
        await box.submit()
    use = await box.inbox.add_tokens("acme", 0)
    assert use.uncounted_before is not None
    await box.inbox.set_earlier_tokens("acme", use.uncounted_before, 0)


async def test_turns_run_at_once_as_far_as_the_quota_has_reservations(box: InboxUnderTest) -> None:
    await prepare(box, 3 * RESERVED_TOKENS, turns=9)
    assert len(await box.admit()) == 3
    assert await box.admit() == []
    # A tenant without a quota of its own does not count, and another tenant has its own.
    await box.inbox.set_limits("tenant:free", QueueLimits(tokens_per_day=10**9))
    await box.submit(tenant="free")
    await box.submit(tenant="free")
    assert len(await box.admit()) == 1  # what it used earlier is not known yet


async def test_a_small_quota_lets_one_turn_run_at_a_time(box: InboxUnderTest) -> None:
    await prepare(box, 100, turns=4)
    next_one = await box.admit()
    for _ in range(3):
        assert len(next_one) == 1
        entry = await box.begin_admitted(next_one[0])
        assert await box.admit() == []
        assert not (await box.inbox.add_tokens("acme", 30)).is_crowded
        next_one = await box.end(entry)


async def test_what_was_used_counts_against_the_reservations(box: InboxUnderTest) -> None:
    await prepare(box, 4 * RESERVED_TOKENS, turns=9)
    admitted = await box.admit()
    assert len(admitted) == 4
    # Of the tokens of four reservations, one turn has used less than one: four may not go on.
    use = await box.inbox.add_tokens("acme", 10)
    assert (use.left, use.is_crowded) == (4 * RESERVED_TOKENS - 10, True)
    for entry_id in admitted[:1]:
        entry = await box.begin_admitted(entry_id)
        assert await box.end(entry) == []
    assert not (await box.inbox.add_tokens("acme", 10)).is_crowded


async def test_a_larger_use_makes_every_reservation_larger(box: InboxUnderTest) -> None:
    await prepare(box, 10 * RESERVED_TOKENS, turns=20)
    await box.inbox.add_tokens("acme", 4 * RESERVED_TOKENS)
    assert len(await box.admit()) == 1
    box.clock.at += 86_400  # it is remembered on other days, and the day begins with nothing used
    use = await box.inbox.add_tokens("acme", 0)
    assert use.uncounted_before is not None
    await box.inbox.set_earlier_tokens("acme", use.uncounted_before, 0)
    await box.add_worker()
    assert len(await box.admit()) == 1  # two in all


async def test_as_long_as_the_earlier_use_is_unknown_one_turn_runs(box: InboxUnderTest) -> None:
    await box.inbox.set_limits("tenant", QueueLimits(tokens_per_day=10**9))
    await box.add_worker()
    for _ in range(3):
        await box.submit()
    assert len(await box.admit()) == 1


async def test_a_turn_that_is_begun_again_lets_the_journal_say_what_was_used(
    box: InboxUnderTest,
) -> None:
    await prepare(box, 10**9, turns=2)
    await box.inbox.add_tokens("acme", 5)
    entry, other = await box.admit()
    await box.begin_admitted(entry)
    await box.begin_admitted(other)
    assert (await box.inbox.add_tokens("acme", 0)).uncounted_before is None
    box.clock.at += 1000  # its worker is dead
    await box.add_worker("w2")
    await box.inbox.put_again(await box.inbox.find_stalled())
    await box.begin_admitted(entry, "w2")
    use = await box.inbox.add_tokens("acme", 7)
    assert use.uncounted_before == box.clock.at
    await box.inbox.set_earlier_tokens("acme", box.clock.at, 25)
    assert await box.inbox.read_usage("acme") == (2, 32)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", range(5))
async def test_a_day_is_exceeded_by_at_most_what_one_turn_uses_at_once(
    box: InboxUnderTest, seed: int
) -> None:
    """Turns begin, are counted, end and go on in any order; each uses at most a reservation at once."""
    rng = random.Random(seed)
    quota = rng.randrange(RESERVED_TOKENS * 6)
    await prepare(box, quota, turns=30)
    running: list[InboxEntry] = []
    used = 0
    for _ in range(40):
        if not running or rng.random() < 0.3:
            running += [await box.begin_admitted(entry) for entry in await box.admit()]
        if not running:
            break
        entry, tokens = rng.choice(running), rng.randrange(RESERVED_TOKENS)
        used += tokens
        use = await box.inbox.add_tokens("acme", tokens)
        if use.left == 0 or use.is_crowded or rng.random() < 0.3:
            running.remove(entry)
            later = {"state": EntryState.POSTPONED, "due_at": box.clock.at}
            changes = later if use.is_crowded else {}
            admitted = await box.end(entry, **changes)  # type: ignore[arg-type]
            if use.left:
                running += [await box.begin_admitted(entry) for entry in admitted]
        if use.left == 0:
            # Those that still run land, each with what was reserved for it.
            used += len(running) * RESERVED_TOKENS
            break
    assert used <= quota + RESERVED_TOKENS
    await box.check()
