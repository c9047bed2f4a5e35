"""A silent connection delayed the renewal of all leases until they expired."""

from __future__ import annotations

import asyncio

import pytest
from tests.postgres_server import PostgresServer, Proxy

from holdfast import PostgresJournal
from holdfast.core.errors import SessionBusyError


async def test_the_next_renewal_takes_another_one(postgres: PostgresServer) -> None:
    url = postgres.new_url()

    def expires() -> object:
        return postgres.rows(url, "SELECT expires FROM holdfast_runs")

    async def renewed() -> None:
        before = expires()
        while expires() == before:
            await asyncio.sleep(0.02)

    async with Proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with PostgresJournal(through, lease=1.5) as journal, PostgresJournal(url) as other:
            lease = await journal.claim("r")
            async with asyncio.timeout(20):
                await renewed()
                proxy.silence()
                await renewed()  # may have been on its way
                await renewed()
                await renewed()
            with pytest.raises(SessionBusyError):
                await other.claim("r")
            proxy.cut()  # or closing would wait for answers
            await lease.release()
