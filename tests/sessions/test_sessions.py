"""Every operation on sessions except turns, on each kind of journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer
from tests.sessions.conversations import sent, talk

from holdfast import Agent, MemoryJournal, SqliteJournal
from holdfast.core.effects import Effect
from holdfast.core.errors import (
    ConfigurationError,
    ConflictError,
    HoldfastError,
    NoTextError,
    SessionBusyError,
)
from holdfast.core.events import (
    Event,
    QuestionAsked,
    SessionRewound,
    Status,
    TurnOpened,
)
from holdfast.core.messages import user
from holdfast.core.question_log import ask_key, asked_key
from holdfast.core.turn_history import ASK_SUMMARY
from holdfast.journal.port import Journal
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.sessions.sessions import Sessions
from holdfast.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        with PostgresJournal(server.new_url()) as shared:
            yield shared
        return
    with SqliteJournal(tmp_path / "talk.db") as kept:
        yield kept


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def sessions(journal: Journal, clock: FakeClock) -> Sessions:
    return Sessions(journal, clock=clock.now)


async def test_the_list_has_all_sessions_newest_first(journal: Journal, clock: FakeClock) -> None:
    await talk(journal, clock, "ada", "I am  Ada,\nand I like long walks " + "by the sea " * 20)
    await talk(journal, clock, "bob", "one", "two", tools=True)
    first, second = await sessions(journal, clock).list()
    assert (first.session, first.title, first.turns, first.messages) == ("bob", "one", 2, 8)
    assert first.opened_at < first.changed_at
    assert first.status == "closed"
    assert second.session == "ada"
    assert second.title.startswith("I am Ada, and I like long walks by the sea")
    assert len(second.title) == 80
    assert second.changed_at < first.changed_at


async def test_the_list_comes_in_pages(journal: Journal, clock: FakeClock) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await talk(journal, clock, name, "hi")
    kept = sessions(journal, clock)
    page = await kept.list(limit=2)
    assert [info.session for info in page] == ["e", "d"]
    page = await kept.list(limit=2, before=page[-1])
    assert [info.session for info in page] == ["c", "b"]
    page = await kept.list(limit=2, before=page[-1])
    assert [info.session for info in page] == ["a"]
    assert list(await kept.list(limit=2, before=page[-1])) == []


async def test_an_open_turn_and_one_that_waits_are_distinguished(
    journal: Journal, clock: FakeClock
) -> None:
    await journal.append("left", TurnOpened("t1", 1.0, user("hi")))
    await journal.append("asks", TurnOpened("t1", 2.0, user("hi")))
    key = asked_key(ask_key("t1", 0))
    await journal.append("asks", QuestionAsked(key, 3.0, "PermissionQuestion", {}))
    kept = await sessions(journal, clock).list()
    assert [(info.session, info.status) for info in kept] == [("asks", "waiting"), ("left", "open")]


async def test_a_named_session_is_listed_before_its_first_turn(
    journal: Journal, clock: FakeClock
) -> None:
    kept = sessions(journal, clock)
    name = await kept.create("Holiday")
    (info,) = await kept.list()
    assert (info.session, info.title, info.turns, info.status) == (name, "Holiday", 0, "closed")
    assert (await kept.read(name)).messages == ()
    await talk(journal, clock, name, "Where to?")
    (info,) = await kept.list()
    assert (info.title, info.turns) == ("Holiday", 1)
    with pytest.raises(ConfigurationError, match="already"):
        await kept.create("Holiday", session=name)


async def test_a_title_can_be_changed_also_while_a_turn_is_open(
    journal: Journal, clock: FakeClock
) -> None:
    kept = sessions(journal, clock)
    await talk(journal, clock, "ada", "hi")
    await journal.append("ada", TurnOpened("t2", 9.0, user("more")))
    await kept.rename("ada", "One")
    await kept.rename("ada", "Two")
    assert (await kept.info("ada")).title == "Two"
    assert (await kept.info("ada")).session == "ada"


async def test_a_fork_begins_with_the_first_turns_and_leaves_the_original(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", "one", "two", "three", tools=True)
    before = await journal.read("ada")
    fork = await sessions(journal, clock).fork("ada", 2, to="other")
    assert fork == "other"
    assert await journal.read("ada") == before
    copied = await journal.read("other")
    assert list(copied) == list(before[: len(copied)])
    assert all(record.digest for record in copied if ".model" in record.event.key)
    await talk(journal, clock, "other", "four")
    said = (await sessions(journal, clock).read("other")).messages
    assert [m.text for m in said if m.role == "user"] == ["one", "two", "four"]


async def test_a_fork_is_never_made_over_a_session(journal: Journal, clock: FakeClock) -> None:
    await talk(journal, clock, "ada", "one")
    await talk(journal, clock, "bob", "two")
    before = await journal.read("bob")
    with pytest.raises(ConfigurationError, match="already") as caught:
        await sessions(journal, clock).fork("ada", to="bob")
    assert caught.value.argument == "to"
    assert await journal.read("bob") == before


async def test_a_fork_of_a_session_with_an_open_turn_has_the_closed_turns(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", "one")
    await journal.append("ada", TurnOpened("t2", 9.0, user("two")))
    kept = sessions(journal, clock)
    fork = await kept.fork("ada")
    assert [point.text for point in (await kept.read(fork)).points] == ["one"]
    with pytest.raises(ConfigurationError, match="from 1 to 1"):
        await kept.fork("ada", 2)


async def test_a_session_says_whether_its_last_turn_is_over(journal: Journal) -> None:
    clock = FakeClock()
    await talk(journal, clock, "ada", "one")
    kept = Sessions(journal, clock=clock.now)
    assert not (await kept.read("ada")).open
    await journal.append("ada", TurnOpened("t2", clock.now(), user("two")))
    history = await kept.read("ada")
    assert history.open
    assert [point.status for point in history.points] == [Status.COMPLETED, Status.RUNNING]


async def test_after_a_rewind_the_model_is_sent_the_first_turns_only(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", "one", "two", "three")
    kept = sessions(journal, clock)
    assert await kept.rewind("ada", 1) == 4
    assert await sent(journal, "ada") == ["one", "re one"]
    info = await kept.info("ada")
    assert (info.turns, info.messages) == (1, 2)
    await talk(journal, clock, "ada", "four")
    assert await sent(journal, "ada") == ["one", "re one", "four", "re four"]
    assert [r.event.key for r in await journal.read("ada")][-1] == "t5.closed"
    assert await kept.rewind("ada", 3) == 6
    assert await sent(journal, "ada") == ["one", "re one", "two", "re two", "three", "re three"]
    shown = [(p.number, p.kind, p.counts) for p in (await kept.read("ada")).points]
    assert shown == [
        (1, "turn", True),
        (2, "turn", True),
        (3, "turn", True),
        (4, "rewind", False),
        (5, "turn", False),
        (6, "rewind", False),
    ]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("to", [4, -1, True, "2", None])
async def test_a_rewind_takes_only_numbers_of_the_session(
    journal: Journal, clock: FakeClock, to: int
) -> None:
    await talk(journal, clock, "ada", "one", "two", "three")
    with pytest.raises(ConfigurationError, match="from 0 to 3") as caught:
        await sessions(journal, clock).rewind("ada", to)
    assert caught.value.argument == "to"


async def test_nothing_changes_a_session_while_its_turn_is_open(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", "one")
    await journal.append("ada", TurnOpened("t2", 9.0, user("two")))
    before = await journal.read("ada")
    kept = sessions(journal, clock)
    with pytest.raises(SessionBusyError):
        await kept.rewind("ada", 0)
    with pytest.raises(SessionBusyError):
        await kept.compact("ada", keep=0, summary="x")
    assert await journal.read("ada") == before


class Overtaken:
    """A journal in which another process appends just before the next append."""

    def __init__(self, journal: Journal, event: Event) -> None:
        self._journal, self._event = journal, event
        self.read, self.runs, self.delete = journal.read, journal.runs, journal.delete
        self.restore, self.find_request = journal.restore, journal.find_request
        self.find_requests = journal.find_requests
        self.tenant, self.for_tenant = journal.tenant, journal.for_tenant
        self.save_act, self.find_act = journal.save_act, journal.find_act
        self.list_acts = journal.list_acts

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await self._journal.append(run, self._event)
        await self._journal.append(run, event, effect, marker=marker)


@pytest.mark.parametrize(
    "rival",
    [TurnOpened("t2", 9.0, user("two")), SessionRewound("t2", 9.0, 0)],
    ids=["turn", "rewind"],
)
async def test_of_two_changes_to_a_session_at_once_one_is_refused(
    journal: Journal, clock: FakeClock, rival: Event
) -> None:
    await talk(journal, clock, "ada", "one")
    overtaken = sessions(Overtaken(journal, rival), clock)
    with pytest.raises(ConflictError):
        await overtaken.rewind("ada", 1)
    assert [record.event for record in await journal.read("ada")][-1] == rival


async def test_a_summary_replaces_the_older_turns(journal: Journal, clock: FakeClock) -> None:
    await talk(journal, clock, "ada", "one", "two", "three", tools=True)
    seen: list[str] = []

    async def summarize(messages: object) -> str:
        seen.extend(message.text for message in messages)  # type: ignore[attr-defined]
        return "they said one and two"

    kept = sessions(journal, clock)
    assert await kept.compact("ada", keep=1, summary=summarize) == 4
    assert seen == ["one", "", "", "re one", "two", "", "", "re two"]
    assert await sent(journal, "ada") == [
        ASK_SUMMARY,
        "they said one and two",
        "three",
        "",
        "",
        "re three",
    ]
    assert await kept.compact("ada", keep=2, summary="x") is None, "there is nothing to take away"
    await kept.rewind("ada", 3)
    assert (await sent(journal, "ada"))[0] == "one", "the original is in the journal"


async def test_pinned_messages_stay(journal: Journal, clock: FakeClock) -> None:
    await talk(journal, clock, "ada", "one", "IMPORTANT", "three", "four", tools=True)
    kept = sessions(journal, clock)
    await kept.compact("ada", keep=1, summary="", pinned=lambda m: m.text == "IMPORTANT")
    assert [text for text in await sent(journal, "ada") if text] == [
        "IMPORTANT",
        "re IMPORTANT",
        "four",
        "re four",
    ]


async def test_a_summary_that_fails_changes_nothing(journal: Journal, clock: FakeClock) -> None:
    await talk(journal, clock, "ada", "one", "two")
    before = await journal.read("ada")
    kept = sessions(journal, clock)

    async def fails(_: object) -> str:
        raise HoldfastError("no")

    async def empty(_: object) -> str:
        return " "

    with pytest.raises(HoldfastError, match="no"):
        await kept.compact("ada", keep=1, summary=fails)
    with pytest.raises(NoTextError):
        await kept.compact("ada", keep=1, summary=empty)
    with pytest.raises(ConfigurationError, match="summary"):
        await kept.compact("ada", keep=1)
    assert await journal.read("ada") == before


async def test_search_finds_every_message(journal: Journal, clock: FakeClock) -> None:
    await talk(journal, clock, "ada", 'The "Éclair" is\nin the 100% box_1', "bye")
    await talk(journal, clock, "bob", "look", tools=True)
    kept = sessions(journal, clock)
    await kept.rename("bob", "Weather in Porto")

    async def places(text: str) -> list[tuple[str, str, str]]:
        found = await kept.search(text)
        return [(one.session, one.role, one.key) for one in found]

    assert await places("PORTO IS sunny") == [("bob", "tool", "t1.i0.tool.0")]
    assert await places("weather in") == [("bob", "title", "t1")]
    both = [("ada", "assistant", "t1.i0.model"), ("ada", "user", "t1")]
    assert await places('"éclair" is in the') == both
    assert await places("100% box_1") == both
    assert await places("100_ box") == []
    assert await places("c") != []
    assert await places("t1.i0.tool.0") == [], "only what was said, and not how it is kept"


async def test_search_gives_the_latest_first_and_not_too_many(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", *(f"word {n}" for n in range(5)))
    found = await sessions(journal, clock).search("word", limit=3)
    assert [one.text for one in found] == ["re word 4", "word 4", "re word 3"]
    long = "start " + "x" * 500 + " needle " + "y" * 500
    await talk(journal, clock, "bob", long)
    (_, one) = await sessions(journal, clock).search("needle")
    assert one.text.startswith("…x")
    assert one.text.endswith("y…")
    assert "needle" in one.text
    assert len(one.text) < 120


@pytest.mark.parametrize("text", ["", "  ", "x" * 1001, None])
async def test_a_blank_search_is_refused(journal: Journal, clock: FakeClock, text: str) -> None:
    with pytest.raises(ConfigurationError, match="text"):
        await sessions(journal, clock).search(text)


async def test_delete_removes_the_runs_of_the_session_and_nothing_else(
    journal: Journal, clock: FakeClock
) -> None:
    inside = ("ada/t1.i0.tool.0", "ada/t1.i0.tool.0.again.1", "ada/t1.i0.tool.0/t1.i2.tool.1")
    for name in ("ada", "ada/notes", "adam", "ada/t1.i0.tool.0x", *inside):
        await talk(journal, clock, name, "hi")
    kept = sessions(journal, clock)
    await kept.rename("ada", "Ada")
    await kept.rename("adam", "Adam")
    fork = await kept.fork("ada")
    assert await kept.delete("ada") == 13
    left = [entry.run for entry in await journal.runs()]
    assert left == sorted(["ada/notes", "ada/t1.i0.tool.0x", "adam", "adam/:title", fork])
    with pytest.raises(ConfigurationError, match="no session"):
        await kept.delete("ada")


async def test_a_session_with_a_title_only_can_be_deleted(
    journal: Journal, clock: FakeClock
) -> None:
    kept = sessions(journal, clock)
    name = await kept.create("Empty")
    assert await kept.delete(name) == 1
    assert list(await kept.list()) == []


async def test_runs_that_belong_to_a_session_are_not_listed(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", "hi")
    await talk(journal, clock, "ada/t1.i0.tool.0", "hi")
    assert [info.session for info in await sessions(journal, clock).list()] == ["ada"]


@pytest.mark.parametrize("name", ["", " ", None, 3, "x/:title", "x/t1.i0.tool.0"])
async def test_a_name_that_no_session_can_have_is_refused(
    journal: Journal, clock: FakeClock, name: str
) -> None:
    kept = sessions(journal, clock)
    for refused in (
        kept.read(name),
        kept.rewind(name, 0),
        kept.fork(name),
        kept.delete(name),
        kept.rename(name, "x"),
    ):
        with pytest.raises(ConfigurationError):
            await refused


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", ["../../etc", "a/b", "C:\\x", "'; DROP TABLE records; --", "ü %_"])
async def test_a_name_may_look_like_a_path_or_a_command(
    journal: Journal, clock: FakeClock, name: str
) -> None:
    await talk(journal, clock, name, "hi")
    kept = sessions(journal, clock)
    fork = await kept.fork(name)
    lines = [line async for line in kept.export(name)]
    assert await kept.import_(lines, session=name + "2") == name + "2"
    await kept.rewind(name, 0)
    await kept.delete(name)
    assert {info.session for info in await kept.list()} == {fork, name + "2"}


async def test_an_unknown_session_is_reported(journal: Journal, clock: FakeClock) -> None:
    kept = sessions(journal, clock)
    for asked in (kept.read("x"), kept.info("x"), kept.fork("x"), kept.rewind("x", 0)):
        with pytest.raises(ConfigurationError, match="no session 'x'"):
            await asked
    with pytest.raises(ConfigurationError, match="no session 'x'"):
        [line async for line in kept.export("x")]
    assert list(await journal.runs()) == []


async def test_a_turn_that_did_not_complete_is_shown_with_its_status(
    journal: Journal, clock: FakeClock
) -> None:
    agent = Agent(ScriptedModel(HoldfastError("down")), journal=journal, clock=clock)
    with pytest.raises(HoldfastError):
        await agent.run("hi", session="ada")
    history = await sessions(journal, clock).read("ada")
    assert history.messages == (user("hi"),)
    (point,) = history.points
    assert (point.status, point.text) == (Status.FAILED, "hi")


async def test_many_renames_at_once_are_all_saved_or_reported(
    journal: Journal, clock: FakeClock
) -> None:
    kept = sessions(journal, clock)
    await talk(journal, clock, "ada", "hi")
    given = [kept.rename("ada", f"title {n}") for n in range(5)]
    outcomes = await asyncio.gather(*given, return_exceptions=True)
    assert {type(one) for one in outcomes if one is not None} <= {ConflictError}
    assert (await kept.info("ada")).title.startswith("title ")


async def test_the_list_reads_no_records(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteJournal(tmp_path / "many.db") as journal:
        await talk(journal, clock, "ada", *(f"{n}" for n in range(20)), tools=True)
        await sessions(journal, clock).rewind("ada", 3)

        async def never(*_: object) -> object:
            raise AssertionError("records were read")

        for name in ("read", "keys", "read_by_keys"):
            monkeypatch.setattr(journal, name, never)
        (info,) = await sessions(journal, clock).list()
        assert (info.title, info.turns, info.messages) == ("0", 3, 12)


async def test_invalid_input_is_reported_and_changes_nothing(
    journal: Journal, clock: FakeClock
) -> None:
    await talk(journal, clock, "ada", "one", "two")
    before = await journal.read("ada")
    kept = sessions(journal, clock)
    wrong: dict[str, list[object]] = {
        "limit": [kept.list(limit=None), kept.list(limit=0), kept.search("x", limit="3")],  # type: ignore[arg-type]
        "before": [kept.list(before="ada")],  # type: ignore[arg-type]
        "keep": [kept.compact("ada", keep=-1, summary=""), kept.compact("ada", keep=None)],  # type: ignore[arg-type]
        "summary": [kept.compact("ada", keep=1, summary=3)],  # type: ignore[arg-type]
        "pinned": [kept.compact("ada", keep=1, summary="", pinned="x")],  # type: ignore[arg-type]
        "lines": [kept.import_("{}"), kept.import_(b"{}")],  # type: ignore[arg-type]
        "title": [kept.create(""), kept.rename("ada", None)],  # type: ignore[arg-type]
        "to": [kept.fork("ada", to=" ")],
        "at": [kept.fork("ada", "1")],  # type: ignore[arg-type]
    }
    for argument, calls in wrong.items():
        for call in calls:
            with pytest.raises(ConfigurationError) as caught:
                await call  # type: ignore[misc]
            assert caught.value.argument == argument
    assert await journal.read("ada") == before
    assert [info.session for info in await kept.list()] == ["ada"]
