"""Whether each part of the service works: asked now, or as its last requests ended.

This module must never show an address, nor a text of a provider or a database.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.resilience import PROCESS
from registration.flow.parts import Parts
from registration.http.running import Running
from registration.providers.connection import ProviderClient
from registration.settings import Settings
from registration.store import Database, StoreError


class PartHealth(Struct, frozen=True, omit_defaults=True):
    """How a part is.

    Args:
        state: "ok", or the problem, in a word.
        failures: how many requests in a row failed.
        reason: why the last one did, in a word.
    """

    state: str
    failures: int = 0
    reason: str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.state in ("ok", "closed")


async def check_parts(running: Running) -> dict[str, PartHealth]:
    """Return how each part is; none is asked for longer than the database's time limit."""
    parts = running.parts
    database, journal, store = await asyncio.gather(
        check_database(parts.database),
        _check_journal(running),
        asyncio.to_thread(_check_store, parts.settings),
    )
    return {
        "database": database,
        "journal": journal,
        "store": store,
        "model": _check_model(parts.settings),
        **{name: _check_provider(client) for name, client in list_providers(parts).items()},
    }


async def check_database(database: Database) -> PartHealth:
    """Ask the database."""
    try:
        await database.read(lambda tx: tx.execute("SELECT COUNT(*) AS teams FROM team_info"))
    except StoreError:
        return PartHealth("unavailable")
    return PartHealth("ok")


def list_providers(parts: Parts) -> Mapping[str, ProviderClient]:
    """Return the clients of the providers by name."""
    return {
        "payments": parts.payments,
        "sms": parts.sms,
        "mail": parts.mail,
        "addresses": parts.addresses,
    }


def list_breakers() -> dict[str, str]:
    """Return the state of the circuit breaker of each model: closed, open, half_open or isolated.

    A model that is called with two keys has two; the one that is not closed is shown.
    """
    states: dict[str, str] = {}
    for one in PROCESS.all_endpoints():
        if one.breaker is not None and states.get(one.endpoint, "closed") == "closed":
            states[one.endpoint] = one.breaker.snapshot().state
    return states


async def _check_journal(running: Running) -> PartHealth:
    try:
        await running.service.sessions.list(limit=1)
    except HoldfastError:
        return PartHealth("unavailable")
    return PartHealth("ok")


def _check_store(settings: Settings) -> PartHealth:
    folder = Path(settings.photo_folder)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent  # it is made when the first photo comes
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return PartHealth("unavailable")
    if not os.access(folder, os.W_OK):
        return PartHealth("read_only")
    return PartHealth("full" if free < 2 * settings.photo_bytes else "ok")


def _check_model(settings: Settings) -> PartHealth:
    return PartHealth(list_breakers().get(settings.model, "closed"))


def _check_provider(client: ProviderClient) -> PartHealth:
    health = client.health
    return PartHealth("failing" if health.is_failing else "ok", health.failures, health.reason)
