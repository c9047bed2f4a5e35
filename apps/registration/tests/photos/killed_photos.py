"""Kills a process with SIGKILL at each instant of a photo, and lets another one go on.

Usage: killed_photos.py FOLDER STEP [URL...]

Each process has a database of its own: the next of the addresses, or a SQLite file if none is given.

An instant is before and after each use of the database, the object store, the converter and the model,
and in the middle of a conversion. Each process is a fork, so that it begins within milliseconds. The
program prints one line of JSON: how many instants there were, how many were tried, and what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Self

from apps.registration.tests.photos import samples
from apps.registration.tests.photos.stages import reach_step

from registration.flow.conversations import read_conversation
from registration.flow.photo_verdicts import awaits_photo, take_verdict
from registration.outbox.kinds import CHECK_PHOTO
from registration.outbox.worker import Worker
from registration.photos.checking import (
    GRACE,
    PhotoDesk,
    Verdict,
    make_photo_handler,
    remove_leftovers,
)
from registration.photos.converter import Converter
from registration.photos.folder import FolderStore
from registration.photos.naming import UPLOADS, make_job_id
from registration.photos.submitting import RECEIVED, PhotoOwner, submit_upload
from registration.store import Transaction, open_database
from registration.store.photo_jobs import NewPhoto, find_photo_job
from registration.store.registrations import find_of_session
from registration.store.sessions import create_session, load_session

SESSION = "s1"
JOB = make_job_id(SESSION, "m1")
LEASE = 15.0


class Instants:
    """Counts the instants, and kills the process at one of them."""

    def __init__(self, kill_at: int | None) -> None:
        self.count = 0
        self._kill_at = kill_at

    def pass_one(self) -> None:
        self.count += 1
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*args: Any, **named: Any) -> Any:
            self.pass_one()
            result = await call(*args, **named)
            self.pass_one()
            return result

        return wrapped


class Watched:
    """An object whose methods have instants before and after them."""

    def __init__(self, inner: Any, instants: Instants, *names: str) -> None:
        self._inner = inner
        for name in names:
            setattr(self, name, instants.wrap(getattr(inner, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class WatchedStore(Watched):
    """An object store with instants, also within what it writes."""

    def __init__(self, inner: FolderStore, instants: Instants) -> None:
        super().__init__(inner, instants, "open", "remove")
        self._instants = instants

    def create(self) -> Any:
        return WatchedFile(self._inner.create(), self._instants, "write", "name", "keep")


class WatchedFile(Watched):
    """A new object with instants."""

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._inner.__aexit__(*error)


class WatchedConverter(Watched):
    """A converter with an instant in the middle of its work."""

    def __init__(self, instants: Instants) -> None:
        super().__init__(Converter(), instants)
        self._instants = instants

    async def convert(self, file: Any) -> Any:
        self._instants.pass_one()
        task = asyncio.create_task(self._inner.convert(file))
        await asyncio.sleep(0.08)
        self._instants.pass_one()
        result = await task
        self._instants.pass_one()
        return result


class Scene:
    """One process that takes a photo and checks it."""

    def __init__(self, folder: Path, instants: Instants, ahead: float = 0.0) -> None:
        self.folder = folder
        self.instants = instants
        self.now = lambda: time.time() + ahead

    async def open(self) -> None:
        opened = await open_database((self.folder / "url").read_text())
        self.database: Any = Watched(opened, self.instants, "transact", "read")
        self.objects: Any = WatchedStore(FolderStore(self.folder / "photos"), self.instants)

    async def send_photo(self) -> None:
        """Do what the route does, and as the page does it: the same message until it is answered."""
        async with self.objects.create() as new:
            await new.write(samples.photo_with_place())
            name = await new.name(UPLOADS, os.urandom(8).hex(), ".jpeg")
            await new.keep(name, {})
            photo = NewPhoto(JOB, SESSION, None, new.kept.hash, name, RECEIVED)

        def find_owner(tx: Transaction) -> PhotoOwner | None:
            progress = read_conversation(tx, SESSION).progress
            if progress is None or not awaits_photo(progress):
                return None
            return PhotoOwner(progress.registration)

        submitted = await self.database.transact(
            lambda tx: submit_upload(tx, photo, find_owner, self.now())
        )
        await self.objects.remove(submitted.unused_files)

    async def check_photo(self) -> None:
        async def judge(_session: str, _picture: bytes) -> Verdict:
            return Verdict(acceptable=True)

        desk = PhotoDesk(
            database=self.database,
            objects=self.objects,
            converter=WatchedConverter(self.instants),  # type: ignore[arg-type]
            judge=self.instants.wrap(judge),
            take_verdict=take_verdict,
            now=self.now,
        )
        handlers = {CHECK_PHOTO: make_photo_handler(desk)}
        await Worker(self.database, handlers, self.now, lease=LEASE).drain()

    async def close(self) -> None:
        await self.objects.close()
        await self.database.close()


async def prepare(folder: Path) -> None:
    scene = Scene(folder, Instants(None))
    await scene.open()
    await scene.database.transact(
        lambda tx: create_session(tx, SESSION, "token", "universal", time.time())
    )
    await reach_step(scene.database, SESSION)
    await scene.close()


async def play(folder: Path, instants: Instants) -> None:
    scene = Scene(folder, instants)
    await scene.open()
    await scene.send_photo()
    await scene.check_photo()
    await scene.close()


async def go_on(folder: Path) -> None:
    """Go on after the lease of the killed process, and check what came of it."""
    scene = Scene(folder, Instants(None), ahead=LEASE + 1)
    await scene.open()
    database = scene.database
    before = await database.read(lambda tx: find_photo_job(tx, JOB))
    assert before is None or before.state in ("queued", "running", "done"), before.state
    await scene.send_photo()
    await scene.check_photo()
    await remove_leftovers(database, scene.objects, time.time() + GRACE + 60)
    photo = await database.read(lambda tx: find_photo_job(tx, JOB))
    record = await database.read(lambda tx: find_of_session(tx, SESSION))
    session = await database.read(lambda tx: load_session(tx, SESSION))
    progress = (await database.read(lambda tx: read_conversation(tx, SESSION))).progress
    await scene.close()
    root = folder / "photos"
    files = sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())
    assert photo.state == "done", photo.state
    assert photo.stored_file == record.photo_file
    assert files == [record.photo_file, f"{record.photo_file}.json"], len(files)
    assert (progress.step, session.finished_at is not None) == (35, True)


def fork(work: Callable[[], Awaitable[None]]) -> int:
    """Do the work in a process of its own; return its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(work())  # type: ignore[arg-type]
            status = 0
        except BaseException:  # noqa: BLE001 -- the process ends here
            traceback.print_exc()
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(waited)


def main(folder: Path, step: int, urls: Iterator[str]) -> None:
    tried, wrong = 0, []
    number = 1
    while True:
        place = folder / str(number)
        place.mkdir(parents=True)
        (place / "url").write_text(next(urls, f"sqlite:///{place}/club.db"))
        assert fork(lambda at=place: prepare(at)) == 0  # type: ignore[misc]
        killed = fork(lambda at=place, n=number: play(at, Instants(n)))  # type: ignore[misc]
        if killed == 0:
            break
        tried += 1
        if killed != -signal.SIGKILL or fork(lambda at=place: go_on(at)) != 0:  # type: ignore[misc]
            wrong.append(number)
        number += step
    print(json.dumps({"tried": tried, "wrong": wrong, "instants": number - 1}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), iter(sys.argv[3:]))
