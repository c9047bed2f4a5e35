"""Two processes of `holdfast serve` behind nginx or Caddy, configured as the page about deployment says."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest
from conformance.conftest import Serve
from conformance.deployed import (
    HOLDFAST,
    ServedAgents,
    make_certificate,
    read_page_file,
    run_proxy,
)
from tests.postgres_server import CannotRun, PostgresServer

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="OPENSSL IS NOT INSTALLED"),
    pytest.mark.timeout(300),
]

WORDS = " ".join(f"word-{number}" for number in range(250))
SCRIPT = f"""
from holdfast.testing.emulator import Pace

def replies(request):
    return {WORDS!r}

def faults(request):
    return (Pace(0.02),)
"""


class Deployed:
    """What a test knows of the service.

    Args:
        address: its address behind the proxy.
        key: a key.
        processes: its processes.
        folder: where the files of the proxy are.
    """

    def __init__(self, address: str, key: str, processes: list[ServedAgents], folder: Path) -> None:
        self.address = address
        self.key = key
        self.processes = processes
        self.folder = folder

    def call(self, path: str, body: object = None, **headers: str) -> HTTPResponse:
        """Send a request through the proxy."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers)
        request.add_header("Content-Type", "application/json")
        trust = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        answered: HTTPResponse = urllib.request.urlopen(request, timeout=60, context=trust)
        return answered

    def start_program(self, session: str) -> subprocess.Popen[str]:
        """Start the program that streams a turn."""
        command = [sys.executable, "-m", "conformance.streaming_program", self.address, self.key]
        return subprocess.Popen(
            [*command, "Hello?", session],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SSL_CERT_FILE": str(self.folder / "cert.pem")},
        )


@pytest.fixture(params=["nginx", "caddy"])
def deployed(
    request: pytest.FixtureRequest, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployed]:
    if not shutil.which(request.param):
        pytest.skip(f"{request.param.upper()} IS NOT INSTALLED")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (tmp_path / "script.py").write_text(SCRIPT)
    model = f'base_url = "{serve("--script", str(tmp_path / "script.py"))}"\n'
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "support.toml").write_text(model + read_page_file("support.toml"))
    try:
        database = PostgresServer()
    except CannotRun as error:
        pytest.skip(f"PostgreSQL: {error}")
    processes = list[ServedAgents]()
    try:
        journal = database.new_url()
        create = [HOLDFAST, "keys", "create", "--journal", journal, "--name", "ana"]
        key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
        arguments = ("--root-path", "/assistant", "--trusted-proxy", "127.0.0.1")
        for _ in range(2):
            processes.append(ServedAgents(agents, "--journal", journal, *arguments))
            processes[-1].start()
        make_certificate(tmp_path)
        with run_proxy(request.param, tmp_path, [one.port for one in processes]) as port:
            yield Deployed(f"https://127.0.0.1:{port}/assistant", key, processes, tmp_path)
    finally:
        for process in processes:
            process.stop()
        database.stop()


def test_a_stream_goes_on_while_each_process_restarts(deployed: Deployed) -> None:
    program = deployed.start_program("orders/42")
    assert program.stdout is not None
    assert program.stdout.readline() == "it streams\n"
    bearer = {"Authorization": f"Bearer {deployed.key}"}
    with deployed.call("/api/v1/sessions/orders%2F42/turns/1", **bearer) as reply:
        assert json.load(reply)["status"] == "running"  # so the proxy has not collected the stream
    for process in deployed.processes:
        process.stop()
        process.start()
    printed, _ = program.communicate(timeout=120)
    seen = json.loads(printed)
    assert seen["shown"] == WORDS
    assert seen["sequences"] == list(range(1, len(seen["sequences"]) + 1))
    with deployed.call("/api/v1/sessions/orders%2F42/turns/1", **bearer) as reply:
        ended = json.load(reply)
    assert (ended["status"], ended["text"]) == ("completed", WORDS)
    # The program came back: its first connection ended with a process.
    assert (
        "/assistant/api/v1/sessions/orders%2F42/events"
        in (deployed.folder / "requests").read_text()
    )


def test_only_the_proxy_says_what_the_client_asked_for(deployed: Deployed) -> None:
    body = {"key": deployed.key}
    own = deployed.address.removesuffix("/assistant")
    with deployed.call("/console/sign-in", body, **{"X-Forwarded-Proto": "http"}) as reply:
        cookie = reply.headers["Set-Cookie"]
    assert "; Path=/assistant;" in cookie
    assert "; Secure" in cookie
    with deployed.call("/console/sign-in", body, Origin=own) as reply:
        assert reply.status == 200
    foreign = {"Origin": "https://evil.example", "X-Forwarded-Host": "evil.example"}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        deployed.call("/console/sign-in", body, **foreign)
    with deployed.call("/console") as reply:  # follows the redirect
        assert reply.url == f"{deployed.address}/console/"


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_a_service_without_keys_refuses_what_the_proxy_forwards(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which(name):
        pytest.skip(f"{name.upper()} IS NOT INSTALLED")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "support.toml").write_text(read_page_file("support.toml"))
    journal = f"sqlite:///{tmp_path}/talk.db"
    make_certificate(tmp_path)
    process = ServedAgents(agents, "--journal", journal, "--root-path", "/assistant")
    process.start()
    try:
        with run_proxy(name, tmp_path, [process.port]) as port:
            local = f"http://127.0.0.1:{process.port}/api/v1/agents"
            with urllib.request.urlopen(local, timeout=30) as reply:
                assert reply.status == 200
            behind = Deployed(f"https://127.0.0.1:{port}/assistant", "", [process], tmp_path)
            with pytest.raises(urllib.error.HTTPError) as refused:
                behind.call("/api/v1/agents")
            with refused.value as reply:
                assert reply.code == 403
                assert json.load(reply)["kind"] == "keys_needed"
    finally:
        process.stop()
