"""The demo as somebody starts it: it serves, it ends at once, and a second start goes on."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from apps.registration.tests.commands.running import Parent, start_demo

pytestmark = pytest.mark.slow  # plays the demo in processes


async def test_a_second_start_in_the_same_folder_goes_on(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as http:
        async with start_demo(tmp_path) as first:
            parent = Parent(http, first.address)
            await parent.begin()
            assert await parent.say(first.find_code()) == 1
            assert await parent.say("Sarah Jones") == 2
            assert await first.end() == 0
        async with start_demo(tmp_path) as second:
            parent.address = second.address
            assert await parent.say("Jack Jones") == 3
            second.process.kill()
            await second.process.wait()
        async with start_demo(tmp_path) as third:
            parent.address = third.address
            await asyncio.sleep(0)
            assert await parent.say("14-03-2017") == 4
            assert await third.end(signal.SIGTERM) == 0


async def test_a_free_port_is_printed(tmp_path: Path) -> None:
    async with (
        start_demo(tmp_path, "--port", "0") as demo,
        aiohttp.ClientSession() as http,
    ):
        address = demo.text.split()[3].rstrip("/")
        parent = Parent(http, address)
        await parent.begin()
        assert await parent.say(demo.find_code()) == 1


def test_a_port_in_use_is_told_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-m", "registration", "demo", "--port", port]
        ended = subprocess.run(
            [*command, "--folder", str(tmp_path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.returncode == 1
    assert "Address already in use" in ended.stderr
    assert "--port" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_several_processes_need_a_database_for_several() -> None:
    command = [sys.executable, "-m", "registration", "demo", "--processes", "2"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "--journal" in ended.stderr


async def test_two_processes_serve_one_journal(tmp_path: Path, url: str) -> None:
    async with start_demo(tmp_path, "--journal", url, "--processes", "2") as demo:
        texts = (demo.find_code(), "Sarah Jones", "Jack Jones", "14-03-2017")
        # Each message comes by a connection of its own, to whichever process is free.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http:
            parents = [Parent(http, demo.address) for _ in range(4)]
            for parent in parents:
                await parent.begin()
            for step, text in enumerate(texts, start=1):
                steps = await asyncio.gather(*(parent.say(text) for parent in parents))
                assert steps == [step] * 4
        assert await demo.end() == 0
