"""`holdfast serve`: agents from files, folders and modules, answered over HTTP until the process ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from holdfast.cli.main import main
from holdfast.cli.serve_targets import load_targets
from holdfast.core.errors import ConfigurationError

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
FILE = 'model = "openai:gpt-5.2"\nbase_url = "http://127.0.0.1:9/v1"\n'
MODULE = """
from holdfast import Agent
from holdfast.testing import ScriptedModel

agent = Agent(ScriptedModel("Hello."), name="greeter")
several = [agent, Agent(ScriptedModel("Bye."), name="leaver")]
number = 3
"""


@contextmanager
def serving(*arguments: str, folder: Path, log: IO[str] | None = None) -> Iterator[dict[str, str]]:
    """Run `holdfast serve`; give the lines that it prints, by their first word."""
    process = subprocess.Popen(
        [HOLDFAST, "serve", *arguments], stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
    )
    assert process.stdout is not None
    try:
        printed: dict[str, str] = {}
        while "console" not in printed:
            line = process.stdout.readline()
            assert line, "it ended"
            name, _, value = line.strip().partition(" ")
            printed[name] = value.strip()
        yield printed
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stdout.close()


def test_a_folder_of_files_is_served_with_a_journal_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "shop.toml").write_text(FILE)
    (folder / "desk.toml").write_text(f'name = "front desk"\n{FILE}')
    with serving("agents", "--port", "0", folder=tmp_path) as printed:
        assert printed["agents"] == "front desk, shop"
        assert printed["journal"] == str(folder / "holdfast.db")
        assert urllib.request.urlopen(printed["console"], timeout=10).status == 200
    assert (folder / "holdfast.db").exists()


def test_a_name_in_a_module_is_served(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    with serving("my_agents:several", "--port", "0", folder=tmp_path) as printed:
        assert printed["agents"] == "greeter, leaver"
        assert printed["journal"] == str(tmp_path / "holdfast.db")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("no_such_file.toml", "no_such_file.toml"),
        ("no_such_module_here:agent", "cannot be imported"),
        ("serve_names:other", "has no 'other'"),
        ("serve_names:number", "is no Agent"),
        ("serve_names", "there is no file"),
        (".", "has no .toml file"),
    ],
)
def test_a_wrong_target_is_named(
    target: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "serve_names.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=problem.replace(".", r"\.")):
        load_targets([target])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "TARGET: is missing"),
        (["x:y", "--demo"], "TARGET: is given with --demo"),
        (["x:y", "--port", "70000"], "--port: must be"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_an_address_that_others_reach_is_refused_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "served_here.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["serve", "served_here:agent", "--host", "0.0.0.0", "--journal", "memory:"]) == 2
    problem = capsys.readouterr().err
    assert "--host: '0.0.0.0' can be reached by other machines" in problem
    assert "holdfast keys create" in problem


def test_with_a_key_other_addresses_are_served_and_each_request_is_logged(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    journal = f"sqlite:///{tmp_path}/talk.db"
    create = [HOLDFAST, "keys", "create", "--journal", journal, "--name", "ci"]
    key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
    arguments = ("my_agents:agent", "--port", "0", "--journal", journal, "--host", "0.0.0.0")
    with (tmp_path / "log").open("w") as log, serving(*arguments, folder=tmp_path, log=log) as at:
        address = at["api"].replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{address}/agents?q=private", timeout=10)
        request = urllib.request.Request(
            f"{address}/agents", headers={"Authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == 200
            assert "server" not in reply.headers
    refused, answered = (tmp_path / "log").read_text().splitlines()
    assert " GET /api/v1/agents 401 " in refused
    assert " GET /api/v1/agents 200 " in answered
    assert key not in refused + answered


def test_a_port_in_use_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "served_there.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status = main(["serve", "served_there:agent", "--port", port, "--journal", "memory:"])
    assert status == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.timeout(120)
def test_the_demo_begins_with_runs_that_ended_in_all_ways(tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path}/demo.db"
    with serving("--demo", "--port", "0", "--journal", journal, folder=tmp_path) as printed:
        assert printed["agents"] == "support, research"
    listed = subprocess.run(
        [HOLDFAST, "sessions", "list", journal],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    for title in ("Broken lamp", "The whole archive", "Refund while the server died"):
        assert title in listed
