"""The contract of leases that begin and end with a turn, as tests."""

# ruff: noqa: S101  # REASON: these are tests that ship with the package

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.core.errors import HoldfastError, SessionBusyError
from holdfast.core.events import ModelReplied, Status, TurnClosed, TurnOpened
from holdfast.core.messages import Reply, Text, user
from holdfast.journal.journal_errors import LeaseLostError, RunChangedError
from holdfast.journal.port import Lease, SharedJournal, VersionedLease

Lapse: TypeAlias = Callable[[str], Awaitable[None]]


def _open_turn(number: int) -> TurnOpened:
    return TurnOpened(f"t{number}", 1.0, user("hi"))


def _get_run_id(lease: Lease) -> int:
    assert isinstance(lease, VersionedLease)
    return lease.version[0]


async def _append_end(lease: Lease, number: int) -> None:
    reply = ModelReplied(f"t{number}.i0.model", 2.0, Reply((Text("Hi."),)))
    closed = TurnClosed(f"t{number}.closed", 2.0, Status.COMPLETED)
    await lease.append(lease.run, reply, marker=closed)


async def _expect_error(wanted: type[HoldfastError], act: Awaitable[object]) -> None:
    try:
        await act
    except wanted:
        return
    raise AssertionError(f"{wanted.__name__} was not raised")


class PreparedLeaseConformance:
    """The contract of `SharedJournal.prepare_lease`; the fixtures are those of `LeaseConformance`."""

    async def test_a_prepared_lease_begins_and_ends_with_its_turn(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """Nobody else can claim the run in between, and each turn has a greater token."""
        token, version = 0, (0, 0)
        for number in (1, 2):
            lease = journal.prepare_lease("r", version)
            await lease.append("r", _open_turn(number))
            await _expect_error(SessionBusyError, other.claim("r"))
            await _expect_error(SessionBusyError, other.append("r", _open_turn(9)))
            assert lease.token > token
            await _append_end(lease, number)
            assert list(await journal.runs(turn_open=True)) == []
            await _expect_error(LeaseLostError, lease.append("r", _open_turn(number + 1)))
            await lease.release()
            token, version = lease.token, (_get_run_id(lease), number * 3)
        rival = await other.claim("r")
        assert rival.token > token
        assert len(await journal.read("r")) == 6

    async def test_a_prepared_lease_does_not_begin_when_the_run_has_another_version(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """It has other records, was deleted, or is a new one of the same name and length."""
        known = journal.prepare_lease("r", (0, 0))
        await known.append("r", _open_turn(1))
        await _append_end(known, 1)
        run_id = _get_run_id(known)
        await other.append("r", _open_turn(2))
        for version in ((0, 0), (run_id, 3), (run_id, 5)):
            await self._expect_nothing(journal, version)
        await other.delete("r")
        await self._expect_nothing(journal, (run_id, 4))
        for number in range(1, 5):
            await other.append("r", _open_turn(number))
        await self._expect_nothing(journal, (run_id, 4))
        assert [one.event for one in await other.read("r")] == [_open_turn(n) for n in range(1, 5)]

    async def _expect_nothing(self, journal: SharedJournal, version: tuple[int, int]) -> None:
        lease = journal.prepare_lease("r", version)
        await _expect_error(RunChangedError, lease.append("r", _open_turn(7)))
        assert lease.token == 0
        await lease.release()

    async def test_a_prepared_lease_does_not_begin_beside_another_one(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """Of many of one version one begins; one that ran out is taken over."""
        leases = [rival.prepare_lease("r", (0, 0)) for rival in (journal, other) * 8]
        opened = (lease.append("r", _open_turn(1)) for lease in leases)
        outcomes = await asyncio.gather(*opened, return_exceptions=True)
        assert sorted(type(one).__name__ for one in outcomes) == [
            "NoneType",
            *["RunChangedError"] * 15,
        ]
        first = leases[outcomes.index(None)]
        version = (_get_run_id(first), 1)
        await self._expect_nothing(other, version)
        await lapse("r")
        second = other.prepare_lease("r", version)
        await second.append("r", _open_turn(2))
        await _expect_error(LeaseLostError, first.append("r", _open_turn(3)))
        await first.release()
        await _append_end(second, 2)

    async def test_a_cancelled_append_that_begins_a_lease_leaves_nothing_claimed(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """At any moment of the cancellation, after the release."""
        for turns in range(40):
            lease = journal.prepare_lease(f"r{turns}", (0, 0))
            task = asyncio.ensure_future(lease.append(lease.run, _open_turn(1)))
            for _ in range(turns % 8):
                await asyncio.sleep(0.0 if turns < 20 else 0.001)
            task.cancel()
            await asyncio.wait([task])
            await lease.release()
            await (await other.claim(lease.run)).release()
            assert len(await other.read(lease.run)) in ((0, 1) if task.cancelled() else (1,))
