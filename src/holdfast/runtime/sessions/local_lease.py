"""One driver at a time for each run of a journal in this process, whichever agent it belongs to.

Journals that processes share give out leases; this is the lease of all the others. It must never
wait, and never keep a run for somebody who is gone.
"""

from __future__ import annotations

import threading

from holdfast.core.errors import SessionBusyError
from holdfast.journal.port import Journal

_lock = threading.Lock()
_held_leases: set[tuple[int, str]] = set()


class LocalLease:
    """A run that one driver holds; what is kept through it goes straight to its journal.

    Args:
        journal: the journal, which lives as long as this.
        run: the run.

    Raises:
        SessionBusyError: somebody in this process holds it.
    """

    __slots__ = ("_is_held", "_journal", "append", "read", "run")

    token = 0

    def __init__(self, journal: Journal, run: str) -> None:
        self._is_held = False
        self._journal = journal
        self.append, self.read = journal.append, journal.read
        self.run = run
        with _lock:
            # The journal cannot be another one with the same id while somebody holds a run of it.
            if self._lease_key in _held_leases:
                raise SessionBusyError(run)
            _held_leases.add(self._lease_key)
            self._is_held = True

    @property
    def _lease_key(self) -> tuple[int, str]:
        return id(self._journal), self.run

    async def release(self) -> None:
        """Let others have the run."""
        self._unlock_run()

    def _unlock_run(self) -> None:
        with _lock:
            if self._is_held:
                _held_leases.discard(self._lease_key)
                self._is_held = False

    def __del__(self) -> None:
        # A turn whose loop was thrown away never comes to its end.
        if self._is_held:
            self._unlock_run()
