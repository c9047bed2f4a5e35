"""The lock of a SQLite journal: processes open, crash, fork and delete, and exactly one owns the file."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast import SqliteJournal
from holdfast.journal.files.file_lock import LockOwner, encode_owner, this_process
from holdfast.journal.journal_errors import JournalBusyError, JournalError, JournalStorageError
from holdfast.testing.journal_conformance import make_turn_opened, read_keys

# ruff: noqa: ASYNC220, ASYNC240, PTH208  # REASON: a test may block its own loop


PATIENCE = 60
# Opens the journal at a line of input, reports it, and keeps it open until the next line.
OPENS = """
import sys
from holdfast import SqliteJournal
print("ready", flush=True)
sys.stdin.readline()
try:
    journal = SqliteJournal(sys.argv[1], wait=float(sys.argv[2]))
except Exception as error:
    print(type(error).__name__, error, flush=True)
else:
    print("open", flush=True)
    sys.stdin.readline()
    journal.close()
    print("closed", flush=True)
"""
APPENDS = """
import asyncio, sys
from holdfast import SqliteJournal
from holdfast.testing.journal_conformance import make_turn_opened
for number in range(10):
    with SqliteJournal(sys.argv[1], wait=60) as journal:
        asyncio.run(journal.append(sys.argv[2], make_turn_opened(number)))
"""
FORKS = """
import asyncio, os, sys
from holdfast import SqliteJournal
from holdfast.testing.journal_conformance import make_turn_opened
def write_line(line):
    os.write(1, f"{line}\\n".encode())  # whole, whatever the other process writes
journal = SqliteJournal(sys.argv[1])
asyncio.run(journal.append("r", make_turn_opened(1)))
if os.fork() == 0:
    for _ in range(2):
        try:
            SqliteJournal(sys.argv[1], wait=0)
        except Exception as error:
            write_line(f"{type(error).__name__} {error}")
        sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
journal.close()
write_line("closed")
sys.stdin.readline()
"""
FORBIDDEN = """
import os, sys
import holdfast.journal.sqlite.sqlite_journal
from holdfast import SqliteJournal
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    SqliteJournal(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""


class Process:
    """A program that answers each line of its standard input."""

    def __init__(self, code: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def answer(self) -> str:
        self.tell()
        return self.line()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


@contextmanager
def started(code: str, *arguments: object) -> Iterator[Process]:
    process = Process(code, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.close()


@contextmanager
def opener(path: Path, wait: float = 0) -> Iterator[Process]:
    """A process that is about to open a journal."""
    with started(OPENS, path, wait) as process:
        assert process.line() == "ready"
        yield process


@pytest.mark.slow  # starts several processes
def test_of_several_processes_that_open_at_once_one_owns_the_journal(path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(opener(path)) for _ in range(5)]
        for process in processes:
            process.tell()
        outcomes = [process.line().split()[0] for process in processes]
        assert sorted(outcomes) == ["JournalBusyError"] * 4 + ["open"]


@pytest.mark.slow  # starts several processes
async def test_processes_that_wait_for_each_other_lose_no_record(path: Path) -> None:
    command = [sys.executable, "-c", APPENDS, path]
    processes = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [process.wait(PATIENCE) for process in processes] == [0, 0, 0]
    with SqliteJournal(path) as journal:
        for name in "abc":
            assert await read_keys(journal, name) == [f"t{number}" for number in range(10)]


def test_a_waiting_process_opens_the_journal_when_the_owner_closes_it(path: Path) -> None:
    with opener(path) as first, opener(path, wait=PATIENCE) as second:
        assert first.answer() == "open"
        second.tell()
        assert first.answer() == "closed"
        assert second.line() == "open"


@pytest.mark.slow  # takes half a second or more
def test_a_lock_ends_with_its_process(path: Path) -> None:
    with opener(path) as owner:
        assert owner.answer() == "open"
        with opener(path) as other:
            pid = owner.process.pid
            assert f"is open in process {pid}, started 20" in other.answer()
        owner.kill()
        SqliteJournal(path, wait=0).close()


def test_the_lock_file_is_for_its_owner_only_and_stays(path: Path) -> None:
    lock = path.with_name("talk.db.lock")
    with SqliteJournal(path):
        assert f'"pid":{os.getpid()},' in lock.read_text()
        before = lock.stat()
    assert lock.stat().st_mode & 0o777 == 0o600
    assert lock.stat().st_ino == before.st_ino
    assert lock.read_bytes() == b""


class TestNames:
    @pytest.mark.slow  # takes half a second or more
    @pytest.mark.parametrize("other", ["link", "hard link", "renamed"])
    def test_the_same_file_by_another_path_is_locked(self, path: Path, other: str) -> None:
        name = path.with_name("other.db")
        with opener(path) as owner:
            assert owner.answer() == "open"
            if other == "link":
                name.symlink_to(path)
            elif other == "hard link":
                name.hardlink_to(path)
            else:
                path.rename(name)
            with pytest.raises(JournalBusyError):
                SqliteJournal(name, wait=0)

    async def test_a_hard_link_is_refused_also_when_the_owner_has_read_the_file(
        self, path: Path
    ) -> None:
        name = path.with_name("other.db")
        with SqliteJournal(path) as journal:
            name.hardlink_to(path)
            path.read_bytes()
            with opener(name) as other:
                answer = other.answer()
            assert answer.startswith("JournalBusyError")
            assert "by another name or without its lock file" in answer
            with pytest.raises(JournalBusyError, match="already open in this process"):
                SqliteJournal(name)
            await journal.append("r", make_turn_opened(1))

    def test_a_file_whose_lock_file_is_gone_is_refused(self, path: Path) -> None:
        with SqliteJournal(path):
            path.read_bytes()
            path.with_name("talk.db.lock").unlink()
            with opener(path) as other:
                assert other.answer().startswith("JournalBusyError")

    def test_a_file_that_was_deleted_while_it_is_open_is_not_created_again(
        self, path: Path
    ) -> None:
        with SqliteJournal(path):
            path.unlink()
            with pytest.raises(JournalError, match="is missing, but its -wal file is not"):
                SqliteJournal(path)
        assert not path.exists(), "it was not made again"

    def test_a_lock_file_that_is_deleted_before_it_is_locked_is_created_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lock = path.with_name("talk.db.lock")
        real = fcntl.flock
        times: list[int] = []

        def flock(descriptor: int, operation: int) -> None:
            times.append(operation)
            if len(times) <= 2:
                lock.unlink()
            real(descriptor, operation)

        with monkeypatch.context() as patched:
            patched.setattr(fcntl, "flock", flock)
            journal = SqliteJournal(path, wait=0)
        assert f'"pid":{os.getpid()},' in lock.read_text()
        with opener(path) as other:
            assert other.answer().startswith("JournalBusyError")
        journal.close()


class TestFork:
    def test_a_forked_child_is_refused_and_the_parent_keeps_the_journal(self, path: Path) -> None:
        with started(FORKS, path) as parent:
            assert "was open in the parent process before the fork" in parent.line()
            with pytest.raises(JournalBusyError, match=f"in process {parent.process.pid}, started"):
                SqliteJournal(path, wait=0)

    def test_a_child_does_not_hold_the_lock_of_a_parent_that_is_gone(self, path: Path) -> None:
        with started(FORKS, path) as parent:
            assert parent.line().startswith("JournalBusyError")
            parent.kill()
            with SqliteJournal(path, wait=0) as journal:
                assert asyncio.run(read_keys(journal, "r")) == ["t1"]

    def test_a_child_does_not_hold_the_lock_of_a_parent_that_closed_it(self, path: Path) -> None:
        code = FORKS.replace("if os.fork() == 0:", "child = os.fork()\nif child == 0:").replace(
            "sys.stdin.readline()\njournal.close()", "journal.close()"
        )
        with started(code, path) as parent:
            lines = {parent.line().split()[0], parent.line().split()[0]}
            assert lines == {"JournalBusyError", "closed"}
            SqliteJournal(path, wait=0).close()

    def test_a_forked_child_may_open_a_journal_that_was_closed_before(self, path: Path) -> None:
        code = (
            "import os, sys\nfrom holdfast import SqliteJournal\nSqliteJournal(sys.argv[1]).close()\n"
            "if os.fork() == 0:\n    SqliteJournal(sys.argv[1]).close()\n    os._exit(7)\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        with started(code, path) as parent:
            assert parent.line() == "7"

    def test_a_started_program_inherits_no_lock(self, path: Path) -> None:
        with SqliteJournal(path):
            child = subprocess.Popen(["sleep", str(PATIENCE)], close_fds=False)
        try:
            SqliteJournal(path, wait=0).close()
        finally:
            child.kill()
            child.wait(PATIENCE)


class TestRefusals:
    @pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
    def test_a_file_system_without_locks_is_named(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def flock(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)
        with pytest.raises(JournalStorageError, match="local disk") as caught:
            SqliteJournal(path)
        assert "cannot be locked on its file system" in caught.value.problem
        assert os.strerror(number) in caught.value.problem
        assert not path.exists()

    def test_an_unsupported_operating_system_is_refused(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "platform", "sunos5")
            with pytest.raises(JournalStorageError, match="cannot be locked on sunos5") as caught:
                SqliteJournal(path)
        assert caught.value.fix == "Use Linux, macOS or Windows, or a PostgresJournal"
        assert os.listdir(path.parent) == []

    @pytest.mark.slow  # starts a program or a server
    @pytest.mark.parametrize("mode", [0o555, 0o777])
    def test_a_folder_or_a_lock_file_that_cannot_be_written_is_named(self, mode: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "talk.db")
            path.touch(0o666)
            path.chmod(0o666)
            if mode == 0o777:
                path.with_name("talk.db.lock").touch(0o000)
            Path(folder).chmod(mode)
            done = subprocess.run(
                [sys.executable, "-c", FORBIDDEN, path], capture_output=True, text=True, check=True
            )
            Path(folder).chmod(0o700)
        problem = f"its lock file {path}.lock cannot be created or written by this user. Allow"
        assert done.stdout.startswith(f"JournalStorageError journal {path}: {problem}")

    @pytest.mark.parametrize("kind", ["text", "another journal", "link", "folder", "pipe"])
    def test_another_file_at_the_path_of_the_lock_file_is_left_as_it_is(
        self, path: Path, kind: str
    ) -> None:
        lock = path.with_name("talk.db.lock")
        precious = path.with_name("precious")
        make: dict[str, Callable[[], object]] = {
            "text": lambda: lock.write_text("Dear diary"),
            "another journal": lambda: SqliteJournal(lock).close(),
            "link": lambda: (precious.touch(), lock.symlink_to(precious)),
            "folder": lock.mkdir,
            "pipe": lambda: os.mkfifo(lock),
        }
        make[kind]()
        before = lock.read_bytes() if lock.is_file() else b""
        with pytest.raises(JournalStorageError, match=r"its lock file .*talk\.db\.lock is "):
            SqliteJournal(path)
        assert not path.exists()
        assert not lock.is_file() or lock.read_bytes() == before

    def test_a_pipe_is_not_a_journal(self, path: Path) -> None:
        os.mkfifo(path)
        with pytest.raises(JournalStorageError, match="is not a regular file"):
            SqliteJournal(path)
        assert os.listdir(path.parent) == ["talk.db"]


class TestOwner:
    @contextmanager
    def held(self, path: Path, record: bytes) -> Iterator[None]:
        """A lock file that is locked, with this record."""
        with path.with_name("talk.db.lock").open("wb") as lock:
            lock.write(record)
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @pytest.mark.parametrize(
        ("owner", "name"),
        [
            (LockOwner(1, "elsewhere", "then", 5), "process 1 on elsewhere, started then"),
            (LockOwner(1, this_process().host), "process 1"),
            (LockOwner(os.getpid(), this_process().host, "then", 5), "another process"),
            (LockOwner(2**22 + 1, this_process().host, "then", 5), "another process"),
        ],
    )
    def test_the_owner_is_named_unless_it_has_ended(
        self, path: Path, owner: LockOwner, name: str
    ) -> None:
        with self.held(path, encode_owner(owner)), pytest.raises(JournalBusyError) as caught:
            SqliteJournal(path, wait=0)
        assert caught.value.problem == f"is open in {name}"

    @pytest.mark.parametrize("end", [0, 4, 40, -9])
    def test_a_record_that_was_not_written_to_its_end_harms_nothing(
        self, path: Path, end: int
    ) -> None:
        record = encode_owner(this_process())[:end]
        with self.held(path, record), pytest.raises(JournalBusyError, match="another process"):
            SqliteJournal(path, wait=0)
        with self.held(path, bytes(40)), pytest.raises(JournalBusyError, match="another process"):
            SqliteJournal(path, wait=0)
        SqliteJournal(path, wait=0).close()

    def test_a_disk_that_is_full_makes_no_difference(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write)
            journal = SqliteJournal(path)
        with opener(path) as other:
            assert "is open in another process" in other.answer()
        journal.close()


# A POSIX record lock ends when its process closes any descriptor of the file. A copy, a checksum
# or a download must not end it.

OPENS_FILE = """
import sys
from holdfast import SqliteJournal
try:
    SqliteJournal(sys.argv[1], wait=0)
except Exception as error:
    print(type(error).__name__, error)
"""


def open_elsewhere(path: Path) -> str:
    second = [sys.executable, "-c", OPENS_FILE, path]
    return subprocess.run(second, capture_output=True, text=True, check=True).stdout


def copy(path: Path) -> None:
    shutil.copy(path, path.with_name("backup.db"))


def read(path: Path) -> None:
    path.read_bytes()


def digest(path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def copy_all(path: Path) -> None:
    shutil.copytree(path.parent, path.parent.parent / "backup")


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("look", [copy, read, digest, copy_all])
async def test_a_second_process_is_refused_after_the_file_was_read(
    tmp_path: Path, look: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "talk.db"
    path.parent.mkdir()
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
        look(path)
        outcome = open_elsewhere(path)
        assert outcome.startswith("JournalBusyError"), outcome
        assert f"is open in process {os.getpid()}, started " in outcome
        await journal.append("r", make_turn_opened(2))
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "r") == ["t1", "t2"]


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    "words", [("sessions", "delete", "r", "--yes"), ("journal", "prune", "--days", "1")]
)
def test_a_command_is_refused_after_the_file_was_read(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path):
        read(path)
        done = holdfast(*words[:2], str(path), *words[2:])
    assert done.returncode != 0
    assert f"is open in process {os.getpid()}" in done.stderr
