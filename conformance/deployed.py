"""The files of the page about deployment, and processes that run as it says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.free_ports import free_port

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "deploy-a-service.md"
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))

_FILE = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


def read_page_file(name: str) -> str:
    """Return a file that the page shows."""
    return {found["name"]: found["text"] for found in _FILE.finditer(PAGE.read_text())}[name]


class ServedAgents:
    """A process of `holdfast serve` that can be restarted.

    Args:
        folder: where its agents are.
        arguments: the other arguments, without the port.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self._command = [HOLDFAST, "serve", str(folder), "--port", str(self.port), *arguments]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        while not self._process.stdout.readline().startswith("console"):
            assert self._process.poll() is None, "it ended"

    def stop(self) -> None:
        """End it as a service manager does."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=60)
            self._process = None


def run_proxy(name: str, folder: Path, ports: list[int]) -> AbstractContextManager[int]:
    """Run nginx or Caddy with the configuration of the page; give its port.

    Args:
        name: "nginx" or "caddy".
        folder: where its files are, with `cert.pem` and `key.pem`; it writes `requests` there.
        ports: the ports of the processes behind it.
    """
    port = free_port()
    write = {"nginx": _write_nginx_files, "caddy": _write_caddy_files}[name]
    return _run(write(folder, port, ports), folder, port)


def _write_nginx_files(folder: Path, port: int, ports: list[int]) -> list[str]:
    """Write the configuration; return the command."""
    site = read_page_file("nginx.conf").replace("/etc/holdfast/tls", str(folder))
    site = site.replace("listen 443", f"listen 127.0.0.1:{port}")
    for number, behind in enumerate(ports, start=1):
        site = site.replace(f"server 127.0.0.1:800{number}", f"server 127.0.0.1:{behind}")
    site = re.sub(r"^ *server 127\.0\.0\.1:800\d .*\n", "", site, flags=re.MULTILINE)
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; user root; pid {folder}/pid; error_log {folder}/errors; events {{}}\n"
        f"http {{ access_log {folder}/requests;\n{places}{site} }}\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]


def _write_caddy_files(folder: Path, port: int, ports: list[int]) -> list[str]:
    """Write the configuration; return the command."""
    site = read_page_file("Caddyfile").replace("/etc/holdfast/tls", str(folder))
    log = f"\tlog {{\n\t\toutput file {folder}/requests\n\t}}"
    site = site.replace("agents.example {", f"https://127.0.0.1:{port} {{\n{log}")
    behind = " ".join(f"127.0.0.1:{one}" for one in ports)
    site = re.sub(r"reverse_proxy .* {", f"reverse_proxy {behind} {{", site)
    own = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(own + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@contextmanager
def _run(command: list[str], folder: Path, port: int) -> Iterator[int]:
    places = {"XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "proxy.log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env={**os.environ, **places})
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 90
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


def make_certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1; return it."""
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*request, *names, *files], check=True, capture_output=True)
    return folder / "cert.pem"
