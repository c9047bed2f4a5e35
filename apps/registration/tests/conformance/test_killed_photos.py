"""A process is killed at every instant of a photo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from apps.registration.tests.photos.test_killed_photos import run_killed

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(900)

MOST_INSTANTS = 80


async def test_killed_at_every_instant(tmp_path: Path) -> None:
    told = await run_killed(tmp_path, 1)
    assert told["tried"] == told["instants"] >= 40


async def test_killed_at_every_instant_on_a_server(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    urls = [postgres.new_url() for _ in range(MOST_INSTANTS)]
    told = await run_killed(tmp_path, 1, *urls)
    assert MOST_INSTANTS > told["tried"] == told["instants"] >= 40
