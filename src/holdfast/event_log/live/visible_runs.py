"""The runs in progress that the readers of one tenant see, whichever process drives them."""

from __future__ import annotations

from typing import Protocol

from holdfast.event_log.live.live_run import LiveRun
from holdfast.event_log.live.process_exchange import LiveExchange

_POLL_SECONDS = 1.0


class DrivenRuns(Protocol):
    """The runs that this process drives."""

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        ...

    def find_live(self, session: str) -> LiveRun | None:
        """Return what readers see of the turn that is driven here; None if there is nothing yet."""
        ...


class VisibleRuns:
    """The runs of one tenant that are driven here, and those that other processes tell of.

    Args:
        tenant: the tenant.
        driven: the runs that this process drives.
        is_shared: whether several processes may use the journal.
    """

    def __init__(self, tenant: str, driven: DrivenRuns, *, is_shared: bool) -> None:
        self._tenant = tenant
        self._driven = driven
        self._is_shared = is_shared
        self.exchange: LiveExchange | None = None
        """The link to other processes, once it is open."""

    @property
    def poll(self) -> float | None:
        """Seconds after which a reader looks again by itself; None if somebody wakes it."""
        return _POLL_SECONDS if self._is_shared and self.exchange is None else None

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        return self._driven.is_driven(session)

    def find_live(self, session: str) -> LiveRun | None:
        """Return the run in progress; None if there is none, or nothing is known of it."""
        live = self._driven.find_live(session)
        if live is None and self.exchange is not None and not self._driven.is_driven(session):
            live = self.exchange.find_mirror(self._tenant, session)
        return live

    def want(self, session: str) -> None:
        """Ask to be told of a run that another process drives."""
        if self.exchange is not None:
            self.exchange.want(self._tenant, session)
