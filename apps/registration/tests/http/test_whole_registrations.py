"""Registrations from the code to the confirmed payment; all of them on all databases are in conformance."""

from __future__ import annotations

from pathlib import Path

import pytest
from apps.registration.tests.http.prepared import BEFORE_SEASON
from apps.registration.tests.http.served_club import serve_club
from apps.registration.tests.http.whole_registrations import SCRIPTS, check_once, register


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("name", ["a new player of ten, with a kit", "a player of last season"])
async def test_a_registration_ends_with_one_of_each(tmp_path: Path, name: str) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        registration = await register(club, SCRIPTS[name])
        check_once(club, registration, SCRIPTS[name])
