"""`--journal talk.db` means the file talk.db, as in `holdfast keys` and `holdfast journal`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_serve import MODULE, serving

from holdfast.cli.main import main
from holdfast.testing import Emulator


def test_a_service_takes_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    arguments = ("my_agents:agent", "--port", "0", "--journal", "my talk%.db")
    with serving(*arguments, folder=tmp_path) as printed:
        assert "journal" in printed
    assert (tmp_path / "my talk%.db").is_file()


def test_one_question_takes_the_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Emulator(["Hello."]) as provider:
        options = ["--model", "openai:any", "--base-url", provider.base_url, "--journal", "talk.db"]
        assert main(["run", *options, "--session", "ana", "Hi"]) == 0
    assert (tmp_path / "talk.db").is_file()
