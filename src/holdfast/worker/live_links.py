"""Lets a process show its runs over the engine that carries the jobs, where the engine can do that."""

from __future__ import annotations

from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, LinkingEngine
from holdfast.journal.live_link import LinkedJournal


def share_link(service: ServiceTenants, engine: DispatchEngine) -> None:
    """Let a service tell of its runs over an engine; call it before the service starts.

    Args:
        service: the service.
        engine: the engine, which is open.
    """
    journal = service.journal
    if isinstance(engine, LinkingEngine) and isinstance(journal, LinkedJournal):
        service.open_link = engine.make_open_link(journal)
