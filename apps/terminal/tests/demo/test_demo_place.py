from __future__ import annotations

from pathlib import Path

import pytest

from adh.demo.demo_place import open_demo
from adh.storage.places import find_places
from adh.storage.trust import TrustedFolders

ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "TERM": "xterm",
    "HOME": "/nowhere",
    "XDG_DATA_HOME": "/nowhere/data",
    "OPENAI_API_KEY": "sk-of-the-person",
}


def test_the_demo_has_a_home_of_its_own_and_no_key_of_the_person() -> None:
    with open_demo(ENVIRON) as demo:
        places = find_places(demo.environ, demo.project)
        assert places.data.is_relative_to(demo.project.parent)
        assert places.config.is_relative_to(demo.project.parent)
        assert "sk-of-the-person" not in demo.environ.values()
        assert demo.environ["TERM"] == "xterm"
        assert TrustedFolders(places.trust_file).is_trusted(demo.project)
        assert demo.base_url.startswith("http://127.0.0.1:")
        assert (demo.project / "test_prices.py").is_file()
    assert not demo.project.parent.exists()


def test_a_temporary_folder_can_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_demo(ENVIRON, keep=True) as demo:
        pass
    assert (demo.project / "prices.py").is_file()


def test_a_folder_of_a_demo_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with open_demo(ENVIRON, folder) as demo:
        (demo.project / "prices.py").write_text("changed")
    with open_demo(ENVIRON, folder) as demo:
        assert (demo.project / "prices.py").read_text() == "changed"


def test_a_folder_of_somebody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with (
        pytest.raises(FileExistsError, match="not empty"),
        open_demo(ENVIRON, tmp_path),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
