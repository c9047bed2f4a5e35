"""Photos over HTTP: sent, checked, rejected, sent again, refused, and shown to the office."""

from __future__ import annotations

import asyncio
import errno
import html
import os
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from apps.registration.tests.club.registrations import RETURNING
from apps.registration.tests.flow.test_registration_by_chat import TO_PHOTO
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.http.test_office_pages import Office
from apps.registration.tests.photos import samples
from apps.registration.tests.photos.stages import reach_step_in

from holdfast.testing.emulator import ErrorResponse
from registration.emulators.model import choose_reply
from registration.photos.naming import sign_photo
from registration.settings import Secret, Settings
from registration.store import open_database
from registration.store.registrations import Registration, find_of_session
from registration.store.sessions import load_session


async def load_record(folder: Path, session: str) -> Registration:
    database = await open_database(f"sqlite:///{folder}/club.db")
    try:
        found = await database.read(lambda tx: find_of_session(tx, session))
        assert found is not None
        return found
    finally:
        await database.close()


def list_files(folder: Path) -> list[str]:
    root = folder / "photos"
    return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())


async def list_kept(folder: Path) -> list[str]:
    """Return the files that are left; an upload is removed right after the end of its check."""
    end = time.monotonic() + 20.0
    while any(name.startswith("uploads/") for name in list_files(folder)):
        assert time.monotonic() < end, list_files(folder)
        await asyncio.sleep(0.02)
    return list_files(folder)


def make_link_settings() -> Settings:
    """The settings that an address is signed with, as `KEYS` has them."""
    settings: Any = type("_", (), {"link_secret": Secret("b" * 32)})
    return settings


async def fetch(club: Served, path: str) -> tuple[int, bytes]:
    """Ask as a browser does, without a token."""
    async with club.http.get(club.address + path) as response:
        return response.status, await response.read()


@pytest.mark.slow  # starts a program or a server
async def test_a_photo_ends_a_registration(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        sent = await club.send_photo(samples.photo_with_place())
        assert (sent.status, sent.headers["Retry-After"]) == (202, "2")
        assert sent.json["processing"] is True
        assert sent.json["routine_number"] == 34
        assert sent.json["response"].startswith("📸 Photo received")
        told = await club.follow_photo()
        assert (told["state"], told["routine_number"]) == ("done", 35)
        assert told["response"].startswith("All done: Jack is registered")
        assert (await club.call("GET", f"/jobs/{sent.json['job_id']}")).json == told
        again = await club.send_photo(samples.photo_with_place())
        assert again.json["job_id"] == sent.json["job_id"]
        other = await club.send_photo(samples.photo(1))
        assert (other.status, other.json["error"]["kind"]) == (409, "conflict")
        assert (await club.say("Thank you")).json["routine_number"] == 35

        record = await load_record(tmp_path, club.session)
        name = record.photo_file or ""
        assert name.rpartition("/")[2].startswith("Jack_Jones_Lions_u10s_")
        assert await list_kept(tmp_path) == [name, f"{name}.json"]
        picture = (tmp_path / "photos" / name).read_bytes()
        assert b"SECRET" not in picture
        address = sign_photo(make_link_settings(), record.id, time.time())
        assert "Jack" not in address
        assert await fetch(club, address) == (200, picture)
        late = sign_photo(make_link_settings(), record.id, time.time() - 301)
        for wrong in (late, address.replace(record.id, "other"), f"/photos/{record.id}"):
            assert (await fetch(club, wrong))[0] == 404


@pytest.mark.slow  # starts a program or a server
async def test_the_conversation_is_kept_with_the_record(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await club.say_all(*TO_PHOTO)
        await club.send_photo(samples.photo(), "/upload")
        record = await load_record(tmp_path, club.session)
        while record.conversation is None:
            await asyncio.sleep(0.2)
            record = await load_record(tmp_path, club.session)
        said = [one["text"] for one in record.conversation if one["by"] == "parent"]
        assert said == [*TO_PHOTO, "(a photo)"]
        assert record.conversation[-1]["text"].startswith("All done: Jack")
        assert not any("routine_number" in one["text"] for one in record.conversation)
        database = await open_database(f"sqlite:///{tmp_path}/club.db")
        session = await database.read(lambda tx: load_session(tx, club.session))
        await database.close()
        assert session is not None
        assert session.finished_at is not None


@pytest.mark.slow  # starts a program or a server
async def test_a_rejected_photo_is_asked_for_again(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        rejected = await club.send_photo(samples.photo(pitch=True), "/upload")
        assert (rejected.status, rejected.json["error"]["kind"]) == (422, "invalid")
        assert "I can see a pitch, but no person" in rejected.json["error"]["message"]
        told = await club.follow_photo()
        assert (told["state"], told["routine_number"], "response" in told) == (
            *("rejected", 34),
            False,
        )
        bomb = await club.send_photo(samples.bomb(), "/upload")
        assert "64 million pixels" in bomb.json["error"]["message"]
        done = await club.send_photo(samples.photo(), "/upload-async")
        assert done.status == 202
        assert (await club.follow_photo())["state"] == "done"
        assert len(await list_kept(tmp_path)) == 2


@pytest.mark.slow  # starts a program or a server
async def test_a_chat_goes_on_while_a_photo_is_checked(tmp_path: Path) -> None:
    busy = asyncio.Event()
    loop = asyncio.get_running_loop()

    def reply(request: Any) -> object:
        if any(type(part).__name__ == "Media" for one in request.messages for part in one.parts):
            asyncio.run_coroutine_threadsafe(busy.wait(), loop).result(20)
        return choose_reply(request)

    async with serve_club(tmp_path, replies=reply) as club:
        await reach_step_in(tmp_path, club.session)
        assert (await club.send_photo(samples.photo())).status == 202
        waiting = await club.say("Is it fine?", message_id="m9")
        assert waiting.json["response"].startswith("I am still checking your photo")
        assert (waiting.json["status"], waiting.json["routine_number"]) == ("ok", 34)
        told = (await club.call("GET", f"/upload-status/{club.session}")).json
        assert told["complete"] is False
        assert "error" not in told
        same = await club.send_photo(samples.photo())
        other = await club.send_photo(samples.photo(2))
        assert same.json["job_id"] == told["job_id"] != other.json["job_id"]
        busy.set()
        done = await club.follow_photo()
        assert (done["state"], done["job_id"]) == ("done", other.json["job_id"])
        assert (await club.say("Is it fine?", message_id="m9")).json == waiting.json
        assert not (await club.say("Is it fine?")).json["response"].startswith("I am still")
        assert len(await list_kept(tmp_path)) == 2


async def test_without_a_verdict_the_parent_is_told_and_nothing_is_a_success(
    tmp_path: Path,
) -> None:
    def fail(request: Any) -> ErrorResponse | None:
        has_picture = any("image" in str(part)[:200] for part in request.messages[-1].parts)
        return ErrorResponse("invalid_request") if has_picture else None

    async with serve_club(tmp_path, faults=fail) as club:
        await reach_step_in(tmp_path, club.session)
        await club.send_photo(samples.photo())
        told: Any = {"message": ""}
        while "cannot check it right now" not in told["message"]:
            told = (await club.call("GET", f"/upload-status/{club.session}")).json
            assert told["state"] in ("queued", "running")
            await asyncio.sleep(0.05)
        said = await club.say("And now?")
        assert "cannot check it right now" in said.json["response"]
        assert (await load_record(tmp_path, club.session)).photo_file is None


async def test_an_upload_that_is_sent_twice_is_one_job(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        first, second = await asyncio.gather(
            club.send_photo(samples.photo(), message_id="p1"),
            club.send_photo(samples.photo(), message_id="p1"),
        )
        assert first.json["job_id"] == second.json["job_id"]
        assert (await club.follow_photo())["state"] == "done"
        third = await club.send_photo(samples.photo(), message_id="p1")
        assert (third.status, third.json["processing"]) == (202, False)
        other = await club.send_photo(samples.photo(3), message_id="p1")
        assert (other.status, other.json["error"]["kind"]) == (422, "invalid")
        assert len(await list_kept(tmp_path)) == 2


async def refuse(club: Served, form: object) -> tuple[int, str]:
    reply = await club.send_form(form)
    return reply.status, reply.json["error"]["message"]


@pytest.mark.slow  # starts a program or a server
async def test_what_is_no_photo_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with serve_club(tmp_path, photo_bytes="100000", body_bytes="110000") as club:
        early = await club.send_photo(samples.photo())
        assert (early.status, early.json["error"]["kind"]) == (409, "conflict")
        await reach_step_in(tmp_path, club.session)
        large = await club.send_photo(samples.photo() + bytes(100_000))
        assert (large.status, large.json["error"]["kind"]) == (413, "too_large")
        larger = await club.send_photo(bytes(400_000))
        assert larger.status == 413
        text = await club.send_photo(b"I am a photo, believe me. " * 10)
        assert (text.status, text.json["error"]["kind"]) == (415, "unsupported")
        assert (await club.send_photo(b"GIF89a")).status == 415
        assert (await club.send_photo(b"")).status == 422
        assert (await refuse(club, {"session_id": club.session}))[0] in (415, 422)
        missing = aiohttp.FormData()
        missing.add_field("session_id", club.session, content_type="text/plain")
        assert await refuse(club, missing) == (422, "file: choose a photo.")
        nobody = aiohttp.FormData()
        nobody.add_field("file", samples.photo(), filename="a.jpg")
        assert await refuse(club, nobody) == (422, "session_id: it is missing.")
        last = aiohttp.FormData()
        last.add_field("file", samples.photo(), filename="a.jpg")
        last.add_field("session_id", "another")
        assert (await refuse(club, last))[0] == 404
        head = {"Content-Type": "multipart/form-data; boundary=x"}
        head["Authorization"] = f"Bearer {club.token}"
        for body in (b"--x\r\nbroken", b"no form at all", b"--x--"):
            sent = club.http.post(club.address + "/upload_photo", data=body, headers=head)
            async with sent as response:
                assert response.status in (400, 422)
        assert (await club.call("POST", "/upload_photo", {})).status == 415
        assert list_files(tmp_path) == []
        told = await club.call("GET", f"/upload-status/{club.session}")
        assert (told.status, told.json["state"], told.json["complete"]) == (404, "unknown", False)


@pytest.mark.slow  # starts a program or a server
async def test_a_photo_belongs_to_its_session(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        job = (await club.send_photo(samples.photo())).json["job_id"]
        mine, token = club.session, club.token
        await club.begin()
        club.session = mine
        assert (await club.send_photo(samples.photo(1))).status == 404
        assert (await club.call("GET", f"/upload-status/{mine}")).status == 404
        other = await club.call("GET", f"/jobs/{job}")
        assert (other.status, other.json) == (
            404,
            (await club.call("GET", "/jobs/none")).json,
        )
        club.token = ""
        assert (await club.call("GET", f"/jobs/{job}")).status == 401
        assert (await club.send_photo(samples.photo(1))).status == 401
        club.token = token
        assert (await club.follow_photo())["state"] == "done"


@pytest.mark.slow  # starts a program or a server
async def test_a_player_of_last_season_ends_without_a_photo(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session, step=30, code=RETURNING)
        reply = await club.say("yes")
        assert reply.json["response"].count("All done") == 1
        record = await load_record(tmp_path, club.session)
        while record.conversation is None:
            await asyncio.sleep(0.2)
            record = await load_record(tmp_path, club.session)
        assert [one["text"] for one in record.conversation] == ["yes", reply.json["response"]]


async def test_a_disk_that_is_full_keeps_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_file: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            full = await club.send_photo(samples.photo(), message_id="p1")
        assert (full.status, full.json["error"]["retryable"]) == (503, True)
        assert "was not saved" in full.json["error"]["message"]
        assert "Retry-After" in full.headers
        assert list_files(tmp_path) == []
        assert (await club.call("GET", f"/upload-status/{club.session}")).status == 404
        assert (await club.send_photo(samples.photo(), message_id="p1")).status == 202
        assert (await club.follow_photo())["state"] == "done"


@pytest.mark.slow  # starts a program or a server
async def test_a_disk_that_is_read_only_while_a_photo_is_saved_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: Path, _target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        with monkeypatch.context() as patched:
            job = (await club.send_photo(samples.photo())).json["job_id"]
            patched.setattr(Path, "replace", fail)
            told: Any = {"message": ""}
            while "cannot check it right now" not in told["message"]:
                told = (await club.call("GET", f"/jobs/{job}")).json
                await asyncio.sleep(0.02)
            assert (told["state"], "progress" in told) == ("queued", False)
        again = await club.send_photo(samples.photo(9))
        assert again.status == 202
        assert (await club.follow_photo())["state"] == "done"
        assert len(await list_kept(tmp_path)) == 2


async def test_forgetting_a_conversation_removes_its_photo(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        await reach_step_in(tmp_path, club.session)
        assert (await club.send_photo(samples.photo(), "/upload")).status == 200
        assert len(await list_kept(tmp_path)) == 2
        cleared = await club.call("POST", "/clear", {"session_id": club.session})
        assert cleared.status == 204
        assert list_files(tmp_path) == []


@pytest.mark.slow  # starts a program or a server
async def test_the_office_sees_the_photo(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        record = await reach_step_in(tmp_path, club.session)
        await club.send_photo(samples.photo(), "/upload")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            office = Office(browser, club.address)
            await office.sign_in()
            page = await office.open(f"/office/registrations/{record}")
        address = html.unescape(page.text.partition('href="/photos/')[2].partition('"')[0])
        status, picture = await fetch(club, f"/photos/{address}")
        assert (status, picture[:3]) == (200, b"\xff\xd8\xff")
