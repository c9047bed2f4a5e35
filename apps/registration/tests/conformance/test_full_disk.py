"""The disk of the database, the journal and the photos is full: a small one is mounted, which needs root."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.served_club import serve_club


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(file: BinaryIO) -> None:
    """Write until there is no place left."""
    with suppress(OSError):
        while file.write(bytes(4096)):
            pass


async def test_on_a_full_disk_nothing_is_said_to_be_saved(tmp_path: Path, small_disk: Path) -> None:
    places = {
        "database": f"sqlite:///{small_disk}/club.db",
        "journal": f"sqlite:///{small_disk}/talk.db",
        "photo_folder": f"{small_disk}/photos",
    }
    async with serve_club(tmp_path, **places) as club:
        await club.say_all(*TO_HOUSE[:3])
        saved = (await club.call("GET", f"/sessions/{club.session}")).json
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            fill(file)
        assert shutil.disk_usage(small_disk).free == 0
        for number in range(5):
            refused = await club.say("14-03-2016", message_id=f"m{number}")
            assert (refused.status, refused.json["error"]["retryable"]) == (503, True)
        assert (await club.call("GET", f"/sessions/{club.session}")).json == saved
        assert (await club.call("GET", "/health")).json["parts"]["store"]["state"] == "full"
        filler.unlink()
        assert (await club.say("14-03-2016", message_id="m0")).json["routine_number"] == 4
        assert (await club.say("boy")).json["routine_number"] == 5
