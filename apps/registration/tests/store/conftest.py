"""What the tests of the store share: a database of each kind, and a registration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registration.store import Database, open_database

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes addresses of new, empty databases of each kind."""
    if request.param == "sqlite":
        numbers = count(1)
        return lambda: f"sqlite:///{tmp_path}/registration-{next(numbers)}.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_url


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """The address of a new, empty database of each kind."""
    return new_url()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = await open_database(url)
    yield database
    await database.close()
