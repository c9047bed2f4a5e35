"""Raw servers, a transport, and an untrusted certificate."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.transport.raw import RawServer, Serve

from holdfast.transport.http import HttpTransport


@pytest.fixture
async def raw() -> AsyncIterator[Callable[[Serve], Awaitable[RawServer]]]:
    running: list[RawServer] = []

    async def start(serve: Serve) -> RawServer:
        server = RawServer(serve)
        await server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        await server.stop()


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    made = HttpTransport()
    yield made
    await made.aclose()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a fresh key and its own signature, for localhost and provider.test."""
    if shutil.which("openssl") is None:
        pytest.skip("NO openssl COMMAND: the TLS tests did not run")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subprocess.run(
        [
            *command.split(),
            *("-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)),
            *("-addext", "subjectAltName=DNS:localhost,DNS:provider.test,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def client_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certificate.parent / "cert.pem")
    return context
