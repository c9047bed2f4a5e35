"""What the heavy tests share: a database and a journal of each kind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def new_urls(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], tuple[str, str]]:
    """Makes addresses of a new database and of a new journal, of each kind."""
    if request.param == "sqlite":
        numbers = count(1)

        def name_files() -> tuple[str, str]:
            number = next(numbers)
            return (
                f"sqlite:///{tmp_path}/club-{number}.db",
                f"sqlite:///{tmp_path}/talk-{number}.db",
            )

        return name_files
    server: PostgresServer = request.getfixturevalue("postgres")
    return lambda: (server.new_url(), server.new_url())
