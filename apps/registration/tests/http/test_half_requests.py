"""Connections whose requests never come: they are closed, and parents are answered meanwhile."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from apps.registration.tests.flow.chat_club import KEYS

from holdfast.server import ConnectionBounds, make_server_config
from registration.emulators.emulated_providers import run_emulators
from registration.emulators.serving import serve
from registration.http.app import create_app
from registration.settings import read_settings

_HALF = b"POST /chat HTTP/1.1\r\nHost: local"


@pytest.mark.slow  # starts a program or a server
async def test_half_sent_heads_keep_nobody_out(tmp_path: Path) -> None:
    async with run_emulators(tmp_path / "providers") as providers:
        given = {
            "REGISTRATION_DATABASE": f"sqlite:///{tmp_path}/club.db",
            "REGISTRATION_JOURNAL": f"sqlite:///{tmp_path}/talk.db",
            "REGISTRATION_PHOTO_FOLDER": str(tmp_path / "photos"),
            "REGISTRATION_MODEL_KEY": "key",
        }
        app = create_app(read_settings({**providers.environment, **KEYS, **given}))
        bounds = ConnectionBounds(most=20, head_seconds=0.5)
        async with serve(app, 0, make_server_config(app, bounds=bounds).http) as address:
            port = int(address.rpartition(":")[2])
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            for _, writer in held:
                writer.write(_HALF)
            async with (
                aiohttp.ClientSession() as http,
                http.post(f"{address}/sessions", json={}) as reply,
            ):
                assert reply.status == 201
            assert bounds.open <= 20
            async with asyncio.timeout(60):
                last = await held[-1][0].read()
            assert last.startswith(b"HTTP/1.1 408 ")
            for _, writer in held:
                writer.close()


@pytest.mark.slow  # starts a process
async def test_the_command_bounds_its_connections(tmp_path: Path) -> None:
    code = (
        "import uvicorn, registration.serve as serve\n"
        "uvicorn.run = lambda app, **given: print(given['http'].func.__name__)\n"
        "serve.run_server({}, '127.0.0.1', 0)\n"
    )
    async with run_emulators(tmp_path / "providers") as providers:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code),
            stdout=asyncio.subprocess.PIPE,
            env={**providers.environment, **KEYS},
        )
        printed, _ = await process.communicate()
    assert printed in (b"BoundedProtocol\n", b"BoundedHttpToolsProtocol\n")
