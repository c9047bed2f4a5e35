"""Runs the terminal client on the lines of the standard input.

This module must never write what was typed anywhere but to the service.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
from collections.abc import AsyncIterator
from threading import Thread

import aiohttp

from registration.terminal.conversation import TerminalConversation
from registration.terminal.service_client import ServiceClient

_WIDEST = 100
"""Columns of the longest line: a longer one is hard to read."""


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


def _show(text: str) -> None:
    if sys.stdout.isatty():
        text = wrap_words(text, min(shutil.get_terminal_size().columns, _WIDEST))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def wrap_words(text: str, width: int) -> str:
    r"""Return a text whose lines end between words; a word that is longer, such as a link, stays whole.

    >>> print(wrap_words("- Your address: 12 Mill Lane\n\nIs this right?", 20))
    - Your address: 12
      Mill Lane
    <BLANKLINE>
    Is this right?
    """
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=not line.startswith(" "),
        )
        for line in text.split("\n")
    )


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
