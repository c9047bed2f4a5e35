"""What a journal raises when it cannot keep or cannot give back: one error for each thing to do.

    JournalError                  a HoldfastError; `.path`, `.problem`, `.fix`
    ├── JournalBusyError          somebody else has the file open
    ├── JournalStorageError       the disk is full, the file cannot be written or locked
    ├── JournalCorruptError       the file, a record of it or its log is damaged or another one's
    ├── JournalVersionError       a newer Holdfast wrote it, or another program did
    ├── JournalUnreachableError   the server does not answer, or the connection was lost
    ├── LeaseLostError            another driver has taken over the run
    └── JournalClosedError        the journal was closed, or belongs to the process before a fork

A text here must never hold the content of a record: it may stand in a log.
"""

from __future__ import annotations

from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, Landed


class JournalError(HoldfastError):
    """A journal cannot save or read a record.

    Args:
        path: the file or the server, without a password.
        problem: what is wrong with it.
        fix: what to do.

    >>> str(JournalError("a.db", "is on fire", fix="Leave the building"))
    'journal a.db: is on fire. Leave the building'
    """

    landed = Landed.UNKNOWN

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        message = f"journal {path}: {problem}" + (f". {fix}" if fix else "")
        info = ErrorInfo(
            category=ErrorCategory.CLIENT_ERROR, safe=message, landed=self.landed, code="journal"
        )
        super().__init__(message, info=info)
        self.path = path
        self.problem = problem
        self.fix = fix


class JournalBusyError(JournalError):
    """Another process, or another journal of this process, has the file open."""

    landed = Landed.NO


class JournalStorageError(JournalError):
    """The place cannot be read, written or locked: missing, full, read-only, failing, or changed by others."""


class JournalCorruptError(JournalError):
    """The file or a record is damaged, or the log beside the file is not its own; nothing was changed."""

    landed = Landed.NO


class JournalVersionError(JournalError):
    """What is there was written by a newer Holdfast, or is no journal of Holdfast."""

    landed = Landed.NO


class JournalUnreachableError(JournalError):
    """The server of the journal does not answer.

    An append that raises this was kept or was not: `read` says which as soon as there is a server
    again. While it is not known, nobody may go on.
    """


class LeaseLostError(JournalError):
    """Another process took over the run, or the run was deleted; the append is not saved."""

    landed = Landed.NO


def lease_lost_error(path: str, run: str) -> LeaseLostError:
    """The error of a driver whose run was taken over.

    Args:
        path: the journal.
        run: the run.
    """
    return LeaseLostError(
        path,
        f"the run {run!r} was taken over by another driver, or deleted",
        fix="Stop this driver: the other one goes on",
    )


class JournalClosedError(JournalError):
    """The journal was closed, or this process is a fork of the one that opened it."""

    landed = Landed.NO
