"""The contract of a journal as tests: inherit from the classes and define a fixture.

    class TestMyJournal(JournalConformance):
        @pytest.fixture
        def journal(self):
            journal = MyJournal(...)
            yield journal
            journal.close()

A journal that several processes share inherits `LeaseConformance` as well. Tenants, requests, whole
runs and damage are in `holdfast.testing.store_conformance`. Nothing here may know
how a journal saves its records. The tests are coroutines, run by anyio's plugin for pytest.
"""

# ruff: noqa: S101  # REASON: these are tests that ship with the package

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from holdfast.core.effects import CallModel, effect_digest
from holdfast.core.errors import ConfigurationError, ConflictError, HoldfastError, SessionBusyError
from holdfast.core.events import (
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    Status,
    ToolsBegun,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.messages import Media, Reply, Text, ToolCall, user
from holdfast.journal.journal_errors import LeaseLostError, RunChangedError
from holdfast.journal.port import Journal, Lease, RunLog, SharedJournal, VersionedLease

Lapse: TypeAlias = Callable[[str], Awaitable[None]]

_ODD = "héllo \U0001f9ff \x00 \u2028 \ud800"


def make_turn_opened(number: int, text: str = "hi", at: float = 1.0) -> TurnOpened:
    """Make an event to append; each number has its own key."""
    return TurnOpened(f"t{number}", at, user(text))


async def read_keys(journal: RunLog, run: str) -> Sequence[str]:
    """Return the keys of a run, in order."""
    return [record.event.key for record in await journal.read(run)]


class JournalConformance:
    """The contract of `holdfast.journal.port.Journal`; define a fixture `journal`, new for each test."""

    async def test_an_unknown_run_is_empty(self, journal: Journal) -> None:
        """Reading creates no run."""
        assert list(await journal.read("nobody")) == []
        assert list(await journal.runs()) == []
        assert await journal.delete("nobody") == 0

    async def test_records_come_back_equal_and_in_order(self, journal: Journal) -> None:
        """This includes bytes, state of the provider and any text."""
        effect = CallModel("t1.i0.model", 0, 1)
        picture = Media("image/png", data=b"\x00\xff", extra={"id": [1, {"deep": None}]})
        reply = Reply((Text(_ODD), ToolCall("", "pay", '{"sum": 1'), picture), model="m")
        events = (
            make_turn_opened(1, _ODD),
            ModelReplied("t1.i0.model", 2.5, reply, 3),
            TurnClosed("t1.closed", 3.0, Status.COMPLETED),
        )
        for event in events:
            await journal.append("r", event, effect if event.key == effect.key else None)
        records = await journal.read("r")
        assert tuple(record.event for record in records) == events
        assert [record.digest for record in records] == ["", effect_digest(effect), ""]

    async def test_a_question_and_its_answer_come_back_equal(self, journal: Journal) -> None:
        """This includes what an approval depends on: the arguments, the nonce and the expiry."""
        key, shown = (
            "t1.i0.tool.0.ask.0",
            {"tool": "pay", "arguments": {"euros": 1.5, "to": _ODD[:9]}},
        )
        events = (
            make_turn_opened(1),
            QuestionAsked(
                key=f"{key}.asked",
                at=2.0,
                kind="PermissionQuestion",
                question=shown,
                wait="suspend",
                before_effect=True,
                until=9.5,
                nonce="n",
                origin="o",
                by_hook=True,
            ),
            QuestionAnswered(
                key=key,
                at=3.0,
                answer={"type": "approved"},
                deferred=True,
                by="ann",
                expires_at=4.25,
            ),
        )
        for event in events:
            await journal.append("r", event)
        assert tuple(record.event for record in await journal.read("r")) == events

    async def test_reading_can_skip_what_is_known(self, journal: Journal) -> None:
        """`after` counts records."""
        for number in range(1, 6):
            await journal.append("r", make_turn_opened(number))
        assert [record.event.key for record in await journal.read("r", 3)] == ["t4", "t5"]
        assert list(await journal.read("r", 5)) == []
        assert list(await journal.read("r", 99)) == []

    async def test_a_key_is_kept_once(self, journal: Journal) -> None:
        """The second of two drivers gets a ConflictError and changes nothing."""
        await journal.append("r", make_turn_opened(1, "first"))
        await _expect_conflict(journal, "r", make_turn_opened(1, "second"))
        await journal.append("r", make_turn_opened(2))
        assert [record.event for record in await journal.read("r")] == [
            make_turn_opened(1, "first"),
            make_turn_opened(2),
        ]

    async def test_an_event_and_its_marker_are_saved_together(self, journal: Journal) -> None:
        """In this order; the marker ends no effect."""
        effect = CallModel("t1.i0.model", 0, 1)
        reply = ModelReplied(effect.key, 2.0, Reply((Text("hi"),)), 1)
        begun = ToolsBegun("t1.i0.begun", 3.0)
        await journal.append("r", make_turn_opened(1))
        await journal.append("r", reply, effect, marker=begun)
        await journal.append("r", TurnClosed("t1.closed", 4.0, Status.COMPLETED))
        saved = await journal.read("r")
        assert [record.event.key for record in saved] == ["t1", reply.key, begun.key, "t1.closed"]
        assert [record.event for record in saved][1:3] == [reply, begun]
        assert [record.digest for record in saved] == ["", effect_digest(effect), "", ""]
        (entry,) = await journal.runs()
        assert (entry.records, entry.opened_at, entry.changed_at) == (4, 1.0, 4.0)

    async def test_an_event_and_its_marker_may_begin_a_run(self, journal: Journal) -> None:
        """The entry counts both."""
        marker = ToolsBegun("t1.i0.begun", 3.0)
        await journal.append("r", make_turn_opened(1, at=2.0), marker=marker)
        (entry,) = await journal.runs(turn_open=True)
        assert (entry.records, entry.opened_at, entry.changed_at) == (2, 2.0, 3.0)

    async def test_a_marker_may_close_a_turn(self, journal: Journal) -> None:
        """The end of a turn is saved with its last reply."""
        reply = ModelReplied("t1.i0.model", 2.0, Reply((Text("Hi."),)))
        closed = TurnClosed("t1.closed", 3.0, Status.COMPLETED)
        await journal.append("r", make_turn_opened(1))
        assert [entry.run for entry in await journal.runs(turn_open=True)] == ["r"]
        await journal.append("r", reply, marker=closed)
        assert [record.event for record in await journal.read("r")][1:] == [reply, closed]
        assert list(await journal.runs(turn_open=True)) == []

    async def test_an_event_and_its_marker_are_both_refused(self, journal: Journal) -> None:
        """Whichever of the two keys has an outcome, and when both have the same key."""
        begun = ToolsBegun("t1.i0.begun", 3.0)
        await journal.append("r", make_turn_opened(1))
        for event, marker in (
            (make_turn_opened(2), make_turn_opened(1, "again")),
            (make_turn_opened(1, "again"), begun),
            (begun, begun),
        ):
            # Beside others, which may be saved in the same group.
            outcomes = await asyncio.gather(
                journal.append("s", make_turn_opened(1)),
                journal.append("r", event, marker=marker),
                journal.append("t", make_turn_opened(1)),
                return_exceptions=True,
            )
            assert [type(outcome) for outcome in outcomes[1:2]] == [ConflictError]
            assert (outcomes[0], outcomes[2]) == (None, None)
            assert [record.event for record in await journal.read("r")] == [make_turn_opened(1)]
            await journal.delete("s")
            await journal.delete("t")
        await journal.append("r", make_turn_opened(2), marker=begun)
        assert await read_keys(journal, "r") == ["t1", "t2", "t1.i0.begun"]

    async def test_a_cancelled_append_saves_an_event_and_its_marker_or_neither(
        self, journal: Journal
    ) -> None:
        """Whenever it is cancelled; and nothing is saved later."""
        for turns in range(20):
            marker = ToolsBegun(f"t{turns}.i0.begun", 3.0)
            append = journal.append("r", make_turn_opened(turns), marker=marker)
            task = asyncio.ensure_future(append)
            for _ in range(turns % 6):
                await asyncio.sleep(0.0 if turns < 10 else 0.001)
            task.cancel()
            await asyncio.wait([task])
            saved = set(await read_keys(journal, "r"))
            assert (f"t{turns}" in saved) == (marker.key in saved)
            await asyncio.sleep(0.001)
            assert set(await read_keys(journal, "r")) == saved

    async def test_of_many_at_once_one_wins(self, journal: Journal) -> None:
        """All others get a ConflictError, and the record is that of the successful append."""
        rivals = [make_turn_opened(1, f"rival {number}") for number in range(20)]
        outcomes = await asyncio.gather(
            *(journal.append("r", rival) for rival in rivals), return_exceptions=True
        )
        won = [rival for rival, lost in zip(rivals, outcomes, strict=True) if lost is None]
        assert [type(lost) for lost in outcomes if lost is not None] == [ConflictError] * 19
        assert [record.event for record in await journal.read("r")] == won

    async def test_runs_do_not_mix(self, journal: Journal) -> None:
        """The same key in two runs is two records."""
        await asyncio.gather(
            *(journal.append(f"run {n % 3}", make_turn_opened(n, at=float(n))) for n in range(30))
        )
        for run in range(3):
            wanted = [f"t{n}" for n in range(30) if n % 3 == run]
            assert sorted(await read_keys(journal, f"run {run}")) == sorted(wanted)

    async def test_runs_are_listed_by_name(self, journal: Journal) -> None:
        """With the number of their records and the earliest and latest times."""
        await journal.append("b", make_turn_opened(1, at=5.0))
        await journal.append("a", make_turn_opened(1, at=2.0))
        await journal.append("a", make_turn_opened(2, at=7.0))
        listed = await journal.runs()
        assert [(e.run, e.records, e.opened_at, e.changed_at) for e in listed] == [
            ("a", 2, 2.0, 7.0),
            ("b", 1, 5.0, 5.0),
        ]

    async def test_runs_with_an_open_turn_are_told_apart(self, journal: Journal) -> None:
        """With the agent that opened the turn, whatever other records there are."""
        closed = TurnClosed("t1.closed", 2.0, Status.COMPLETED)
        await journal.append("ended", TurnOpened("t1", 1.0, user("hi"), agent="ann"))
        await journal.append("ended", closed)
        await journal.append("open", TurnOpened("t1", 1.0, user("hi"), agent="ann"))
        await journal.append("open", closed)
        await journal.append("open", TurnOpened("t2", 3.0, user("hi"), agent="bob"))
        await journal.append("open", ToolsBegun("t2.i0.begun", 4.0))
        await journal.append("bare", ToolsBegun("t1.i0.begun", 4.0))
        found = [(entry.run, entry.turn_open, entry.agent) for entry in await journal.runs()]
        assert found == [("bare", False, ""), ("ended", False, "ann"), ("open", True, "bob")]
        unended = await journal.runs(turn_open=True)
        assert [(entry.run, entry.records, entry.agent) for entry in unended] == [
            ("open", 4, "bob")
        ]
        await journal.append("open", TurnClosed("t2.closed", 5.0, Status.FAILED))
        assert list(await journal.runs(turn_open=True)) == []

    async def test_a_clock_that_went_back_changes_nothing(self, journal: Journal) -> None:
        """The order is that of the appends; the entry has the earliest and the latest time."""
        for number, at in enumerate((100.0, 50.0, 75.0)):
            await journal.append("r", make_turn_opened(number, at=at))
        assert [record.event.at for record in await journal.read("r")] == [100.0, 50.0, 75.0]
        entry = (await journal.runs())[0]
        assert (entry.opened_at, entry.changed_at) == (50.0, 100.0)

    async def test_a_large_event_comes_back_whole(self, journal: Journal) -> None:
        """Five megabytes of text that does not compress well."""
        text = "".join(f"{number:x}é" for number in range(1_000_000))
        await journal.append("r", make_turn_opened(1, text))
        assert [record.event for record in await journal.read("r")] == [make_turn_opened(1, text)]

    async def test_a_deleted_run_is_gone_and_its_name_is_free(self, journal: Journal) -> None:
        """Other runs stay."""
        await journal.append("a", make_turn_opened(1))
        await journal.append("a", make_turn_opened(2))
        await journal.append("b", make_turn_opened(1))
        assert await journal.delete("a") == 2
        assert list(await journal.read("a")) == []
        assert [entry.run for entry in await journal.runs()] == ["b"]
        await journal.append("a", make_turn_opened(1, "again"))
        assert await read_keys(journal, "a") == ["t1"]

    async def test_names_may_be_anything(self, journal: Journal) -> None:
        """Quotes, spaces or an empty name: a name is never interpreted."""
        names = [
            "",
            " ",
            "a'; DROP TABLE records; --",
            "ü/..\\",
            "../../etc/passwd",
            "C:\\x",
            "%s",
            "%",
        ]
        names += ["x" * 5000, "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))]
        for name in names:
            await journal.append(name, make_turn_opened(1, name))
        for name in names:
            assert [record.event for record in await journal.read(name)] == [
                make_turn_opened(1, name)
            ]

    async def test_a_cancelled_append_is_kept_or_not_and_harms_nobody(
        self, journal: Journal
    ) -> None:
        """After it has raised, reading tells which, and nothing is saved later."""
        for number in range(40):
            task = asyncio.ensure_future(journal.append("r", make_turn_opened(number)))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            keys = await read_keys(journal, "r")
            assert task.cancelled() or f"t{number}" in keys
            await journal.append("r", make_turn_opened(1000 + number))
            assert await read_keys(journal, "r") == [*keys, f"t{1000 + number}"]

    async def test_threads_with_loops_of_their_own_may_share_it(self, journal: Journal) -> None:
        """Nothing is lost between them, and each reads its own writes."""
        failures: list[BaseException] = []

        async def work(run: str) -> None:
            for number in range(10):
                await journal.append(run, make_turn_opened(number))
                assert len(await journal.read(run)) == number + 1

        def in_thread(run: str) -> None:
            try:
                asyncio.run(work(run))
            except BaseException as error:  # noqa: BLE001  # REASON: the test asserts it
                failures.append(error)

        threads = [threading.Thread(target=in_thread, args=(f"run {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert failures == []
        assert [entry.records for entry in await journal.runs()] == [10] * 4


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
            await lease.append("r", make_turn_opened(number))
            await _expect_error(SessionBusyError, other.claim("r"))
            await _expect_error(SessionBusyError, other.append("r", make_turn_opened(9)))
            assert lease.token > token
            await _append_end(lease, number)
            assert list(await journal.runs(turn_open=True)) == []
            await _expect_error(LeaseLostError, lease.append("r", make_turn_opened(number + 1)))
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
        await known.append("r", make_turn_opened(1))
        await _append_end(known, 1)
        run_id = _get_run_id(known)
        await other.append("r", make_turn_opened(2))
        for version in ((0, 0), (run_id, 3), (run_id, 5)):
            await self._expect_nothing(journal, version)
        await other.delete("r")
        await self._expect_nothing(journal, (run_id, 4))
        for number in range(1, 5):
            await other.append("r", make_turn_opened(number))
        await self._expect_nothing(journal, (run_id, 4))
        assert [one.event for one in await other.read("r")] == [
            make_turn_opened(n) for n in range(1, 5)
        ]

    async def _expect_nothing(self, journal: SharedJournal, version: tuple[int, int]) -> None:
        lease = journal.prepare_lease("r", version)
        await _expect_error(RunChangedError, lease.append("r", make_turn_opened(7)))
        assert lease.token == 0
        await lease.release()

    async def test_a_prepared_lease_does_not_begin_beside_another_one(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """Of many of one version one begins; one that ran out is taken over."""
        leases = [rival.prepare_lease("r", (0, 0)) for rival in (journal, other) * 8]
        opened = (lease.append("r", make_turn_opened(1)) for lease in leases)
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
        await second.append("r", make_turn_opened(2))
        await _expect_error(LeaseLostError, first.append("r", make_turn_opened(3)))
        await first.release()
        await _append_end(second, 2)

    async def test_a_cancelled_append_that_begins_a_lease_leaves_nothing_claimed(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """At any moment of the cancellation, after the release."""
        for turns in range(40):
            lease = journal.prepare_lease(f"r{turns}", (0, 0))
            task = asyncio.ensure_future(lease.append(lease.run, make_turn_opened(1)))
            for _ in range(turns % 8):
                await asyncio.sleep(0.0 if turns < 20 else 0.001)
            task.cancel()
            await asyncio.wait([task])
            await lease.release()
            await (await other.claim(lease.run)).release()
            assert len(await other.read(lease.run)) in ((0, 1) if task.cancelled() else (1,))


class LeaseConformance(PreparedLeaseConformance):
    """The additional contract of `holdfast.journal.port.SharedJournal`.

    Define the fixtures `journal` and `other`, two journals of one store as in two processes, and
    `lapse`, an async function that lets the lease of a run expire at once.
    """

    async def test_a_claimed_run_is_refused_to_everybody_else(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """Until it is released; other runs are free."""
        lease = await journal.claim("r")
        for rival in (journal, other):
            await _expect_error(SessionBusyError, rival.claim("r"))
            await _expect_error(SessionBusyError, rival.append("r", make_turn_opened(1)))
        await (await other.claim("s")).release()
        await lease.append("r", make_turn_opened(1))
        await lease.release()
        await (await other.claim("r")).release()
        await other.append("r", make_turn_opened(2))
        assert await read_keys(journal, "r") == ["t1", "t2"]

    async def test_of_many_claims_one_wins(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """Its lease can append."""
        claims = (rival.claim("r") for rival in (journal, other) * 10)
        outcomes = await asyncio.gather(*claims, return_exceptions=True)
        won = [lease for lease in outcomes if not isinstance(lease, BaseException)]
        assert len(won) == 1
        assert {type(lost) for lost in outcomes if lost is not won[0]} == {SessionBusyError}
        await won[0].append("r", make_turn_opened(1))

    async def test_a_lease_appends_and_reads_its_run_only(self, journal: SharedJournal) -> None:
        """A key is saved once, with and without a lease."""
        lease = await journal.claim("r")
        assert lease.run == "r"
        assert list(await lease.read("r")) == []
        await lease.append("r", make_turn_opened(1))
        await _expect_error(ConflictError, lease.append("r", make_turn_opened(1, "again")))
        assert [record.event for record in await lease.read("r", 0)] == [make_turn_opened(1)]
        await _expect_error(ConfigurationError, lease.append("s", make_turn_opened(1)))
        await lease.release()
        await lease.release()
        await _expect_error(LeaseLostError, lease.append("r", make_turn_opened(2)))
        assert await read_keys(journal, "r") == ["t1"]

    async def test_a_lease_saves_an_event_and_its_marker_or_neither(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """As a journal does, unless another driver has taken over."""
        begun = ToolsBegun("t1.i0.begun", 3.0)
        first = await journal.claim("r")
        await _expect_error(
            ConflictError, first.append("r", make_turn_opened(1), marker=make_turn_opened(1))
        )
        await first.append("r", make_turn_opened(1), marker=begun)
        assert await read_keys(journal, "r") == ["t1", "t1.i0.begun"]
        await lapse("r")
        second = await other.claim("r")
        late = first.append("r", make_turn_opened(2), marker=ToolsBegun("t2.i0.begun", 4.0))
        await _expect_error(LeaseLostError, late)
        assert await read_keys(journal, "r") == ["t1", "t1.i0.begun"]
        await second.append("r", make_turn_opened(2))

    async def test_who_was_taken_over_cannot_append(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """It gets a LeaseLostError, changes nothing, and cannot end the lease of the other driver."""
        first = await journal.claim("r")
        await first.append("r", make_turn_opened(1))
        await lapse("r")
        second = await other.claim("r")
        assert second.token > first.token
        await _expect_error(LeaseLostError, first.append("r", make_turn_opened(2, "of the zombie")))
        await first.release()
        await _expect_error(SessionBusyError, journal.claim("r"))
        await second.append("r", make_turn_opened(2, "of the second"))
        assert [record.event for record in await journal.read("r")] == [
            make_turn_opened(1),
            make_turn_opened(2, "of the second"),
        ]

    async def test_who_was_late_and_not_taken_over_goes_on(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """A process that was paused may continue if nobody has taken over; its lease is renewed."""
        lease = await journal.claim("r")
        await lapse("r")
        await lease.append("r", make_turn_opened(1))
        await _expect_error(SessionBusyError, other.claim("r"))

    async def test_an_append_without_a_lease_ends_one_that_ran_out(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """The records that the old driver read are no longer current."""
        lease = await journal.claim("r")
        await lapse("r")
        await other.append("r", make_turn_opened(1))
        await _expect_error(LeaseLostError, lease.append("r", make_turn_opened(2)))
        assert await read_keys(journal, "r") == ["t1"]

    async def test_a_deleted_run_cannot_be_brought_back_by_its_driver(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """Nor can it append to the run of the same name that came after."""
        first = await journal.claim("r")
        await first.append("r", make_turn_opened(1))
        assert await other.delete("r") == 1
        await _expect_error(LeaseLostError, first.append("r", make_turn_opened(2)))
        assert list(await journal.read("r")) == []
        second = await other.claim("r")
        assert second.token > first.token
        await _expect_error(LeaseLostError, first.append("r", make_turn_opened(2)))
        await second.append("r", make_turn_opened(1, "new"))

    async def test_a_claim_makes_no_run_and_shows_in_the_list(
        self, journal: SharedJournal, other: SharedJournal, lapse: Lapse
    ) -> None:
        """A run without records is not listed; `leased` says whether there is a valid lease."""
        lease = await journal.claim("r")
        assert list(await other.runs()) == []
        await lease.append("r", make_turn_opened(1))
        assert [entry.leased for entry in await other.runs(turn_open=True)] == [True]
        await lapse("r")
        assert [entry.leased for entry in await other.runs()] == [False]
        await lease.release()
        await (await other.claim("s")).release()
        assert [entry.run for entry in await other.runs()] == ["r"]

    async def test_a_cancelled_claim_leaves_nothing_claimed(
        self, journal: SharedJournal, other: SharedJournal
    ) -> None:
        """At any moment of the cancellation."""
        for turns in range(40):
            task = asyncio.ensure_future(journal.claim("r"))
            for _ in range(turns % 8):
                await asyncio.sleep(0.0 if turns < 20 else 0.001)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                await task.result().release()
            await (await other.claim("r")).release()


async def _expect_conflict(journal: Journal, run: str, event: TurnOpened) -> None:
    try:
        await journal.append(run, event)
    except ConflictError:
        return
    raise AssertionError(f"{event.key} was accepted twice")
