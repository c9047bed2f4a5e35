"""The parts that a conversation works with: the database, the providers, the clock.

This module must never open anything: `http.app` does, and closes it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from registration.club.time_zone import LONDON
from registration.flow.counts import Counts
from registration.flow.model_calls import ModelCalls
from registration.providers.address_book import AddressBook
from registration.providers.mailer import Mailer
from registration.providers.payments import PaymentProvider
from registration.providers.sms import SmsProvider
from registration.settings import Settings
from registration.store.database import Database

if TYPE_CHECKING:
    from registration.providers.mcp_addresses import McpAddressBook


class Parts(Struct, frozen=True, kw_only=True):
    """What a conversation works with.

    Args:
        settings: the settings.
        database: the database.
        payments: the payment provider.
        sms: the SMS provider.
        addresses: the address table.
        mcp_addresses: the same behind an MCP server; None if there is no such server.
        mail: the mail provider.
        calls: repeats the calls of models.
        counts: counts what is to be seen in the metrics.
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
