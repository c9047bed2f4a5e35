from pathlib import Path

import pytest

from adh.storage.storage_errors import StorageError
from adh.storage.trust import TrustedFolders


def test_a_folder_is_trusted_once_it_was_and_by_every_path_to_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "link").symlink_to("project")
    trusted = TrustedFolders(tmp_path / "data" / "trusted.json")
    assert not trusted.is_trusted(project)
    trusted.trust(tmp_path / "link")
    assert trusted.is_trusted(project)
    assert TrustedFolders(tmp_path / "data" / "trusted.json").is_trusted(tmp_path / "link")
    trusted.forget(project)
    assert not trusted.is_trusted(project)


def test_a_folder_that_was_moved_or_replaced_is_not_trusted(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    trusted = TrustedFolders(tmp_path / "trusted.json")
    trusted.trust(project)
    project.rename(tmp_path / "moved")
    project.mkdir()
    assert not trusted.is_trusted(project)
    assert not trusted.is_trusted(tmp_path / "moved")
    assert not trusted.is_trusted(tmp_path / "missing")


def test_a_folder_inside_a_trusted_one_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    trusted = TrustedFolders(tmp_path / "data" / "trusted.json")
    trusted.trust(tmp_path)
    assert not trusted.is_trusted(tmp_path / "inner")


def test_a_damaged_list_is_told_and_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "trusted.json"
    file.write_text("{")
    trusted = TrustedFolders(file)
    for use in (trusted.trust, trusted.is_trusted):
        with pytest.raises(StorageError, match="not a list of trusted folders"):
            use(tmp_path)
    assert file.read_text() == "{"


def test_a_folder_that_does_not_exist_cannot_be_trusted(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        TrustedFolders(tmp_path / "trusted.json").trust(tmp_path / "missing")
