"""The thread that uses the file of a SQLite journal: it commits in groups and reads between them.

A job is acknowledged only after COMMIT. A job whose caller was cancelled is dropped if it has not
begun. Each job of a group has its own result. Only this thread uses the connection. So a forked
child, which does not have the thread, cannot close the connection and delete the log of its parent.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Protocol, TypeVar, cast

from holdfast.core.errors import HoldfastError
from holdfast.journal.files.file_lock import FileLock
from holdfast.journal.files.file_watch import FileWatch
from holdfast.journal.files.log_file import LogKeeper
from holdfast.journal.handoff import Handoff, finish_all
from holdfast.journal.journal_errors import JournalClosedError, JournalError
from holdfast.journal.sqlite import hidden_runs, opening
from holdfast.journal.sqlite.run_heads import WriterConnection
from holdfast.journal.sqlite.sqlite_appends import Append, AppendGroup

MOST_IN_GROUP = 256
MOST_READS = 4
"""The maximum number of reads for which a write waits."""

_PAUSE = 0.01  # seconds between two pieces of a deletion that a killed process began
_OWN_FAILURES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG)
"""Errors of SQLite that concern one job of a group: the pages or the values that it uses."""

T = TypeVar("T")


class WriterJob(Handoff[T]):
    """Something to do with the connection, for whoever waits on a loop.

    Args:
        work: does it. A HoldfastError, and an error of the pages or values that it uses, fails this
            job only. Any other error fails the whole group of writing jobs.
        writes: whether it needs a transaction, and may share it.
    """

    __slots__ = ("work", "writes")

    def __init__(self, work: Callable[[sqlite3.Connection], T], *, writes: bool) -> None:
        super().__init__()
        self.work = work
        self.writes = writes

    def perform(self, connection: sqlite3.Connection) -> None:
        """Do it, and hold the outcome back."""
        try:
            self.value = self.work(connection)
        except HoldfastError as error:
            self.error = error


class OwnJob(WriterJob[object]):
    """A change that the writer thread makes by itself; nobody waits for it."""

    __slots__ = ()

    def __init__(self, work: Callable[[sqlite3.Connection], object]) -> None:
        self.work = work
        self.writes = True
        self.value: object = None
        self.error: BaseException | None = None


class LogTruncation(WriterJob[bool]):
    """Empties the log, which still contains deleted data; False if a reader needs the log."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_refuse_job, writes=False)


class FileCheck(WriterJob[None]):
    """Raises an error if the files are not those that were opened; other reads go on."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_do_nothing, writes=False)


def _do_nothing(_: sqlite3.Connection) -> None:
    """Nothing: a reader of its own opens the files at each read."""


def _refuse_job(_: sqlite3.Connection) -> bool:
    return False


class JobQueue(Protocol):
    """Performs jobs with a connection to the file.

    Attributes:
        on_answer: called when a record may have changed the inbox of the journal.
    """

    on_answer: Callable[[], None] | None

    def submit(self, job: WriterJob[T]) -> WriterJob[T]:
        """Queue a job. Raises JournalError."""
        ...

    def close(self, seconds: float | None = None) -> bool:
        """Finish the queued jobs; return whether that was done within the seconds."""
        ...


class Writer:
    """Owns the file from construction to `close`.

    Args:
        path: the file.
        wait: seconds to wait for another process to close it.
    """

    def __init__(self, path: str, wait: float) -> None:
        self.path = path
        self._process = os.getpid()
        self._queue: queue.SimpleQueue[WriterJob[object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self.on_answer: Callable[[], None] | None = None
        opened: Future[None] = Future()
        # A daemon, because `close` runs when the interpreter exits, after other threads were joined.
        self._thread = threading.Thread(
            target=_run_writer,
            args=(path, wait, WaitingJobs(self._queue), opened),
            name="holdfast-journal",
            daemon=True,
        )
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self._closed = True
            self._queue.put(None)  # if the file is opened later, the thread closes it
            raise

    def submit(self, job: WriterJob[T]) -> WriterJob[T]:
        """Queue a job. Raises JournalClosedError after `close` and after a fork."""
        if os.getpid() != self._process:
            raise JournalClosedError(
                self.path,
                "was opened before this process was forked",
                fix="Open a SqliteJournal of its own file in the child",
            )
        with self._lock:
            if self._closed:
                raise JournalClosedError(self.path, "is closed", fix="Open it again")
            self._queue.put(job)  # type: ignore[arg-type]  # the queue holds jobs of any outcome
        return job

    def close(self, seconds: float | None = None) -> bool:
        """Finish the queued jobs, copy the log into the file and close it.

        Args:
            seconds: how long to wait for that at most; None for as long as it takes.

        Returns:
            Whether it is closed.
        """
        if os.getpid() != self._process:
            return True
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        # The garbage collector may finalize a journal in any thread, including this one.
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)
        return not self._thread.is_alive()


class WaitingJobs:
    """The jobs that wait. Writes and reads take turns, so a write waits for a few reads at most.

    Args:
        jobs: the queue to which the callers add jobs; None is the last entry.
    """

    def __init__(self, jobs: queue.SimpleQueue[WriterJob[object] | None]) -> None:
        self._queue = jobs
        self._writes: deque[WriterJob[object]] = deque()
        self._reads: deque[WriterJob[object]] = deque()
        self._has_written = False
        self._is_closed = False

    def take_group(self, timeout: float | None) -> list[WriterJob[object]] | None:
        """Return jobs that can be performed together, without those that were cancelled.

        Args:
            timeout: seconds to wait for a job; None waits without a limit.

        Returns:
            The jobs; none if the time is over; None if there will be no more jobs.
        """
        self._collect_jobs(timeout)
        if self._writes and not (self._reads and self._has_written):
            self._has_written = True
            return _claim_jobs(self._writes, MOST_IN_GROUP)
        self._has_written = False
        if self._reads:
            return _claim_jobs(self._reads, MOST_READS)
        return None if self._is_closed else []

    def _collect_jobs(self, timeout: float | None) -> None:
        wait = not (self._writes or self._reads or self._is_closed)
        while wait or not self._queue.empty():
            try:
                job = self._queue.get(timeout=timeout) if wait else self._queue.get_nowait()
            except queue.Empty:
                return
            wait = False
            if job is None:
                self._is_closed = True
            else:
                (self._writes if job.writes else self._reads).append(job)


def _claim_jobs(jobs: deque[WriterJob[object]], most: int) -> list[WriterJob[object]]:
    taken = [jobs.popleft() for _ in range(min(most, len(jobs)))]
    return [job for job in taken if job.claim()]


def _run_writer(path: str, wait: float, jobs: WaitingJobs, opened: Future[None]) -> None:
    try:
        lock, connection, watch, log = _open(path, wait)
    except Exception as error:  # noqa: BLE001  # REASON: the constructor raises it
        opened.set_exception(error)
        return
    opened.set_result(None)
    leftovers = hidden_runs.find_hidden(connection)
    while (group := jobs.take_group(_PAUSE if leftovers else None)) is not None:
        if group:
            _perform_group(connection, watch, log, path, group)
        if leftovers:
            leftovers = _delete_leftovers(connection, watch, log, path, leftovers)
    try:
        checkpoint = watch.allows_checkpoint()
        watch.close()
        if checkpoint:
            log.mark_closed(connection)
        log.close()
        opening.close(connection, checkpoint=checkpoint)
        log.remove_old_note()
    finally:
        lock.release()


def _delete_leftovers(
    connection: WriterConnection, watch: FileWatch, log: LogKeeper, path: str, runs: Sequence[int]
) -> Sequence[int]:
    """Delete a piece of a deletion that a killed process began; return the rest, or nothing on an error."""
    job: WriterJob[object] = OwnJob(partial(hidden_runs.delete_hidden, runs))
    _perform_group(connection, watch, log, path, [job])
    return job.value if isinstance(job.value, Sequence) else ()


def _open(path: str, wait: float) -> tuple[FileLock, WriterConnection, FileWatch, LogKeeper]:
    # In this thread no KeyboardInterrupt can occur and leave a lock behind.
    deadline = time.monotonic() + wait
    lock = opening.claim_file(path, wait)
    try:
        log = LogKeeper(path)
        connection = opening.open_connection(path, max(0.0, deadline - time.monotonic()))
        try:
            log.start(connection)
            return lock, connection, FileWatch(path, lock), log
        except BaseException:
            opening.close(connection, checkpoint=False)
            raise
    except BaseException:
        lock.release()
        raise


def _perform_group(
    connection: WriterConnection,
    watch: FileWatch,
    log: LogKeeper,
    path: str,
    group: list[WriterJob[object]],
) -> None:
    try:
        if group[0].writes:
            _write(connection, watch, log, path, group)
        else:
            _read(connection, watch, log, path, group)
    except Exception as error:  # noqa: BLE001  # REASON: the thread must survive, or all callers would wait for ever
        with suppress(sqlite3.Error):  # the next BEGIN raises the error
            connection.roll_back()
        with suppress(JournalError):
            watch.check_commit()  # the failed group may have left frames in the log
        for job in group:
            if job.error is None:
                _set_error(job, error, path)
    finish_all(job for job in group if not isinstance(job, OwnJob))


def _set_error(job: WriterJob[object], error: Exception, path: str) -> None:
    job.error = opening.to_journal_error(error, path, is_open=True)
    job.error.__cause__ = error


def _write(
    connection: WriterConnection,
    watch: FileWatch,
    log: LogKeeper,
    path: str,
    group: list[WriterJob[object]],
) -> None:
    watch.check()
    if log.mark_open(connection):
        watch.observe()
    left = group
    while left:
        connection.execute("BEGIN IMMEDIATE")
        log.begin(connection)
        failed = _perform_until_failure(connection, path, left)
        if failed is None:
            break
        # Its own records are damaged, or it cannot be saved. The others begin again without it.
        connection.roll_back()
        left = [job for job in left if job is not failed]
    else:
        return
    connection.execute("COMMIT")
    watch.check_commit()
    if log.finish(connection):
        watch.observe()  # the log was copied into the file, which may have grown


def _perform_until_failure(
    connection: sqlite3.Connection, path: str, group: list[WriterJob[object]]
) -> WriterJob[object] | None:
    """Perform jobs until one fails for a reason of its own; return that one."""
    for is_append, found in groupby(group, _is_append):
        jobs = list(found)
        perform = _insert_appends if is_append else _perform_jobs
        if (failed := perform(connection, path, jobs)) is not None:
            return failed
    return None


def _is_append(job: WriterJob[object]) -> bool:
    return type(job.work) is Append


def _insert_appends(
    connection: sqlite3.Connection, path: str, jobs: list[WriterJob[object]]
) -> WriterJob[object] | None:
    appends = AppendGroup([cast("Append", job.work) for job in jobs], connection)
    try:
        appends.insert()
    except sqlite3.Error as error:
        return _set_own_error(jobs[appends.current], error, path)
    for number, job in enumerate(jobs):
        job.error = appends.refused.get(number)
    return None


def _perform_jobs(
    connection: sqlite3.Connection, path: str, jobs: list[WriterJob[object]]
) -> WriterJob[object] | None:
    for job in jobs:
        job.error = None  # of an earlier try
        try:
            job.perform(connection)
        except sqlite3.Error as error:
            return _set_own_error(job, error, path)
    return None


def _set_own_error(job: WriterJob[object], error: sqlite3.Error, path: str) -> WriterJob[object]:
    """Set the error of the job that failed; raise it again if it concerns the whole group."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _OWN_FAILURES:
        raise error
    _set_error(job, error, path)
    return job


def _read(
    connection: WriterConnection,
    watch: FileWatch,
    log: LogKeeper,
    path: str,
    group: list[WriterJob[object]],
) -> None:
    # Changed files are still read, because their records may exist nowhere else. Sizes are observed
    # afterwards, because the second part of a deletion empties the log.
    intact = watch.is_intact()
    for job in group:
        try:
            if isinstance(job, LogTruncation):
                job.value = log.truncate(connection)
            elif isinstance(job, FileCheck):
                watch.check()
            else:
                job.perform(connection)
        except Exception as error:  # noqa: BLE001  # REASON: it fails this job only
            _set_error(job, error, path)
    if intact:
        watch.observe()
