"""Runs the terminal client on the lines of the standard input.

This module must never write what was typed anywhere but to the service.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from threading import Thread

import aiohttp

from registration.terminal.conversation import TerminalConversation
from registration.terminal.service_client import ServiceClient


def run_terminal(address: str) -> int:
    """Talk with the service until the input ends; return the exit status.

    Args:
        address: of the service.
    """
    try:
        asyncio.run(_talk(address))
    except KeyboardInterrupt:
        return 130
    return 0


async def _talk(address: str) -> None:
    async with aiohttp.ClientSession() as http:
        await TerminalConversation(ServiceClient(http, address), _show).run(_read_lines())


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _read_lines() -> AsyncIterator[str]:
    """Yield the lines. The thread that waits for one does not hold the end of the process up."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        line = "more"
        while line:
            line = sys.stdin.readline()
            loop.call_soon_threadsafe(lines.put_nowait, line)

    Thread(target=read, daemon=True, name="registration-input").start()
    while True:
        if sys.stdin.isatty():
            sys.stdout.write("> ")
            sys.stdout.flush()
        line = await lines.get()
        if not line:
            return
        yield line
