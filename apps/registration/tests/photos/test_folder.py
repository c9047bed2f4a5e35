"""Objects in a folder: whole or not there, also on a disk that is full, read-only or strange."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from registration.photos.folder import FolderStore
from registration.photos.object_store import (
    ObjectMissing,
    ObjectStoreError,
    ObjectStoreFull,
    ObjectStoreReadOnly,
)


def list_files(root: Path) -> list[str]:
    return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())


async def keep(store: FolderStore, data: bytes, stem: str = "one") -> str:
    async with store.create() as new:
        await new.write(data)
        name = await new.name("photos/j1", stem, ".jpg")
        await new.keep(name, {"team": "Lions"})
        return name


async def test_an_object_is_kept_with_its_metadata_and_removed_with_it(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    data = os.urandom(700_000)
    name = await keep(store, data)
    assert name == await keep(store, data)
    assert await store.read(name) == data
    assert await store.read_metadata(name) == {"team": "Lions"}
    with await store.open(name) as file:
        assert file.read() == data
    assert list_files(tmp_path) == [name, f"{name}.json"]
    await store.remove([name])
    await store.remove([name])
    assert list_files(tmp_path) == []
    with pytest.raises(ObjectMissing):
        await store.read(name)
    await store.close()


async def test_what_is_not_kept_leaves_no_trace(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    async with store.create() as new:
        await new.write(bytes(300_000))
        assert len(list_files(tmp_path)) == 1
    assert list_files(tmp_path) == []
    await store.close()


async def test_names_stay_within_the_folder(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "photos")
    (tmp_path / "secret").write_text("secret")
    for name in ("../secret", "a/../../secret", "/etc/passwd", "secret", "a//b", "a/\0", ".x/y"):
        with pytest.raises(ObjectMissing):
            await store.read(name)
    await store.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, ObjectStoreFull),
        (errno.EDQUOT, ObjectStoreFull),
        (errno.EROFS, ObjectStoreReadOnly),
        (errno.EIO, ObjectStoreError),
    ],
)
async def test_a_disk_that_fails_is_a_typed_error_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception]
) -> None:
    def fail(_file: Any) -> None:
        raise OSError(code, os.strerror(code), "Jack_Jones.jpg")

    store = FolderStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(error) as caught:
            await keep(store, b"photo", "Jack_Jones")
    assert "Jack" not in f"{caught.value} {caught.value!r}"
    assert caught.value.__suppress_context__
    assert list_files(tmp_path) == []
    assert await store.read(await keep(store, b"photo")) == b"photo"
    await store.close()


async def test_a_folder_that_is_a_file_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "photos").write_text("no folder")
    store = FolderStore(tmp_path / "photos")
    with pytest.raises(ObjectStoreError):
        await keep(store, b"photo")
    await store.close()


async def test_what_a_dead_process_left_is_removed_after_a_while(tmp_path: Path) -> None:
    store, now = FolderStore(tmp_path), time.time()
    name = await keep(store, b"photo")
    store.unfinished.mkdir(exist_ok=True)
    (store.unfinished / "left").write_bytes(b"half")
    assert await store.remove_unfinished(now - 600) == 0
    assert await store.list_older("photos", now - 600) == ()
    assert await store.remove_unfinished(now + 600) == 1
    assert await store.list_older("photos/j1", now + 600) == (name,)
    assert await store.list_older("uploads", now + 600) == ()
    await store.close()
