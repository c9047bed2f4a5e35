"""The errors of a journal that cannot save or read a record; each needs another reaction.

    JournalError                  a HoldfastError; `.path`, `.problem`, `.fix`
    ├── JournalBusyError          the file is already open
    ├── JournalStorageError       the disk is full, or the file cannot be written or locked
    ├── JournalCorruptError       the file or a record is damaged, or the log is of another file
    ├── JournalVersionError       a newer Holdfast or another program wrote it
    ├── JournalUnreachableError   the server does not respond, or the connection was lost
    ├── TransactionPoolingError   a connection pooler changes the session between transactions
    ├── JournalReadOnlyError      the journal was opened for reading only
    ├── LeaseLostError            another driver has taken over the run
    └── JournalClosedError        the journal was closed, or opened before a fork
    RequestExistsError            a ConflictError; another turn or act has the same request
    RunChangedError               a ConflictError; inside the library only: read the run again

A message never contains the content of a record, since messages are logged.
"""

from __future__ import annotations

from holdfast.core.errors import ConflictError, ErrorCategory, ErrorInfo, HoldfastError, Landed


class JournalError(HoldfastError):
    """A journal cannot save or read a record.

    Args:
        path: the file or the server, without a password.
        problem: the problem, in words.
        fix: the way to correct it.

    >>> str(JournalError("a.db", "the disk is full", fix="Free some space"))
    'journal a.db: the disk is full. Free some space'
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
    """The file or server cannot be read, written or locked, or another program changed the file."""


class JournalCorruptError(JournalError):
    """The file or a record is damaged, or the log belongs to another file; nothing was changed."""

    landed = Landed.NO


class JournalVersionError(JournalError):
    """The journal was written by a newer Holdfast, or is not a journal of Holdfast."""

    landed = Landed.NO


class JournalUnreachableError(JournalError):
    """The server of the journal does not respond.

    The record of an append that raises this may or may not have been saved. `read` shows it as
    soon as the server responds again; until then the run must not continue.
    """


class TransactionPoolingError(JournalError):
    """A connection pooler before the server gives each transaction another session of the server.

    Locks, settings, prepared statements and `LISTEN` belong to a session. A journal that is being
    opened raises this before it has written anything.
    """


def transaction_pooling_error(path: str) -> TransactionPoolingError:
    """Return the error of a journal behind a pooler that does not pool sessions.

    Args:
        path: the journal.
    """
    return TransactionPoolingError(
        path,
        "is reached through a connection pooler that changes the session of the server from one "
        "transaction to the next",
        fix="Connect directly, or set pool_mode=session in PgBouncer",
    )


class LeaseLostError(JournalError):
    """Another process took over the run, or the run was deleted; the append is not saved."""

    landed = Landed.NO


def lease_lost_error(path: str, run: str) -> LeaseLostError:
    """Return the error of a driver whose run was taken over.

    Args:
        path: the journal.
        run: the run.
    """
    return LeaseLostError(
        path,
        f"the run {run!r} was taken over by another driver, or deleted",
        fix="Stop this driver; the other one continues the run",
    )


class JournalReadOnlyError(JournalError):
    """The journal was opened for reading only."""

    landed = Landed.NO


class JournalClosedError(JournalError):
    """The journal was closed, or was opened before this process was forked."""

    landed = Landed.NO


def conflict_error(run: str, key: str) -> ConflictError:
    """The error of an append whose key has an outcome already."""
    return ConflictError(f"the run {run!r} has an outcome for {key!r} already")


class RunChangedError(ConflictError):
    """A prepared lease did not begin: another driver has changed the run, or has a lease of it.

    Nothing was saved. The library then claims the run and reads it, so no caller sees this error.
    """

    def __init__(self, run: str) -> None:
        super().__init__(f"the run {run!r} is not as it was read, or another driver has it")


class RequestExistsError(ConflictError):
    """The journal already has a turn with this request, the idempotency key of a caller, or an act.

    `agent.run(request=...)` handles this error: it returns the result of that turn.

    >>> str(RequestExistsError("order-7"))
    "the journal already has the request 'order-7'"
    """

    def __init__(self, request: str) -> None:
        super().__init__(f"the journal already has the request {request!r}")
        self.request = request
