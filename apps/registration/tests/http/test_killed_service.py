"""The service is killed at some instants of step 29; all of them are in conformance."""

from __future__ import annotations

from pathlib import Path

import pytest
from apps.registration.tests.http.mortal_club import (
    check_child,
    open_mortal_club,
    register_with_deaths,
)

pytestmark = pytest.mark.slow  # kills the service


async def test_a_killed_service_goes_on_with_the_next_step(tmp_path: Path) -> None:
    database, journal = f"sqlite:///{tmp_path}/club.db", f"sqlite:///{tmp_path}/talk.db"
    async with open_mortal_club(tmp_path, database, journal) as club:
        for name, kind, number in (("Ann", "before a record", 6), ("Ben", "after a commit", 3)):
            child = await club.begin_child(name)
            assert await register_with_deaths(club, child, kind, number)
            await check_child(club, child)
