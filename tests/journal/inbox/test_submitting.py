"""Turns are saved once for each request, in order for each session, and refused where a limit says so."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.journal.inbox.queued_turns import InboxUnderTest, make_submission

from holdfast.errors import ConfigurationError, ConflictError
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox_errors import QueueFullError, QuotaReachedError, SubmissionError
from holdfast.journal.inbox.queue_limits import LimitTable, QueueLimits
from holdfast.journal.inbox.submitting import _refuse
from holdfast.journal.inbox.token_room import TokenUse

DAY = 86_400.0


async def test_a_turn_is_ready_and_has_what_was_submitted(box: InboxUnderTest) -> None:
    submission = make_submission("s", "r", priority=3, made_by="ann")
    entry = await box.inbox.submit(submission)
    assert entry.state is EntryState.READY
    assert (entry.body, entry.priority, entry.made_by) == (submission.body, 3, "ann")
    assert entry.created_at == entry.changed_at == box.clock.at
    assert await box.inbox.find(entry.id) == entry
    assert await box.inbox.find_request("acme", "r") == entry
    assert await box.inbox.find_request("other", "r") is None
    assert await box.inbox.find(entry.id + 1) is None
    await box.check()


async def test_requests_are_found_from_one_to_another(box: InboxUnderTest) -> None:
    for number, request in enumerate(("b-1", "b-20", "b-3", "c-1")):
        await box.inbox.submit(make_submission(f"s{number}", request))
    assert sorted(await box.inbox.find_requests("acme", "b-1", "b-2z")) == ["b-1", "b-20"]
    assert await box.inbox.find_requests("other", "b-1", "b-3") == []


async def test_the_same_request_is_the_same_turn_in_every_state(box: InboxUnderTest) -> None:
    first = await box.inbox.submit(make_submission("s", "r"))
    assert await box.inbox.submit(make_submission("s", "r")) == first
    await box.add_worker()
    begun = await box.begin()
    assert (await box.inbox.submit(make_submission("s", "r"))).state is EntryState.ADMITTED
    await box.end(begun)
    again = await box.inbox.submit(make_submission("s", "r"))
    assert (again.id, again.state) == (first.id, EntryState.DONE)
    await box.check()


async def test_another_turn_with_the_same_request_is_refused(box: InboxUnderTest) -> None:
    await box.inbox.submit(make_submission("s", "r"))
    for other in (
        make_submission("s", "r", body=b"[]"),
        make_submission("t", "r"),
        make_submission("s", "r", agent="baker"),
    ):
        with pytest.raises(SubmissionError, match="request 'r'") as caught:
            await box.inbox.submit(other)
        assert isinstance(caught.value, ConflictError)
    assert (await box.inbox.submit(make_submission("s", "r", tenant="other"))).id
    await box.check()


async def test_a_later_turn_of_a_session_waits_for_the_earlier_one(box: InboxUnderTest) -> None:
    first, second = await box.submit("s"), await box.submit("s")
    other = await box.submit("s", tenant="other")
    assert await box.states(first, second, other) == ["ready", "blocked", "ready"]
    await box.check()


async def test_a_turn_is_not_ready_before_its_time(box: InboxUnderTest) -> None:
    later = await box.submit("s", not_before=box.clock.at + 10)
    sooner = await box.submit("s")
    assert await box.states(later, sooner) == ["scheduled", "ready"]
    assert not await box.inbox.promote_due()
    assert await box.state(later) is EntryState.SCHEDULED
    box.clock.at += 10
    await box.inbox.promote_due()
    assert await box.states(later, sooner) == ["blocked", "ready"]
    await box.add_worker()
    await box.end(await box.begin())
    assert await box.states(later, sooner) == ["admitted", "done"]
    await box.check()


@pytest.mark.parametrize("scope", ["all", "tenant:acme"])
async def test_a_full_queue_refuses_and_tells_when_to_try_again(
    box: InboxUnderTest, scope: str
) -> None:
    await box.inbox.set_limits(scope, QueueLimits(queued=3))
    for _ in range(3):
        await box.submit()
    with pytest.raises(QueueFullError, match="has 3 turns already") as caught:
        await box.submit()
    assert caught.value.info.retry_after == 300.0
    await box.add_worker(slots=1)
    entry = await box.begin()
    await box.submit()
    for _ in range(2):
        box.clock.at += 2.0
        [admitted] = await box.end(entry)
        entry = await box.begin_admitted(admitted)
        await box.submit()
    box.clock.at += 2.0
    for seconds in (2.0, 4.0, 6.0):  # two turns ended within four seconds
        with pytest.raises(QueueFullError) as caught:
            await box.submit()
        assert caught.value.info.retry_after == seconds
    box.clock.at += 5.0
    with pytest.raises(QueueFullError) as caught:
        await box.submit()
    assert 3.0 < caught.value.info.retry_after < 8.0
    await box.check()


async def test_a_repeated_request_is_accepted_by_a_full_queue(box: InboxUnderTest) -> None:
    entry = await box.inbox.submit(make_submission("s", "r"))
    await box.inbox.set_limits("tenant", QueueLimits(queued=0, turns_per_day=0))
    assert (await box.inbox.submit(make_submission("s", "r"))).id == entry.id
    await box.check()


@pytest.mark.parametrize("scope", ["all", "tenant", "tenant:acme", "agent:cook"])
async def test_a_queue_that_drains_takes_no_turns_and_does_those_it_has(
    box: InboxUnderTest, scope: str
) -> None:
    entry = await box.submit()
    await box.inbox.set_limits(scope, QueueLimits(is_draining=True))
    with pytest.raises(QueueFullError, match="takes no turns now"):
        await box.submit()
    await box.add_worker()
    assert await box.admit() == [entry.id]
    await box.inbox.set_limits(scope, QueueLimits())
    await box.submit()
    await box.check()


async def test_turns_of_a_day_are_counted_until_midnight_utc(box: InboxUnderTest) -> None:
    await box.inbox.set_limits("tenant", QueueLimits(turns_per_day=2))
    await box.submit()
    await box.submit()
    with pytest.raises(QuotaReachedError, match="2 turns of this day") as caught:
        await box.submit()
    assert caught.value.info.retry_after == DAY / 2
    await box.submit(tenant="other")
    box.clock.at += DAY / 2 - 0.5
    with pytest.raises(QuotaReachedError):
        await box.submit()
    box.clock.at += 0.5
    await box.submit()
    await box.inbox.set_limits("tenant:acme", QueueLimits(turns_per_day=4))
    for _ in range(3):
        await box.submit()
    with pytest.raises(QuotaReachedError):
        await box.submit()
    await box.check()


async def test_tokens_of_a_day_end_with_the_quota(box: InboxUnderTest) -> None:
    assert await box.inbox.add_tokens("acme", 5) == TokenUse()
    await box.inbox.set_limits("tenant", QueueLimits(tokens_per_day=100))
    await box.submit()
    assert (await box.inbox.add_tokens("acme", 60)).left == 40
    await box.submit()
    assert (await box.inbox.add_tokens("acme", 60)).left == 0
    with pytest.raises(QuotaReachedError, match="100 tokens"):
        await box.submit()
    box.clock.at += DAY / 2
    await box.submit()
    assert (await box.inbox.add_tokens("acme", 1)).left == 99


async def test_tokens_from_before_the_counting_are_added_once(box: InboxUnderTest) -> None:
    await box.inbox.set_limits("tenant", QueueLimits(tokens_per_day=100))
    begin = box.clock.at
    assert await box.inbox.add_tokens("acme", 10, at=begin - 1) == TokenUse(100, begin)
    box.clock.at += 5
    assert await box.inbox.add_tokens("acme", 10, at=begin + 1) == TokenUse(90, begin)
    assert await box.inbox.add_tokens("acme", 10, at=begin - 1) == TokenUse(90, begin)
    await box.inbox.set_earlier_tokens("acme", begin, 70)
    await box.inbox.set_earlier_tokens("acme", begin, 80)  # by another worker
    assert await box.inbox.add_tokens("acme", 0) == TokenUse(20)
    assert await box.inbox.read_usage("acme") == (0, 80)
    await box.submit()
    await box.inbox.add_tokens("acme", 20, at=begin + 2)
    with pytest.raises(QuotaReachedError, match="100 tokens"):
        await box.submit()
    box.clock.at += DAY / 2
    assert await box.inbox.add_tokens("acme", 0) == TokenUse(100, box.clock.at)


async def test_submissions_at_once_with_one_request_are_one_turn(box: InboxUnderTest) -> None:
    entries = await asyncio.gather(
        *(box.inbox.submit(make_submission("s", "r")) for _ in range(20))
    )
    assert len({entry.id for entry in entries}) == 1
    await box.check()


async def test_lists_are_pages_of_a_tenant_and_of_states(box: InboxUnderTest) -> None:
    entries = [await box.submit("s" if number % 2 else "") for number in range(6)]
    await box.submit(tenant="other")
    newest = list(reversed([entry.id for entry in entries]))
    page = await box.inbox.list_entries(tenant="acme", limit=4)
    assert [entry.id for entry in page] == newest[:4]
    assert all(entry.body == b"" for entry in page)
    rest = await box.inbox.list_entries(tenant="acme", before=page[-1].id)
    assert [entry.id for entry in rest] == newest[4:]
    blocked = await box.inbox.list_entries(states=[EntryState.BLOCKED])
    assert [entry.id for entry in blocked] == [entries[5].id, entries[3].id]
    box.clock.at += 3.0
    depths = {(one.tenant, one.state): one for one in await box.inbox.count_entries()}
    assert depths["acme", EntryState.READY].count == 4
    assert depths["acme", EntryState.BLOCKED].count == 2
    assert depths["other", EntryState.READY].oldest_seconds == pytest.approx(3.0)


async def test_a_wrong_scope_is_refused(box: InboxUnderTest) -> None:
    with pytest.raises(ConfigurationError, match="scope"):
        await box.inbox.set_limits("agents", QueueLimits())
    with pytest.raises(ConfigurationError, match="running"):
        QueueLimits(running=-1)
    await box.inbox.set_limits("all", QueueLimits(running=3))
    assert await box.inbox.read_limits() == {"all": QueueLimits(running=3)}


async def test_limits_that_are_changed_at_once_are_all_changed(box: InboxUnderTest) -> None:
    await box.inbox.set_limits("tenant:acme", QueueLimits(turns_per_day=9))
    changes: list[dict[str, int | None]] = [{"running": 4}, {"queued": 7}, {"is_paused": True}]
    await asyncio.gather(*(box.inbox.change_limits("tenant:acme", one) for one in changes))
    expected = QueueLimits(running=4, queued=7, turns_per_day=9, is_paused=True)
    assert await box.inbox.read_limits() == {"tenant:acme": expected}
    assert await box.inbox.change_limits("tenant:acme", {"running": None}) == replace(
        expected, running=None
    )
    with pytest.raises(ConfigurationError, match="queued"):
        await box.inbox.change_limits("tenant:acme", {"queued": -1})


def test_a_tenant_with_limits_of_its_own_is_also_paused_with_all_tenants() -> None:
    each = QueueLimits(running=4, is_paused=True, is_draining=True)
    limits = LimitTable({"tenant": each, "tenant:acme": QueueLimits(running=9)}).of_tenant("acme")
    assert limits == QueueLimits(running=9, is_paused=True, is_draining=True)


@pytest.mark.parametrize(
    ("tenant", "of_tenant", "seconds"),
    [("acme", 1, 8.0), ("acme", 0, 2.0), (None, 1, 2.0)],
    ids=["its own turns", "nothing of its own", "all tenants"],
)
def test_a_refusal_knows_how_fast_the_queue_that_is_full_becomes_shorter(
    tenant: str | None, of_tenant: int, seconds: float
) -> None:
    refusal = _refuse(tenant, 3)
    next(refusal)
    with pytest.raises(QueueFullError) as caught:
        refusal.send([(of_tenant, 4, 8.0)])  # four turns of all tenants within eight seconds
    assert caught.value.seconds_a_turn == seconds
