"""Ctrl-C waited ten seconds for a PostgreSQL server that took the connection and said nothing.

Whoever asked was gone, and the journal waited at its end for the act that nobody wanted any more.
"""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

pytest.importorskip("psycopg")

from holdfast import PostgresJournal


async def test_what_was_withdrawn_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        journal = PostgresJournal(f"postgresql://a@127.0.0.1:{port}/x?connect_timeout=3600")
        asking = asyncio.ensure_future(journal.runs())
        connection, _ = await asyncio.to_thread(silent.accept)
        with connection:
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            closing = threading.Thread(target=journal.close, daemon=True)
            closing.start()
            await asyncio.to_thread(closing.join, 20)
            assert not closing.is_alive()
