"""`holdfast serve`: agents from files, folders and modules, answered over HTTP until the process ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import IO

import pytest

from holdfast.cli.main import main
from holdfast.cli.serve_targets import load_targets
from holdfast.cli.serving_process import listen
from holdfast.core.errors import ConfigurationError
from holdfast.testing import Emulator

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


def call_json(
    method: str, url: str, body: object = None, headers: dict[str, str] | None = None
) -> HTTPResponse:
    """Send a request, with a JSON body if there is one."""
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, given, method=method)
    answered: HTTPResponse = urllib.request.urlopen(request, timeout=30)
    return answered


@pytest.mark.slow  # starts a program or a server
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


@pytest.mark.slow  # starts a program or a server
def test_a_name_in_a_module_is_served(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    with serving("my_agents:several", "--port", "0", folder=tmp_path) as printed:
        assert printed["agents"] == "greeter, leaver"
        assert printed["journal"] == str(tmp_path / "holdfast.db")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("no_such_file.toml", "no_such_file.toml"),
        ("my_agents.py", "Name the agent in it, such as my_agents:agent"),
        ("no_such_module_here:agent", "cannot be imported"),
        ("serve_names:other", "has no 'other'"),
        ("serve_names:number", "is not an Agent"),
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


@pytest.mark.slow  # starts a service as a process
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


@pytest.mark.slow  # starts a service as a process
def test_keys_that_are_made_and_revoked_count_soon(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    journal = f"sqlite:///{tmp_path}/talk.db"

    def keys(word: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [HOLDFAST, "keys", word, "--journal", journal, *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=True)

    def ask(key: str) -> int:
        headers = {"Authorization": f"Bearer {key}"}
        try:
            request = urllib.request.Request(f"{address}/agents", headers=headers)
            return int(urllib.request.urlopen(request, timeout=10).status)
        except urllib.error.HTTPError as error:
            return error.code

    def wait_for(status: int, key: str) -> float:
        begun = time.monotonic()
        while ask(key) != status:
            assert time.monotonic() - begun < 30, "five seconds, and more on a busy machine"
            time.sleep(0.1)
        return time.monotonic() - begun

    with serving("my_agents:agent", "--port", "0", "--journal", journal, folder=tmp_path) as at:
        address = at["api"]
        assert ask("hf_" + "x" * 43) == 200  # there are no keys yet
        made = keys("create", "--name", "ci")
        key, key_id = made.stdout.strip(), made.stderr.split()[0]
        wait_for(401, "hf_" + "x" * 43)
        assert ask(key) == 200
        newer = keys("rotate", key_id, "--grace", "1h").stdout.strip()
        assert (ask(key), ask(newer)) == (200, 200)
        keys("revoke", key_id)
        wait_for(401, key)
        assert ask(newer) == 200


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


@pytest.mark.slow  # starts a service as a process
@pytest.mark.timeout(120)
def test_the_demo_begins_with_runs_that_ended_in_all_ways(tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path}/demo.db"
    with serving("--demo", "--port", "0", "--journal", journal, folder=tmp_path) as printed:
        assert printed["agents"] == "support, research"
        with urllib.request.urlopen(f"{printed['api']}/sessions?limit=50", timeout=30) as answer:
            sessions = json.load(answer)["sessions"]
    found = {one["turn_status"] for one in sessions}
    assert {"completed", "failed", "limit", "cancelled", "waiting"} <= found
    interrupted = {one["title"] for one in sessions if one["title"].endswith("the server died")}
    assert len(interrupted) == 2
    cancelled = next(one for one in sessions if one["turn_status"] == "cancelled")
    assert not cancelled["in_doubt"]


@pytest.mark.slow  # starts a service as a process
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_service_is_shown_below_a_path(tmp_path: Path, *, is_removed: bool) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    arguments = ("my_agents:agent", "--port", "0", "--journal", "memory:", "--root-path", "/a/b")
    with serving(*arguments, folder=tmp_path) as printed:
        assert printed["api"].endswith("/a/b/api/v1")
        base = printed["api"].removesuffix("/a/b/api/v1") + ("" if is_removed else "/a/b")
        body = {"agent": "greeter", "message": "Hi", "session": "x/y", "wait": 10}
        with call_json("POST", f"{base}/api/v1/turns", body) as reply:
            assert reply.headers["Location"] == "/a/b/api/v1/sessions/x%2Fy/turns/1"
        with call_json("GET", f"{base}/api/v1/sessions/x%2Fy/turns/1") as reply:
            assert json.load(reply)["status"] == "completed"
        with call_json("GET", f"{base}/console") as reply:  # follows the redirect
            assert reply.url == f"{printed['api'].removesuffix('/api/v1')}/console/"
        for path in ("/health", "/ready"):
            assert call_json("GET", f"{base}{path}").status == 200


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--root-path", "agents"], "--root-path: 'agents' is not a path"),
        (["--root-path", "/agents/"], "--root-path: '/agents/' is not a path"),
        (["--root-path", "/a/../b"], "--root-path: '/a/../b' is not a path"),
        (["--root-path", "/api/x"], "--root-path: '/api/x' begins like a path of the service"),
        (["--trusted-proxy", "nginx"], "--trusted-proxy: 'nginx' is not an address"),
        (["--allowed-host", "http://x"], "--allowed-host: 'http://x' is not the name of a host"),
        (["--grace", "-1"], "--grace: must be"),
        (["--drain", "-1"], "--drain: must be"),
    ],
)
def test_a_wrong_option_of_a_deployment_is_named(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "served_so.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["serve", "served_so:agent", "--journal", "memory:", *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.slow  # starts a service as a process
def test_only_the_headers_of_named_proxies_count_and_names_can_be_limited(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    journal = f"sqlite:///{tmp_path}/talk.db"
    create = [HOLDFAST, "keys", "create", "--journal", journal, "--name", "ana"]
    key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
    arguments = ("my_agents:agent", "--port", "0", "--journal", journal)
    headers = {
        "Host": "agents.example",
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Proto": "https",
    }

    def sign_in(*options: str) -> tuple[str, str]:
        """Return the cookie of a sign-in, and the line of the log about it."""
        log_file = tmp_path / f"log-{len(options)}"
        with (
            log_file.open("w") as log,
            serving(*arguments, *options, folder=tmp_path, log=log) as printed,
            call_json("POST", f"{printed['console']}/sign-in", {"key": key}, headers) as reply,
        ):
            cookie = reply.headers["Set-Cookie"]
            if options:
                with pytest.raises(urllib.error.HTTPError, match="400"):
                    call_json("GET", f"{printed['api']}/agents", None, {"Host": "other.example"})
        return cookie, log_file.read_text().splitlines()[0]

    cookie, line = sign_in()
    assert "Secure" not in cookie
    assert "ms 127.0.0.1 " in line
    cookie, line = sign_in("--trusted-proxy", "127.0.0.1", "--allowed-host", "agents.example")
    assert "; Secure" in cookie
    assert "ms 203.0.113.7 " in line


@pytest.mark.slow  # starts a service as a process
def test_the_service_manager_is_told_when_the_service_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_agents.py").write_text(MODULE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with serving("my_agents:agent", "--port", "0", folder=tmp_path):
            assert manager.recv(100) == b"READY=1"
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with serving("my_agents:agent", "--port", "0", folder=tmp_path):
        pass  # it serves all the same


@pytest.mark.slow  # starts a program or a server
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


def test_a_service_without_uvloop_answers_at_once() -> None:
    # asyncio sends small pieces at once only for sockets that name their protocol.
    with (
        closing(listen("--port", "127.0.0.1", 0)) as listener,
        closing(socket.create_connection(listener.getsockname())),
    ):
        accepted, _ = listener.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
