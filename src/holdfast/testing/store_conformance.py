"""The contract of a journal as a store, as tests: tenants, requests, whole runs, and damage.

    class TestMyJournal(JournalConformance, StoreConformance):
        ...

`StoreConformance` needs the fixture `journal`. `DamageConformance` is for a journal that other
programs can change; it needs the fixture `damage` as well. Nothing here may know how a journal saves
its records.
"""

# ruff: noqa: S101  # REASON: these are tests that ship with the package

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.acts import Act
from holdfast.core.errors import ConfigurationError, ConflictError, HoldfastError
from holdfast.core.events import Status, ToolsBegun, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.journal.journal_errors import JournalCorruptError, RequestExistsError
from holdfast.journal.port import Journal, Record, SharedJournal
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

Damage: TypeAlias = Callable[[Literal["change", "remove", "swap"], str, int], Awaitable[None]]
"""Changes the text of a record, removes it, or swaps its text with that of the next record."""


def _ask(number: int, request: str = "") -> TurnOpened:
    return TurnOpened(f"t{number}", 1.0, user("hi"), request=request)


def _act(number: int, by: str = "ann") -> Act:
    return Act(
        id=f"a{number}", act="title", session="ada", by=by, at=float(number), digest="d"
    ).with_details(title="B\x00\u2028")


class StoreConformance:
    """Tenants, requests and whole runs; define a fixture `journal`, new for each test."""

    async def test_two_tenants_have_equal_names_for_everything(self, journal: Journal) -> None:
        """Each reads, lists, opens, restores and deletes only runs of its own."""
        tenants = [journal, journal.for_tenant("acme"), journal.for_tenant("Acme")]
        assert [one.tenant for one in tenants] == ["", "acme", "Acme"]
        for number, one in enumerate(tenants):
            opened = TurnOpened("t1", number, user(f"of {number}"), agent="a", request="r")
            await one.append("ada", opened, marker=ToolsBegun("t1.i0.begun", number))
        await tenants[1].append("ada", TurnClosed("t1.closed", 5.0, Status.COMPLETED))
        for number, one in enumerate(tenants):
            first, *_ = await one.read("ada")
            assert first.event.at == number
            assert await one.find_request("r") == ("ada", "t1")
            open_runs = [entry.run for entry in await one.runs(turn_open=True)]
            assert open_runs == ([] if number == 1 else ["ada"])
        await tenants[2].restore({"eve": [Record(_ask(1))]})
        assert await tenants[1].delete("ada", "eve") == 3
        assert await tenants[1].find_request("r") is None
        assert [[entry.run for entry in await one.runs()] for one in tenants] == [
            ["ada"],
            [],
            ["ada", "eve"],
        ]

    async def test_a_tenant_has_one_object_and_its_name_is_checked(self, journal: Journal) -> None:
        """So that the leases of a process belong to the tenant, whoever asked for it."""
        acme = journal.for_tenant("acme")
        assert acme.for_tenant("acme") is acme is journal.for_tenant("acme")
        assert acme.for_tenant("") is journal
        for name in ("x" * 201, "a\x00", "\ud800", None):
            asked = asyncio.to_thread(journal.for_tenant, name)  # type: ignore[arg-type]
            assert "tenant" in str(await _expect_error(ConfigurationError, asked))

    async def test_a_request_opens_one_turn(self, journal: Journal) -> None:
        """In whichever run; a refused turn leaves no run and no record."""
        assert await journal.find_request("r") is None
        await journal.append("ada", _ask(1, "r"))
        for run, number in (("ada", 2), ("bob", 1)):
            await _expect_error(RequestExistsError, journal.append(run, _ask(number, "r")))
        assert await journal.find_request("r") == ("ada", "t1")
        assert [entry.run for entry in await journal.runs()] == ["ada"]
        await _expect_error(ConflictError, journal.append("ada", _ask(1, "s")))
        assert await journal.find_request("s") is None
        await journal.append("ada", _ask(2, "s"), marker=ToolsBegun("t2.i0.begun", 1.0))
        assert await journal.find_request("s") == ("ada", "t2")
        assert await read_keys(journal, "ada") == ["t1", "t2", "t2.i0.begun"]

    async def test_requests_are_found_from_one_to_another(self, journal: Journal) -> None:
        """Sorted by code points, those of one tenant; a deleted run has none."""
        requests = ["b-1-f", "b-2", "b-10", "B-1", "b", "c", "b-é"]
        for number, request in enumerate(requests):
            await journal.append(f"run {number}", _ask(1, request))
        await journal.for_tenant("acme").append("run", _ask(1, "b-3"))
        assert list(await journal.find_requests("b-", "b-~")) == ["b-1-f", "b-10", "b-2"]
        assert list(await journal.find_requests("b-2", "b-2")) == ["b-2"]
        assert list(await journal.find_requests("d", "b")) == []
        await journal.delete("run 2")
        await journal.restore({"again": [Record(_ask(1, "b-11"))]})
        assert list(await journal.find_requests("b-", "b-~")) == ["b-1-f", "b-11", "b-2"]

    async def test_of_many_turns_with_one_request_one_is_opened(self, journal: Journal) -> None:
        """At once, each in a run of its own."""
        outcomes = await asyncio.gather(
            *(journal.append(f"run {number}", _ask(1, "r")) for number in range(20)),
            return_exceptions=True,
        )
        assert [type(lost) for lost in outcomes if lost is not None] == [RequestExistsError] * 19
        assert len(await journal.runs()) == 1

    async def test_runs_are_restored_and_deleted_all_or_none(self, journal: Journal) -> None:
        """With their digests and requests; a request that is taken stays where it is."""
        records = [Record(_ask(1, "r"), "abc"), Record(ToolsBegun("t1.i0.begun", 2.0))]
        await journal.restore({"ada": records, "ada/:title": records[1:]})
        assert list(await journal.read("ada")) == records
        await _expect_error(ConflictError, journal.restore({"eve": records, "ada": records}))
        assert [entry.run for entry in await journal.runs()] == ["ada", "ada/:title"]
        await journal.restore({"eve": records})
        assert await journal.find_request("r") == ("ada", "t1")
        await journal.append("eve", make_turn_opened(2))
        assert await journal.delete("ada", "ada/:title", "nobody") == 3
        assert await journal.find_request("r") is None
        assert await read_keys(journal, "eve") == ["t1", "t1.i0.begun", "t2"]

    async def test_an_act_is_saved_with_what_it_writes(self, journal: Journal) -> None:
        """Both or neither, and once; a deletion takes the acts with it, and leaves its own."""
        records = [Record(_ask(1, ""))]
        acts = [_act(number) for number in range(6)]
        await journal.restore({"ada": records}, act=acts[0])
        closed = TurnClosed("t1.closed", 1.0, Status.COMPLETED)
        await journal.append("ada", closed, act=acts[1])
        opened = make_turn_opened(2)
        await journal.append("ada", opened, marker=ToolsBegun("t2.i0.begun", 1.0), act=acts[2])
        await journal.save_act(acts[3])
        assert await journal.list_acts("ada") == acts[:4]
        assert await journal.list_acts("ada", 2) == acts[2:4]
        assert await journal.find_act("a1") == acts[1]
        taken = _act(1, by="eve")
        await _expect_error(RequestExistsError, journal.save_act(taken))
        await _expect_error(RequestExistsError, journal.append("eve", opened, act=taken))
        await _expect_error(RequestExistsError, journal.restore({"eve": records}, act=taken))
        await _expect_error(RequestExistsError, journal.delete("ada", act=taken))
        await _expect_error(ConflictError, journal.append("ada", closed, act=acts[4]))
        await _expect_error(ConflictError, journal.restore({"ada": records}, act=acts[4]))
        assert await journal.find_act("a4") is None
        assert [entry.run for entry in await journal.runs()] == ["ada"]
        assert await read_keys(journal, "ada") == ["t1", "t1.closed", "t2", "t2.i0.begun"]
        assert await journal.delete("ada", act=acts[5]) == 4
        assert await journal.list_acts("ada") == acts[5:]
        assert await journal.find_act("a0") is None

    async def test_the_acts_of_a_tenant_are_its_own(self, journal: Journal) -> None:
        """Also with equal ids and sessions; a name of a session has any length."""
        acme, long = (
            journal.for_tenant("acme"),
            msgspec.structs.replace(_act(1), session="s" * 9000),
        )
        await journal.save_act(long)
        assert await acme.find_act("a1") is None
        await acme.save_act(msgspec.structs.replace(long, by="eve"))
        assert [act.by for act in await acme.list_acts("s" * 9000)] == ["eve"]
        assert await acme.delete("s" * 9000) == 0
        assert await acme.list_acts("s" * 9000) == []
        assert await journal.list_acts("s" * 9000) == [long]
        assert await journal.list_acts("s" * 9000, 0) == await journal.list_acts("s") == []

    async def test_of_many_acts_with_one_id_one_is_saved(self, journal: Journal) -> None:
        """At once, each with a run of its own."""
        outcomes = await asyncio.gather(
            *(journal.append(f"run {n}", _ask(1, ""), act=_act(1)) for n in range(20)),
            return_exceptions=True,
        )
        assert [type(lost) for lost in outcomes if lost is not None] == [RequestExistsError] * 19
        assert len(await journal.runs()) == 1


class DamageConformance:
    """What was changed behind the journal is found; define a fixture `damage` as well."""

    async def test_a_changed_record_is_not_read(self, journal: Journal, damage: Damage) -> None:
        """The error names run and record; other runs are read."""
        await self._fill(journal)
        await damage("change", "ada", 2)
        error = await _expect_error(JournalCorruptError, journal.read("ada"))
        assert "run 'ada', record 2" in str(error)
        assert "checksum" in str(error)
        assert len(await journal.read("bob")) == 4

    async def test_a_missing_record_is_missed(self, journal: Journal, damage: Damage) -> None:
        """In the middle and at the end, also by a reader who knows the records before it."""
        await self._fill(journal)
        await damage("remove", "ada", 2)
        await damage("remove", "bob", 4)
        for run, seq, after in (("ada", 2, 0), ("ada", 2, 1), ("bob", 4, 0), ("bob", 4, 3)):
            error = await _expect_error(JournalCorruptError, journal.read(run, after))
            assert f"run {run!r}, record {seq}: is missing" in str(error)

    async def test_swapped_records_are_not_read(self, journal: Journal, damage: Damage) -> None:
        """Each of them is whole, but not the record that was saved with this number."""
        await self._fill(journal)
        await damage("swap", "ada", 2)
        error = await _expect_error(JournalCorruptError, journal.read("ada"))
        assert "run 'ada', record 2" in str(error)

    async def _fill(self, journal: Journal) -> None:
        for run in ("ada", "bob"):
            for number in range(1, 5):
                await journal.append(run, make_turn_opened(number, f"text {number}"))


class TenantLeaseConformance:
    """Leases of two tenants; define the fixtures of `LeaseConformance`."""

    async def test_a_lease_is_of_one_tenant(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """The run of the same name of another tenant is free."""
        lease = await journal.for_tenant("acme").claim("r")
        await (await other.claim("r")).release()
        await other.append("r", make_turn_opened(1))
        rival = other.for_tenant("acme").claim("r")
        assert "busy" in str(await _expect_error(HoldfastError, rival))
        await lease.append("r", make_turn_opened(1))
        assert await other.delete("r") == 1
        await lease.append("r", make_turn_opened(2))
        await lease.release()
        assert [entry.run for entry in await journal.runs()] == []


async def _expect_error(wanted: type[HoldfastError], act: Awaitable[object]) -> HoldfastError:
    try:
        await act
    except wanted as error:
        return error
    raise AssertionError(f"{wanted.__name__} was not raised")
