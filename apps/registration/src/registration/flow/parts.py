"""The parts that a conversation works with: the database, the providers, the clock, the counters.

This module must never open anything (`http.app` does, and closes it), and must never count by a person.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from registration.club.time_zone import LONDON
from registration.flow.model_calls import ModelCalls
from registration.providers.address_book import AddressBook
from registration.providers.messages import Mailer, SmsProvider
from registration.providers.payments import PaymentProvider
from registration.settings import Settings
from registration.store.database import Database

if TYPE_CHECKING:
    from registration.providers.mcp_addresses import McpAddressBook


class Counts:
    """Counts by name; for the event loop's thread.

    >>> counts = Counts()
    >>> counts.add("turns")
    >>> dict(counts.read())
    {'turns': 1}
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Count one."""
        self._counts[name] += 1

    def read(self) -> Mapping[str, int]:
        """Return the counts by name."""
        return dict(self._counts)


class Parts(Struct, frozen=True, kw_only=True):
    """The parts that a conversation works with.

    Args:
        settings: the settings.
        database: the database.
        payments: the payment provider.
        sms: the SMS provider.
        addresses: the address table.
        mcp_addresses: the same behind an MCP server; None if there is no such server.
        mail: the mail provider.
        calls: repeats the calls of models.
        counts: counts events for the metrics.
        now: returns seconds since the epoch.
        new_jobs: is set when a job was written, so that the worker looks at once.
    """

    settings: Settings
    database: Database
    payments: PaymentProvider
    sms: SmsProvider
    addresses: AddressBook
    mcp_addresses: McpAddressBook | None = None
    mail: Mailer
    calls: ModelCalls
    counts: Counts
    now: Callable[[], float]
    new_jobs: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def today(self) -> dt.date:
        """Return the date at the club."""
        return dt.datetime.fromtimestamp(self.now(), LONDON).date()
