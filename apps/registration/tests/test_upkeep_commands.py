"""Deletion leaves no byte of a person in any file or table, and the commands say what they did."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.flow.chat_club import KEYS
from apps.registration.tests.flow.test_registration_by_chat import TO_PHOTO
from apps.registration.tests.http.served_club import serve_club
from apps.registration.tests.store.samples import DAY, player, register

from registration.settings import Settings, read_settings
from registration.store import open_database
from registration.store.registrations import find_of_session, load_registration, update_registration
from registration.store.sessions import load_session
from registration.upkeep_commands import Swept, delete_person, open_archive, sweep

PERSONAL = (
    *("Sarah", "Jones", "Jack", "07700900123", "07700 900123", "447700900123", "sarah@example"),
    *("14-03-2016", "02-11-1985", "HF12AB", "HF1 2AB", "Mill Lane"),
)
ENDPOINTS = {
    f"REGISTRATION_{name}_{part}": value
    for name in ("PAYMENTS", "SMS", "MAIL", "ADDRESSES")
    for part, value in (("ADDRESS", "http://127.0.0.1:9"), ("TOKEN", "t" * 16))
}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Where database, journal and photos are, as settings by name."""
    folder = {"photo_folder": f"{tmp_path}/photos"}
    if request.param == "sqlite":
        return {
            **folder,
            "database": f"sqlite:///{tmp_path}/club.db",
            "journal": f"sqlite:///{tmp_path}/talk.db",
        }
    url = request.getfixturevalue("postgres").new_url()
    return {**folder, "database": url, "journal": url}


def make_environment(place: Mapping[str, str]) -> dict[str, str]:
    named = {f"REGISTRATION_{name.upper()}": value for name, value in place.items()}
    return {**ENDPOINTS, **KEYS, "REGISTRATION_WEBHOOK_SECRET": "w" * 16, **named}


def read_everything(folder: Path, url: str, server: Any) -> bytes:
    """Return all bytes of files, and of tables as they are on the disk."""
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "providers" not in file.parts[len(folder.parts) :]
    ]
    found = [file.name.encode() + file.read_bytes() for file in files]
    if server is not None:
        server.rows(url, "CHECKPOINT")
        names = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        for (name,) in server.rows(url, names):
            read = f"SELECT pg_read_binary_file(pg_relation_filepath('\"{name}\"'))"
            found += [
                repr(server.rows(url, f'SELECT * FROM "{name}"')).encode(),
                *(bytes(row[0]) for row in server.rows(url, read)),
            ]
    return b"\n".join(found)


async def register_child(tmp_path: Path, place: Mapping[str, str]) -> tuple[str, str]:
    """Register a child by chat up to the photo; return the ids of its session and registration."""
    async with serve_club(tmp_path, **place) as club:
        await club.say_all(*TO_PHOTO)
        found = await club.database.read(lambda tx: find_of_session(tx, club.session))
        assert found is not None
        photo = Path(place["photo_folder"]) / "photos" / "Jack_Jones.jpg"
        photo.parent.mkdir(parents=True)
        photo.write_bytes(b"Jack Jones")
        photo.with_name("Jack_Jones.jpg.json").write_text('{"player": "Jack Jones"}')
        await club.database.transact(
            lambda tx: update_registration(
                tx, found.id, time.time(), photo_file="photos/Jack_Jones.jpg"
            )
        )
        return club.session, found.id


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("by", ["session", "registration"])
async def test_nothing_of_a_deleted_person_is_left(
    by: str, tmp_path: Path, place: dict[str, str], request: pytest.FixtureRequest
) -> None:
    shared = place["database"].startswith("postgres")
    server = request.getfixturevalue("postgres") if shared else None
    session, owner = await register_child(tmp_path, place)
    before = read_everything(tmp_path, place["database"], server)
    for text in ("Sarah", "Jones", "sarah@example", session, owner):
        assert text.encode() in before, text
    async with open_archive(read_settings(make_environment(place))) as archive:
        assert await delete_person(archive, session if by == "session" else owner)
        assert not await delete_person(archive, session)
        await archive.database.compact()
    left = read_everything(tmp_path, place["database"], server)
    assert b"Tigers" in left
    for text in (*PERSONAL, session, owner):
        assert text.encode() not in left, text


def list_photos(place: Mapping[str, str]) -> list[Path]:
    return [file for file in Path(place["photo_folder"]).rglob("*") if file.is_file()]


@pytest.mark.slow  # takes half a second or more
async def test_retention_deletes_what_is_too_old(tmp_path: Path, place: dict[str, str]) -> None:
    session, owner = await register_child(tmp_path, place)
    settings = read_settings(make_environment(place))

    async def sweep_after(days: float) -> Swept:
        later = time.time() + days * DAY
        async with open_archive(settings, lambda: later) as archive:
            return await sweep(archive)

    assert await sweep_after(29) == Swept()
    assert await sweep_after(31) == Swept(sessions=1)
    database = await open_database(settings.database.reveal())
    assert await database.read(lambda tx: load_session(tx, session)) is None
    kept = await database.read(lambda tx: load_registration(tx, owner))
    assert kept is not None
    assert kept.session_id is None
    assert await sweep_after(1096) == Swept(registrations=1)
    assert await database.read(lambda tx: load_registration(tx, owner)) is None
    await database.close()
    assert list_photos(place) == []


def run_command(settings: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "registration", *arguments],
        env=make_environment(settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow  # starts eight processes
async def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    place = {
        "database": f"sqlite:///{tmp_path}/club.db",
        "journal": f"sqlite:///{tmp_path}/talk.db",
        "photo_folder": f"{tmp_path}/photos",
    }
    settings: Settings = read_settings(make_environment(place))
    database = await open_database(settings.database.reveal())
    owner = await register(database, "s1", player(), time.time())
    await database.close()
    target = tmp_path / "out.csv"
    exported = run_command(place, "export", str(target))
    assert (exported.returncode, exported.stderr) == (0, "")
    assert "Zebedee" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600
    assert run_command(place, "export", str(target)).returncode == 1
    retention = run_command(place, "retention")
    assert retention.stdout.startswith("deleted: 0 sessions, 0 registrations")
    reconciled = run_command(place, "reconcile")
    assert (reconciled.returncode, "not answered by the provider: 1" in reconciled.stdout) == (
        *(1, True),
    )
    assert run_command(place, "chase").returncode == 0
    assert run_command(place, "delete", owner).stdout == "deleted\n"
    assert run_command(place, "delete", owner).returncode == 1
    assert run_command(place, "delete", "-unknown").stdout.startswith("there is no such")
    for done in (exported, retention, reconciled):
        assert "Zebedee" not in done.stdout + done.stderr


@pytest.mark.slow  # takes half a second or more
async def test_a_journal_that_the_service_has_open_is_said(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        place = {
            "database": f"sqlite:///{tmp_path}/club.db",
            "journal": f"sqlite:///{tmp_path}/talk.db",
        }
        await club.say("200-lions-u10-2526")
        refused = await asyncio.to_thread(run_command, place, "delete", club.session)
        assert refused.returncode == 1
        assert "is open in process" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert (await club.say("Sarah Jones")).status == 200
