"""What every service store does, in memory, in SQLite and in PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.postgres_server import PostgresServer

from holdfast import MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.errors import ConfigurationError, JournalBusyError, JournalError, JournalVersionError
from holdfast.journal.service_store import service_store_sqlite
from holdfast.journal.service_store.service_store import (
    UPLOAD_KEEP,
    ApiKey,
    RequestName,
    ServiceStore,
    SignIn,
    TurnClaim,
    Upload,
)
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.journal.service_store.service_store_sqlite import SqliteServiceStore

DAY = 86_400.0
Open = Callable[[], ServiceStore]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same store, as another process would."""
    opened: list[ServiceStore] = []
    memory = open_service_store(MemoryJournal())
    address = "memory:"
    if request.param == "sqlite":
        address = str(tmp_path / "talk.db")
    elif request.param == "postgres":
        address = request.getfixturevalue("postgres").new_url()

    def open_it() -> ServiceStore:
        if address != "memory:":
            opened.append(open_service_store(address))
            return opened[-1]
        return memory

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(reopen: Open) -> ServiceStore:
    return reopen()


def key(number: int, **fields: object) -> ApiKey:
    made = {"id": f"k{number}", "digest": bytes([number] * 32), "created_at": float(number)}
    rest = {"tenant": "acme", "name": "ci", "scopes": ("run", "read")}
    return ApiKey(**{**made, **rest, **fields})  # type: ignore[arg-type]


async def test_a_key_is_found_by_its_digest_also_by_another_process(reopen: Open) -> None:
    one, other = reopen(), reopen()
    assert await one.has_keys() is False
    await one.add_key(key(1, expires_at=9.5))
    assert await other.find_key(bytes([1] * 32)) == key(1, expires_at=9.5)
    assert await other.find_key(bytes(32)) is None
    assert await other.has_keys() is True
    await other.note_use("k1", 7.25)
    (listed,) = await one.list_keys()
    assert listed.used_at == 7.25


async def test_keys_are_listed_with_those_that_are_not_valid(store: ServiceStore) -> None:
    await store.add_key(key(2, tenant="other"))
    await store.add_key(key(1))
    assert await store.revoke_key("k1", 5.0) is True
    assert await store.revoke_key("k1", 6.0) is False
    assert await store.revoke_key("unknown", 6.0) is False
    first, second = await store.list_keys()
    assert (first.id, first.revoked_at, second.id) == ("k1", 5.0, "k2")
    assert not first.is_valid(4.0)
    assert await store.has_keys() is True


@pytest.mark.parametrize(("expires", "expected"), [(None, 50.0), (20.0, 20.0), (90.0, 50.0)])
async def test_a_rotated_key_expires_at_the_latest_after_the_grace(
    store: ServiceStore, expires: float | None, expected: float
) -> None:
    await store.add_key(key(1, expires_at=expires))
    assert await store.rotate_key("k1", key(2, expires_at=expires), 50.0) is True
    old, new = await store.list_keys()
    assert (old.expires_at, new.expires_at) == (expected, expires)
    assert old.is_valid(expected - 1)
    assert not old.is_valid(expected)


async def test_a_revoked_or_unknown_key_has_no_successor(store: ServiceStore) -> None:
    await store.add_key(key(1))
    await store.revoke_key("k1", 2.0)
    assert await store.rotate_key("k1", key(2), 50.0) is False
    assert await store.rotate_key("k9", key(3), 50.0) is False
    assert [one.id for one in await store.list_keys()] == ["k1"]


async def test_a_sign_in_ends_with_its_key(reopen: Open) -> None:
    store, other = reopen(), reopen()
    await store.add_key(key(1))
    sign_in = SignIn(digest=b"s" * 32, key_id="k1", created_at=1.0, expires_at=9.0)
    await store.add_sign_in(sign_in)
    assert await other.find_sign_in(b"s" * 32) == (sign_in, key(1))
    await other.revoke_key("k1", 3.0)
    assert await store.find_sign_in(b"s" * 32) is None


async def test_sign_ins_are_ended_and_old_ones_deleted(store: ServiceStore) -> None:
    await store.add_key(key(1))
    for name, begins in ((b"a", 1.0), (b"b", 2.0), (b"c", 11.0)):
        ended = SignIn(digest=name, key_id="k1", created_at=begins, expires_at=begins + 9.5)
        await store.add_sign_in(ended)
    assert await store.find_sign_in(b"a") is None  # it had ended when c began
    assert await store.find_sign_in(b"b") is not None
    await store.delete_sign_in(b"b")
    await store.delete_sign_in(b"b")
    assert await store.find_sign_in(b"b") is None


def claim(name: str, holder: str, state: Any = "open", at: float = 5.0) -> TurnClaim:
    return TurnClaim(name=name, body="b", holder=holder, state=state, at=at)


async def test_of_two_that_claim_a_turn_one_holds_it(reopen: Open) -> None:
    store, other = reopen(), reopen()
    assert await store.claim_turn(claim("t", "one"), "first")  # no row: its first holder has it
    assert await store.claim_turn(claim("t", "one"), "first")  # the statement was repeated
    assert not await other.claim_turn(claim("t", "two"), "first")
    assert await other.claim_turn(claim("t", "two"), "one")
    assert await store.find_claims("b", 5.0) == [claim("t", "two")]
    assert await store.find_claims("b", 5.5) == []
    assert await store.find_claims("c", 0.0) == []


async def test_only_the_holder_of_a_turn_says_that_it_left_or_got_the_answer(
    reopen: Open,
) -> None:
    store, other = reopen(), reopen()
    await store.save_claims([claim("t", "one", "left"), claim("u", "one", "got")], 0.0)
    assert await other.claim_turn(claim("t", "two"), "one")
    assert not await other.claim_turn(claim("u", "two"), "one")
    await store.save_claims([claim("t", "one", "got"), claim("u", "one", "left")], 0.0)
    found = {one.name: one for one in await other.find_claims("b", 0.0)}
    assert found == {"t": claim("t", "two"), "u": claim("u", "one", "got")}


async def test_many_claims_are_saved_at_once_and_old_ones_deleted(store: ServiceStore) -> None:
    await store.save_claims([claim("old", "one", at=1.0)], 0.0)
    await store.save_claims([], 0.0)
    many = [claim(f"t{number}", "one", "got") for number in range(250)]
    await store.save_claims(many, 2.0)
    await store.save_claims(many, 2.0)
    found = await store.find_claims("b", 0.0)
    assert sorted(one.name for one in found) == sorted(one.name for one in many)


NAME = RequestName("acme", "POST /turns", "order-7")


async def test_a_repeated_request_gets_the_first_answer(reopen: Open) -> None:
    store, other = reopen(), reopen()
    first = await store.claim_request(NAME, "d1", owner="a", now=10.0)
    assert (first.owner, first.status) == ("a", None)
    during = await other.claim_request(NAME, "d1", owner="b", now=11.0)
    assert (during.owner, during.status) == ("a", None)
    await store.finish_request(NAME, 202, b'{"turn":1}')
    await other.finish_request(NAME, 500, b"never")
    later = await other.claim_request(NAME, "d1", owner="c", now=500.0)
    assert (later.owner, later.status, later.body, later.digest) == ("a", 202, b'{"turn":1}', "d1")


async def test_a_request_is_its_tenants_and_its_routes(store: ServiceStore) -> None:
    names = [
        NAME,
        RequestName("other", "POST /turns", "order-7"),
        RequestName("acme", "POST /sessions/a\x00/fork", "order-7"),
        RequestName("acme", "POST /turnso", "rder-7"),
    ]
    for number, name in enumerate(names):
        got = await store.claim_request(name, "d", owner=str(number), now=1.0)
        assert got.owner == str(number)


async def test_a_request_whose_process_died_is_taken_over_only_with_the_same_body(
    store: ServiceStore,
) -> None:
    await store.claim_request(NAME, "d1", owner="a", now=10.0, lease=5.0)
    assert (await store.claim_request(NAME, "d1", owner="b", now=14.9)).owner == "a"
    assert (await store.claim_request(NAME, "d2", owner="b", now=15.0)).owner == "a"
    assert (await store.claim_request(NAME, "d1", owner="b", now=15.0)).owner == "b"


async def test_a_claim_is_renewed_by_its_owner_and_expires_with_its_process(
    store: ServiceStore,
) -> None:
    await store.claim_request(NAME, "d1", owner="a", now=10.0, lease=5.0)
    await store.renew_claim(NAME, "b", 50.0)
    await store.renew_claim(NAME, "a", 20.0)
    assert (await store.claim_request(NAME, "d1", owner="b", now=19.9)).owner == "a"
    await store.expire_claims(16.0)
    assert (await store.claim_request(NAME, "d1", owner="b", now=16.0)).owner == "b"
    await store.finish_request(NAME, 200, b"x")
    await store.expire_claims(17.0)
    await store.renew_claim(NAME, "b", 18.0)
    assert (await store.claim_request(NAME, "d1", owner="c", now=30.0)).body == b"x"


async def test_a_request_that_was_not_performed_is_free_again(store: ServiceStore) -> None:
    await store.claim_request(NAME, "d1", owner="a", now=10.0)
    await store.release_request(NAME, "b")
    assert (await store.claim_request(NAME, "d2", owner="b", now=11.0)).owner == "a"
    await store.release_request(NAME, "a")
    assert (await store.claim_request(NAME, "d2", owner="b", now=11.0)).owner == "b"
    await store.finish_request(NAME, 200, b"")
    await store.release_request(NAME, "b")
    assert (await store.claim_request(NAME, "d2", owner="c", now=12.0)).status == 200


async def test_a_request_is_forgotten_after_a_day(store: ServiceStore) -> None:
    await store.claim_request(NAME, "d1", owner="a", now=10.0)
    await store.finish_request(NAME, 200, b"x")
    assert (await store.claim_request(NAME, "d2", owner="b", now=9.0 + DAY)).owner == "a"
    again = await store.claim_request(NAME, "d2", owner="b", now=10.0 + DAY)
    assert (again.owner, again.digest, again.status) == ("b", "d2", None)


async def test_many_saved_requests_do_not_slow_the_next_one() -> None:
    store = open_service_store(MemoryJournal())
    begun = time.process_time()
    for number in range(20_000):
        name = RequestName("t", "POST /turns", f"k{number}")
        await store.claim_request(name, "d", owner=f"o{number}", now=float(number))
    assert time.process_time() - begun < 5  # it takes much longer if each looks at all others
    await store.claim_request(RequestName("t", "r", "k"), "d", owner="o", now=20_000 + DAY)
    first = RequestName("t", "POST /turns", "k0")
    assert (await store.claim_request(first, "d", owner="new", now=20_000 + DAY)).owner == "new"


@pytest.mark.slow  # takes half a second or more
async def test_one_of_many_callers_performs_a_request(reopen: Open) -> None:
    stores = [reopen() for _ in range(4)]
    claims = [
        stores[number % 4].claim_request(NAME, "d", owner=str(number), now=1.0)
        for number in range(40)
    ]
    assert len({saved.owner for saved in await asyncio.gather(*claims)}) == 1


async def test_a_probe_shows_that_the_store_can_be_written(store: ServiceStore) -> None:
    await store.probe(1.0)
    await store.probe(2.0)


async def test_a_file_is_used_while_the_journal_is_open_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        store = open_service_store(journal)
        await store.add_key(key(1))
        program = (
            "import asyncio, sys\n"
            "from holdfast.journal.service_store.service_store_opening import open_service_store\n"
            "store = open_service_store(sys.argv[1])\n"
            "print(asyncio.run(store.revoke_key('k1', 2.0)))\n"
        )
        words = [sys.executable, "-c", program, f"sqlite:///{path}"]
        done = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
        assert (await done.communicate())[0] == b"True\n"
        (listed,) = await store.list_keys()
        assert listed.revoked_at == 2.0
        store.close()


@pytest.mark.slow  # starts six processes
def test_many_processes_may_create_the_same_file(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from holdfast.journal.service_store.service_store_sqlite import SqliteServiceStore\n"
        "store = SqliteServiceStore(sys.argv[1])\n"
        "asyncio.run(store.probe(1.0))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "talk.db")]
    running = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [one.communicate()[1] for one in running] == [""] * 6


def test_only_this_user_may_read_the_file(tmp_path: Path) -> None:
    store = SqliteServiceStore(tmp_path / "talk.db")
    asyncio.run(store.probe(1.0))
    assert {one.stat().st_mode & 0o077 for one in tmp_path.iterdir()} == {0}
    store.close()
    store.close()
    with pytest.raises(JournalError, match="is closed"):
        asyncio.run(store.probe(1.0))


def test_files_that_cannot_be_used_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="holdfast keys create"):
        SqliteServiceStore(tmp_path / "a.db", create=False)
    with pytest.raises(JournalError, match="No such file or directory"):
        SqliteServiceStore(tmp_path / "missing" / "a.db")
    (tmp_path / "b.db-service.db").write_bytes(b"not a database at all, but long enough to read")
    with pytest.raises(JournalError, match="is damaged"):
        SqliteServiceStore(tmp_path / "b.db")
    with SqliteJournal(tmp_path / "c.db-service.db"):
        pass
    with pytest.raises(JournalVersionError, match="another program"):
        SqliteServiceStore(tmp_path / "c.db")
    with pytest.raises(ConfigurationError, match="is in memory"):
        open_service_store("memory:")


def test_a_file_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    import sqlite3

    SqliteServiceStore(tmp_path / "a.db").close()
    with sqlite3.connect(tmp_path / "a.db-service.db") as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = (tmp_path / "a.db-service.db").read_bytes()
    with pytest.raises(JournalVersionError, match="has version 2"):
        SqliteServiceStore(tmp_path / "a.db")
    assert (tmp_path / "a.db-service.db").read_bytes() == before


@pytest.mark.slow  # kills processes
async def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from holdfast.journal.service_store.service_store import Upload\n"
        "from holdfast.journal.service_store.service_store_sqlite import SqliteServiceStore\n"
        "async def work():\n"
        "    store = SqliteServiceStore(sys.argv[1])\n"
        "    for n in range(100_000):\n"
        "        name = f'{sys.argv[2]}-{n}'\n"
        "        await store.add_upload(Upload(tenant='', name=name, media_type='x', data=b'', created_at=1.0))\n"
        "        print(name, flush=True)\n"
        "asyncio.run(work())\n"
    )
    told: list[str] = []
    for number in range(4):
        words = [sys.executable, "-c", program, str(tmp_path / "talk.db"), str(number)]
        process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
        assert process.stdout is not None
        told += [(await process.stdout.readline()).decode().strip() for _ in range(5 + 7 * number)]
        process.kill()
        told += (await process.stdout.read()).decode().split()
        await process.wait()
    store = SqliteServiceStore(tmp_path / "talk.db")
    rows = await store.perform(("SELECT name FROM holdfast_uploads", {}))
    saved = {name for (name,) in rows}
    assert set(told) <= saved
    assert len(saved) <= len(told) + 4
    store.close()


def delete_files(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


async def test_a_file_that_was_deleted_is_not_used_further(tmp_path: Path) -> None:
    store = SqliteServiceStore(tmp_path / "talk.db")
    await store.add_key(key(1))
    delete_files(tmp_path)
    with pytest.raises(JournalError, match="was deleted or replaced"):
        await store.find_key(bytes([1] * 32))
    other = SqliteServiceStore(tmp_path / "talk.db")
    with pytest.raises(JournalError, match="was deleted or replaced"):
        await store.has_keys()
    assert await other.has_keys() is False
    store.close()
    other.close()


async def test_a_file_that_another_program_keeps_locked_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    monkeypatch.setattr("holdfast.journal.service_store.service_store_sqlite._WAIT", 0.1)
    store = SqliteServiceStore(tmp_path / "talk.db")
    holder = sqlite3.connect(tmp_path / "talk.db-service.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalBusyError, match="another process was writing"):
        await store.add_key(key(1))
    assert await store.has_keys() is False  # reading goes on
    holder.execute("ROLLBACK")
    await store.add_key(key(1))
    holder.close()
    store.close()


async def test_the_store_of_a_postgres_journal_uses_its_connections(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    with PostgresJournal(url) as journal:
        store = open_service_store(journal)
        await store.add_key(key(1))
        assert await store.has_keys()
        store.close()
        assert not journal.closed
    other = open_service_store(url, create=False)
    assert await other.has_keys()
    other.close()


async def test_uploads_belong_to_a_tenant_and_end_after_a_day(reopen: Open) -> None:
    upload = Upload(tenant="a", name="m_1", media_type="image/png", data=b"\x00x", created_at=1.0)
    await reopen().add_upload(upload)
    assert await reopen().find_upload("a", "m_1") == upload
    assert await reopen().find_upload("b", "m_1") is None
    await reopen().add_upload(replace(upload, created_at=2.0))
    later = replace(upload, name="m_2", created_at=1.0 + UPLOAD_KEEP)
    await reopen().add_upload(later)
    assert await reopen().find_upload("a", "m_1") == replace(upload, created_at=2.0)
    await reopen().add_upload(replace(later, created_at=2.0 + UPLOAD_KEEP))
    assert await reopen().find_upload("a", "m_1") is None


# POSIX drops all locks of a process on a file when the process closes any descriptor of that file.


def test_a_second_store_in_a_process_keeps_the_log_in_use(tmp_path: Path) -> None:
    journal = tmp_path / "talk.db"
    first, second = SqliteServiceStore(journal), SqliteServiceStore(journal)
    look = (
        f"import sqlite3; c = sqlite3.connect({first.path!r});"
        "c.execute('SELECT count(*) FROM sqlite_schema').fetchall(); c.close()"
    )
    subprocess.run([sys.executable, "-c", look], check=True)
    assert Path(f"{first.path}-wal").exists()
    second.close()
    first.close()


class LateConnection:
    """Another process makes the tables once so many statements were answered."""

    def __init__(self, path: Path, after: int) -> None:
        self.path, self.after = path, after
        self.file = sqlite3.connect(f"{path}-service.db")

    def execute(self, text: str) -> Any:
        rows = self.file.execute(text).fetchall()
        self.after -= 1
        if self.after == 0:
            SqliteServiceStore(self.path).close()
        return Cursor(rows)


class Cursor:
    """The rows of a statement that was answered."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def fetchone(self) -> Any:
        return self.rows[0]


def test_a_store_that_another_process_makes_meanwhile_has_its_version(tmp_path: Path) -> None:
    for after in (1, 2):
        path = tmp_path / f"talk{after}.db"
        late: Any = LateConnection(path, after)
        with closing(late.file):
            assert service_store_sqlite._check_version(late, str(path)) == 0
            late.execute("SELECT 1")
            found = service_store_sqlite._check_version(late, str(path))
            assert found == service_store_sqlite.VERSION
