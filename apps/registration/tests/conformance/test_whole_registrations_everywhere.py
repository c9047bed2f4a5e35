"""Every way through a registration, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from apps.registration.tests.http.prepared import BEFORE_SEASON
from apps.registration.tests.http.served_club import serve_club
from apps.registration.tests.http.whole_registrations import (
    SCRIPTS,
    Script,
    check_once,
    register,
)

# Starts no processes, so that it may run beside those that do.
pytestmark = pytest.mark.xdist_group("registrations")


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_every_way_ends_with_one_of_each(
    tmp_path: Path, new_urls: Callable[[], tuple[str, str]], script: Script
) -> None:
    database, journal = new_urls()
    async with serve_club(
        tmp_path, clock=BEFORE_SEASON, database=database, journal=journal
    ) as club:
        check_once(club, await register(club, script), script)
