"""Faults of a PostgreSQL server: no record is lost or saved twice, and each error is typed."""

# REASON: a test may block its own loop

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator

import msgspec
import psycopg
import pytest
from psycopg import errors
from tests.postgres_server import PostgresServer, Proxy

from holdfast.core.effects import CallModel
from holdfast.core.errors import ConfigurationError, ConflictError
from holdfast.core.events import ModelReplied, Status, TurnClosed
from holdfast.core.messages import Reply, Text
from holdfast.journal.journal_errors import (
    JournalClosedError,
    JournalCorruptError,
    JournalError,
    JournalStorageError,
    JournalUnreachableError,
    JournalVersionError,
    LeaseLostError,
)
from holdfast.journal.postgres import postgres_migration, postgres_schema
from holdfast.journal.postgres.postgres_failures import PostgresAddress
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.testing.journal_conformance import make_turn_opened, read_keys


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


def through(proxy: Proxy, postgres: PostgresServer, url: str) -> str:
    return url.replace(f":{postgres.port}/", f":{proxy.port}/")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def seqs(postgres: PostgresServer, url: str) -> list[object]:
    return [row[0] for row in postgres.rows(url, "SELECT seq FROM holdfast_records ORDER BY seq")]


async def test_saved_records_are_there_for_the_next_process(url: str) -> None:
    with PostgresJournal(url) as journal:
        await journal.append("r", make_turn_opened(1, "hello"), CallModel("t1", 0, 1))
        before = await journal.read("r")
    with PostgresJournal(url) as journal:
        assert await journal.read("r") == before


async def test_appends_to_other_runs_do_not_wait_for_a_blocked_append(
    journal: PostgresJournal, url: str
) -> None:
    with psycopg.connect(url) as clock:
        began = clock.execute("SELECT clock_timestamp()").fetchone()
    await journal.append("stuck", make_turn_opened(0))
    with psycopg.connect(url) as rival:
        rival.execute("SELECT 1 FROM holdfast_runs WHERE run = 'stuck' FOR UPDATE")
        stuck = asyncio.ensure_future(journal.append("stuck", make_turn_opened(1)))
        await asyncio.gather(*(journal.append(f"run {n}", make_turn_opened(1)) for n in range(100)))
        talking = rival.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'"
            " AND backend_start > %s",  # others are of journals that earlier tests left
            began,
        ).fetchone()
        assert talking is not None
        assert 2 <= talking[0] <= 10
        assert not stuck.done()
    await stuck
    assert len(await journal.runs()) == 101


@pytest.mark.slow  # takes half a second or more
async def test_a_statement_that_takes_too_long_is_cancelled_and_leaves_nothing(url: str) -> None:
    with PostgresJournal(url, timeout=1) as journal:
        await journal.append("r", make_turn_opened(1))
        with psycopg.connect(url) as rival:
            rival.execute("SELECT 1 FROM holdfast_runs FOR UPDATE")
            with pytest.raises(JournalStorageError, match="took too long"):
                await journal.append("r", make_turn_opened(2))
        assert await read_keys(journal, "r") == ["t1"]
        await journal.append("r", make_turn_opened(2))


async def test_a_cancelled_append_that_has_begun_ends_before_the_cancellation_is_reported(
    journal: PostgresJournal, url: str
) -> None:
    await journal.append("r", make_turn_opened(1))
    with psycopg.connect(url) as rival:
        rival.execute("SELECT 1 FROM holdfast_runs FOR UPDATE")
        append = asyncio.ensure_future(journal.append("r", make_turn_opened(2)))
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        await until(lambda: rival.execute(waits).fetchone() == (1,))
        append.cancel()
        await asyncio.sleep(0.05)
        assert not append.done()
    await asyncio.wait([append])
    assert append.cancelled()
    assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_an_append_that_is_cancelled_while_it_waits_for_a_connection_is_never_sent(
    url: str,
) -> None:
    with PostgresJournal(url, connections=1) as journal:
        await journal.append("stuck", make_turn_opened(1))
        with psycopg.connect(url) as rival:
            rival.execute("SELECT 1 FROM holdfast_runs FOR UPDATE")
            stuck = asyncio.ensure_future(journal.append("stuck", make_turn_opened(2)))
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            await until(lambda: rival.execute(waits).fetchone() == (1,))
            waiting = asyncio.ensure_future(journal.append("r", make_turn_opened(1)))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait([waiting], timeout=60)
            assert waiting.cancelled()
            assert not stuck.done()
        await stuck
        assert [entry.run for entry in await journal.runs()] == ["stuck"]


@pytest.mark.slow  # starts a program or a server
async def test_an_append_whose_response_was_lost_is_saved_once(
    postgres: PostgresServer, url: str
) -> None:
    """The connection is cut after so many bytes of the response: before, during and after the commit."""
    async with Proxy(postgres.port) as proxy:
        with PostgresJournal(through(proxy, postgres, url)) as journal:
            await journal.append("r", make_turn_opened(0))
            lease = await journal.claim("leased")
            for number, cut in enumerate([0, 1, 5, 17, 40, 80, 120, 200, 1000], 1):
                proxy.cut_after(cut)
                await journal.append("r", make_turn_opened(number))
                proxy.cut_after(cut)
                await lease.append("leased", make_turn_opened(number))
                proxy.cut_after(cut)
                assert len(await journal.read("leased")) == number
            assert proxy.cuts > 15
            assert await read_keys(journal, "r") == [f"t{n}" for n in range(10)]
            proxy.cut_after(0)
            with pytest.raises(ConflictError):
                await journal.append("r", make_turn_opened(1, "of a rival"))
            await lease.release()
    wanted = [*range(1, 10), *range(1, 11)]
    assert sorted(seqs(postgres, url), key=str) == sorted(wanted, key=str)


async def test_a_claim_whose_response_was_lost_succeeds_and_can_be_released(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        with PostgresJournal(through(proxy, postgres, url)) as journal:
            await journal.append("r", make_turn_opened(0))
            for number in range(1, 4):
                proxy.cut_after(0)
                lease = await journal.claim("r")
                await lease.append("r", make_turn_opened(number))
                await lease.release()
            proxy.cut_after(0)
            assert await journal.delete("r") == 4
            assert list(await journal.runs()) == []


async def test_a_turn_whose_responses_were_lost_has_one_lease_and_each_record_once(
    postgres: PostgresServer, url: str
) -> None:
    """The response to its first record, which begins the lease, and to the last, which ends it."""
    reply = ModelReplied("m", 2.0, Reply((Text("Hi."),)))
    async with Proxy(postgres.port) as proxy:
        with PostgresJournal(through(proxy, postgres, url)) as journal:
            await journal.append("other", make_turn_opened(0))
            version = (0, 0)
            for number in range(1, 6):
                lease = journal.prepare_lease("r", version)
                proxy.cut_after(0)
                await lease.append("r", make_turn_opened(number))
                proxy.cut_after(0)
                again = msgspec.structs.replace(reply, key=f"t{number}.i0.model")
                closed = TurnClosed(f"t{number}.closed", 2.0, Status.COMPLETED)
                await lease.append("r", again, marker=closed)
                await lease.release()
                version = (lease.version[0], number * 3)
            assert proxy.cuts == 10
            claimed = await journal.claim("r")
            assert claimed.version == version
            assert len(await claimed.read("r")) == 15
            # Closing the journal would wait for the proxy, which runs in this event loop.
            await claimed.release()


@pytest.mark.slow  # starts a program or a server
async def test_a_server_that_is_gone_is_reported_and_saved_records_are_found_later(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        with PostgresJournal(through(proxy, postgres, url), wait=2) as journal:
            await journal.append("r", make_turn_opened(1))
            proxy.down()
            acts = (journal.append("r", make_turn_opened(2)), journal.read("r"), journal.claim("r"))
            for error in await asyncio.gather(*acts, return_exceptions=True):
                assert isinstance(error, JournalUnreachableError)
                assert "cannot be reached" in str(error)
            proxy.up()
            assert await read_keys(journal, "r") == ["t1"]
            await journal.append("r", make_turn_opened(2))


async def test_an_append_waits_for_a_server_that_comes_back(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        with PostgresJournal(through(proxy, postgres, url)) as journal:
            await journal.append("r", make_turn_opened(0))
            proxy.down()
            append = asyncio.ensure_future(journal.append("r", make_turn_opened(1)))
            refused = proxy.connections
            await asyncio.sleep(0.1)
            assert proxy.connections == refused
            assert not append.done()
            proxy.up()
            await append
            assert await read_keys(journal, "r") == ["t0", "t1"]


@pytest.mark.slow  # kills the server
async def test_a_server_that_dies_and_starts_again_loses_nothing_that_was_acknowledged(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url, wait=30) as journal:
        lease = await journal.claim("leased")
        acknowledged: list[str] = []

        async def write(run: str) -> None:
            for number in range(30):
                if run == "leased":
                    await lease.append(run, make_turn_opened(number))
                else:
                    await journal.append(run, make_turn_opened(number))
                acknowledged.append(f"{run} t{number}")

        writers = [asyncio.ensure_future(write(f"run {n}")) for n in range(7)]
        writers.append(asyncio.ensure_future(write("leased")))
        await until(lambda: len(acknowledged) > 40)
        await asyncio.to_thread(postgres.kill)
        await asyncio.to_thread(postgres.start)
        await asyncio.gather(*writers)
        for run in [*(f"run {n}" for n in range(7)), "leased"]:
            assert await read_keys(journal, run) == [f"t{n}" for n in range(30)]


async def test_a_server_that_was_never_there_is_reported_at_once(url: str) -> None:
    with (
        PostgresJournal("postgresql://ada:hush@127.0.0.1:1/talk", wait=3600) as journal,
        pytest.raises(JournalUnreachableError) as caught,
    ):
        async with asyncio.timeout(60):
            await journal.read("r")
    assert "hush" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.path == "postgresql://ada@127.0.0.1:1/talk"


@pytest.mark.parametrize(
    ("database", "user", "said"),
    [("nowhere", "postgres", "nowhere"), ("postgres", "nobody_known", "nobody_known")],
)
async def test_a_server_that_refuses_is_not_asked_again(
    postgres: PostgresServer, database: str, user: str, said: str
) -> None:
    address = f"postgresql://{user}:hush@127.0.0.1:{postgres.port}/{database}"
    with (
        PostgresJournal(address, wait=3600) as journal,
        pytest.raises(JournalStorageError) as caught,
    ):
        async with asyncio.timeout(60):
            await journal.runs()
    assert said in caught.value.problem
    assert "hush" not in "".join(traceback.format_exception(caught.value)) + repr(journal)


async def test_the_error_of_a_user_who_may_not_create_tables_says_what_to_grant(
    postgres: PostgresServer, url: str
) -> None:
    postgres.rows(url, "DROP ROLE IF EXISTS reader")
    postgres.rows(url, "CREATE ROLE reader LOGIN")
    with PostgresJournal(url.replace("postgres@", "reader@")) as journal:
        with pytest.raises(JournalStorageError) as caught:
            await journal.append("r", make_turn_opened(1))
        assert "schema" in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "talk.db",
        "mysql://ada:hush@db/talk",
        "postgresql://ada:hush@db:port/talk",
        "postgresql://ada:hush@db/talk?hush=1",
        "postgresql://ada:hu%sh@db/talk",
        "postgresql://ada:hush@[::1/talk",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught, PostgresJournal(address):
        pass
    assert caught.value.argument == "url"
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("name", "value"),
    [("connections", 0), ("timeout", 0), ("wait", -1), ("lease", 0), ("lease", float("nan"))],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PostgresJournal("postgresql://db/talk", **{name: value})
    assert caught.value.argument == name


async def test_what_the_server_cannot_keep_is_refused_before_it_is_sent(
    journal: PostgresJournal,
) -> None:
    for run in ("a\x00b", "\ud800"):
        for act in (
            journal.append(run, make_turn_opened(1)),
            journal.read(run),
            journal.claim(run),
        ):
            with pytest.raises(ConfigurationError, match="session"):
                await act
        with pytest.raises(ConfigurationError):
            await journal.delete(run)
    with pytest.raises(ConfigurationError, match=r"event\.key"):
        await journal.append("r", make_turn_opened(10**4000))
    with pytest.raises(ConfigurationError, match=r"event\.key"):
        await journal.append(
            "r", type(make_turn_opened(1))("t\x00", 1.0, make_turn_opened(1).message)
        )
    assert journal._thread._thread is None  # nothing was ever connected


async def test_many_processes_that_begin_together_make_the_tables_once(url: str) -> None:
    journals = [PostgresJournal(url) for _ in range(8)]
    await asyncio.gather(
        *(j.append(f"run {n}", make_turn_opened(1)) for n, j in enumerate(journals))
    )
    assert len(await journals[0].runs()) == 8
    for journal in journals:
        journal.close()


async def test_tables_of_a_newer_version_are_refused_and_left(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url) as journal:
        await journal.append("r", make_turn_opened(1))
    postgres.rows(url, "UPDATE holdfast_journal SET version = 99")
    with (
        PostgresJournal(url) as journal,
        pytest.raises(JournalVersionError, match=r"version 99.*Update Holdfast"),
    ):
        await journal.read("r")
    assert seqs(postgres, url) == [1]


async def test_tables_of_another_program_are_refused_and_left(
    postgres: PostgresServer, url: str
) -> None:
    postgres.rows(url, "CREATE TABLE holdfast_journal (version text)")
    with PostgresJournal(url) as journal, pytest.raises(JournalVersionError, match="another"):
        await journal.append("r", make_turn_opened(1))
    postgres.rows(url, "DROP TABLE holdfast_journal; CREATE TABLE holdfast_runs (a int)")
    with PostgresJournal(url) as journal, pytest.raises(JournalVersionError, match="another"):
        await journal.append("r", make_turn_opened(1))
    assert postgres.rows(url, "SELECT to_regclass('holdfast_journal')") == [(None,)]


async def test_tables_that_cannot_be_made_are_not_half_made(
    postgres: PostgresServer, url: str
) -> None:
    broken = ((*postgres_schema.SCHEMA, "NONSENSE"),)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        with pytest.raises(psycopg.Error):
            await postgres_migration.prepare_schema(connection, "here", broken)
    assert postgres.rows(url, "SELECT to_regclass('holdfast_journal')") == [(None,)]
    with PostgresJournal(url) as journal:
        await journal.append("r", make_turn_opened(1))
    found = postgres.rows(url, "SELECT version FROM holdfast_journal")
    assert found == [(postgres_schema.VERSION,)]


async def test_a_record_that_was_changed_by_hand_is_reported_by_number(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    await journal.append("r", make_turn_opened(1))
    postgres.rows(url, "UPDATE holdfast_records SET event = '{'")
    with pytest.raises(JournalError, match=r"run 'r', record 1: is not a valid record"):
        await journal.read("r")


async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    postgres.rows(postgres.address(), "DROP DATABASE IF EXISTS ascii")
    postgres.rows(
        postgres.address(), "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0"
    )
    with (
        PostgresJournal(postgres.address("ascii")) as journal,
        pytest.raises(JournalStorageError, match=r"SQL_ASCII.*ENCODING 'UTF8'"),
    ):
        await journal.append("r", make_turn_opened(1))


async def test_what_is_acknowledged_is_committed_whatever_the_servers_defaults(
    postgres: PostgresServer, url: str
) -> None:
    lax = url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    with PostgresJournal(lax) as journal:
        await journal.append("r", make_turn_opened(1))

        async def show(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> list[object]:
            names = ("synchronous_commit", "default_transaction_isolation", "statement_timeout")
            shown = [await connection.execute(f"SHOW {name}".encode()) for name in names]
            return [(await cursor.fetchone() or [None])[0] for cursor in shown]

        future = journal._thread.submit(lambda _: journal._server._pool.perform(show))
        found = await future
    assert found == ["on", "read committed", "30s"]


@pytest.mark.slow  # starts a program or a server
async def test_a_lease_is_renewed_for_as_long_as_it_is_held(
    postgres: PostgresServer, url: str
) -> None:
    def expires() -> object:
        return postgres.rows(url, "SELECT expires FROM holdfast_runs WHERE token IS NOT NULL")

    with PostgresJournal(url, lease=0.3) as journal:
        lease = await journal.claim("r")
        seen = {str(expires())}
        await until(lambda: seen.add(str(expires())) or len(seen) > 3)
        await lease.append("r", make_turn_opened(1))
        await lease.release()
        assert expires() == []
        forgotten = await journal.claim("r")
        del forgotten, lease
        gc.collect()
        late = "SELECT 1 FROM holdfast_runs WHERE expires < clock_timestamp()"
        await until(lambda: postgres.rows(url, late) == [(1,)])


async def test_a_driver_without_its_lease_notices_at_the_next_renewal(
    postgres: PostgresServer, url: str
) -> None:
    with PostgresJournal(url, lease=0.3) as journal:
        lease = await journal.claim("r")
        postgres.rows(url, "UPDATE holdfast_runs SET token = nextval('holdfast_tokens')")
        await until(lambda: lease._state.is_lost)
        with pytest.raises(LeaseLostError):
            await lease.append("r", make_turn_opened(1))


async def test_closing_releases_the_leases_and_ends_the_connections(
    postgres: PostgresServer, url: str
) -> None:
    journal = PostgresJournal(url)
    lease = await journal.claim("r")
    await lease.append("r", make_turn_opened(1))
    journal.close()
    journal.close()
    for act in (
        journal.append("r", make_turn_opened(2)),
        lease.append("r", make_turn_opened(2)),
        journal.read("r"),
    ):
        with pytest.raises(JournalClosedError):
            await act
    with PostgresJournal(url) as other:
        await other.claim("r")


@pytest.mark.slow  # starts a program or a server
def test_a_process_that_ends_releases_its_leases(postgres: PostgresServer, url: str) -> None:
    code = (
        "import asyncio, sys\nfrom holdfast import PostgresJournal\n"
        "journal = PostgresJournal(sys.argv[1])\nlease = asyncio.run(journal.claim('r'))\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code, url], check=True, timeout=60)
    assert postgres.rows(url, "SELECT token FROM holdfast_runs") == []


@pytest.mark.slow  # starts a program or a server
def test_a_fork_of_a_journal_that_is_in_use_is_refused(url: str) -> None:
    code = (
        "import asyncio, os, sys\nfrom holdfast import PostgresJournal\nfrom holdfast.errors import JournalError\n"
        "journal = PostgresJournal(sys.argv[1])\nasyncio.run(journal.runs())\n"
        "child = os.fork()\n"
        "try:\n    said = str(asyncio.run(journal.runs()))\n"
        "except JournalError as error:\n    said = error.problem\n"
        "if child:\n    os.waitpid(child, 0)\n"
        "print(said)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "was in use before this process was forked\n[]\n"


def test_without_the_driver_the_extra_is_named() -> None:
    code = (
        "import sys\nsys.modules['psycopg'] = None\nfrom holdfast import *\n"
        "try:\n    PostgresJournal('postgresql://db/talk')\n"
        "except ConfigurationError as error:\n    print(error.fix)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "In the checkout: pip install '.[postgres]'\n"


@pytest.mark.slow  # starts a program or a server
def test_a_journal_that_is_dropped_leaves_no_connection(postgres: PostgresServer, url: str) -> None:
    journal = PostgresJournal(url)
    asyncio.run(journal.append("r", make_turn_opened(1)))
    del journal
    gc.collect()
    alive = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'"
    assert postgres.rows(url, alive) == [(0,)]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (errors.DiskFull, JournalStorageError, "disk of the server is full"),
        (errors.InsufficientPrivilege, JournalStorageError, "lacks a privilege"),
        (errors.InvalidPassword, JournalStorageError, "Check user, password"),
        (errors.ReadOnlySqlTransaction, JournalUnreachableError, "cannot be reached"),
        (errors.TooManyConnections, JournalUnreachableError, "cannot be reached"),
        (errors.AdminShutdown, JournalUnreachableError, "cannot be reached"),
        (errors.UndefinedTable, JournalVersionError, "tables are missing"),
        (errors.DataCorrupted, JournalCorruptError, "is damaged"),
        (errors.NumericValueOutOfRange, JournalStorageError, "22003"),
        (TimeoutError, JournalUnreachableError, "did not respond in time"),
        (ConnectionResetError, JournalUnreachableError, "cannot be reached"),
    ],
)
def test_each_refusal_of_the_server_says_what_to_do(
    error: type[Exception], kind: type[JournalError], said: str
) -> None:
    address = PostgresAddress("postgresql://ada:hush@db/talk")
    found = address.to_journal_error(error("it said hush"))
    assert type(found) is kind
    assert said in str(found)
    assert found.fix
    assert "hush" not in str(found)
