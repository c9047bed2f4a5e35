"""A lease within this process: one driver at a time for each run of a journal, among all agents.

Shared journals provide leases of their own; `LocalLease` is the lease for all other journals. It
must never wait, and must never hold a run after its owner is gone.
"""

from __future__ import annotations

import threading

from holdfast.core.errors import SessionBusyError
from holdfast.journal.port import Journal

# The garbage collector may end a lease between any two steps, also in a thread that has the lock.
_lock = threading.RLock()
_held_leases: set[tuple[int, str]] = set()


class LocalLease:
    """The lease of one driver for a run. It passes records directly to the journal.

    Args:
        journal: the journal; the lease keeps a reference to it.
        run: the run id.

    Raises:
        SessionBusyError: another driver in this process has the lease.
    """

    __slots__ = ("_is_held", "_journal", "append", "read", "run")

    token = 0

    def __init__(self, journal: Journal, run: str) -> None:
        self._is_held = False
        self._journal = journal
        self.append, self.read = journal.append, journal.read
        self.run = run
        with _lock:
            # The id is unique while a lease exists, because the lease refers to the journal.
            if self._lease_key in _held_leases:
                raise SessionBusyError(run)
            _held_leases.add(self._lease_key)
            self._is_held = True

    @property
    def _lease_key(self) -> tuple[int, str]:
        return id(self._journal), self.run

    @staticmethod
    def is_held(journal: Journal, run: str) -> bool:
        """Whether a driver in this process has the lease of a run."""
        with _lock:
            return (id(journal), run) in _held_leases

    async def release(self) -> None:
        """Release the lease."""
        self._unlock_run()

    def _unlock_run(self) -> None:
        with _lock:
            if self._is_held:
                _held_leases.discard(self._lease_key)
                self._is_held = False

    def __del__(self) -> None:
        # If the event loop is discarded, the turn never reaches `release`.
        if self._is_held:
            self._unlock_run()
