"""A conversation in a terminal: lines of the standard input in, lines out.

This module must never send a message under two ids: a repetition is the same message. It must never write a typed
line anywhere but to the service.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import textwrap
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from pathlib import Path
from threading import Thread
from typing import Any, Final

import aiohttp

from registration.terminal.service_client import Refused, ServiceClient, Unreachable

HELLO: Final = """\
Hello! I register your child with the club, step by step; it takes about ten minutes.
Please type the registration code that your team's manager or coach gave you.
/help shows what else you can do."""
HELP: Final = """\
/saved          what is saved so far
/change LABEL   change one of these, such as: /change Your mobile number
/back           change your last answer; "never mind" keeps it
/photo PATH     send the photo, when I ask for it
/forget         delete this conversation
/quit           leave"""
AWAY: Final = "I cannot reach the club at the moment. What you wrote is safe, and I keep trying."
TRY_AGAIN: Final = "/again sends it again."
NOTHING_SAVED: Final = "Nothing is saved yet."
FORGOTTEN: Final = "The conversation is forgotten. If you like, we can start afresh."
_PROGRESS: Final = {
    "stored": "Your photo has arrived.",
    "converting": "I am preparing your photo.",
    "checking": "I am looking at your photo.",
    "saving": "Your photo is fine. I am saving it.",
}
_POLLS: Final = 300
_POLL_SECONDS: Final = 2.0

Sleep = Callable[[float], Awaitable[object]]


class TerminalConversation:
    """Talks with the service until the lines end.

    Args:
        service: the service.
        show: shows a line.
        sleep: waits some seconds.
    """

    def __init__(
        self,
        service: ServiceClient,
        show: Callable[[str], None],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._service = service
        self._show = show
        self._sleep = sleep
        self._pending: tuple[str, str] | None = None

    async def run(self, lines: AsyncIterable[str]) -> None:
        """Answer lines until they end, or until one is `/quit`."""
        self._show(HELLO)
        async for line in lines:
            text = line.strip()
            if text == "/quit":
                return
            if text:
                await self._take(text)

    async def _take(self, text: str) -> None:
        try:
            if text.startswith("/"):
                await self._perform(*text.partition(" ")[::2])
            else:
                await self._say(text)
        except Refused as problem:
            self._show(problem.message)
            if problem.is_retryable and self._pending is not None:
                self._show(TRY_AGAIN)
        except Unreachable:
            self._show(AWAY)

    async def _perform(self, command: str, rest: str) -> None:
        commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/saved": self._show_saved,
            "/change": self._change,
            "/back": self._go_back,
            "/photo": self._send_photo,
            "/forget": self._forget,
            "/again": self._send_again,
        }
        perform = commands.get(command)
        if perform is None:
            self._show(HELP)
        elif self._service.has_session:
            await perform(rest.strip())
        else:
            self._show(NOTHING_SAVED)

    async def _say(self, text: str) -> None:
        self._pending = (text, secrets.token_hex(16))
        await self._deliver()

    async def _send_again(self, _rest: str) -> None:
        if self._pending is not None:
            await self._deliver()

    async def _deliver(self) -> None:
        """Send the message until it is answered. Raises Refused."""
        assert self._pending is not None  # noqa: S101  # REASON: both callers look
        answer = await self._converse(*self._pending)
        self._pending = None
        self._show(str(answer["response"]))
        await self._show_progress()

    async def _show_progress(self) -> None:
        try:
            shown = await self._service.show()
        except Unreachable:
            return  # the answer is there; how far it is comes with the next one
        if "of" in shown:
            self._show(f"[step {shown['step']} of {shown['of']}]")

    async def _converse(self, text: str, message_id: str) -> dict[str, Any]:
        turn, position, attempt = "", "", 0
        while True:
            seconds = 0.0
            try:
                turn = turn or await self._service.post(text, message_id)
                async for event in self._service.follow(turn, position):
                    position, attempt = event.position or position, 0
                    if event.name == "answer":
                        return event.data
                    if event.name == "error":
                        raise Refused(503, event.data["error"])
                    if event.name == "status":
                        self._show(f"({event.data['text']})")
            except Unreachable:
                if not attempt:
                    self._show(AWAY)
            except Refused as problem:
                if problem.kind not in {"busy", "too_many_requests"}:
                    raise
                seconds = problem.seconds
            await self._sleep(max(seconds, min(2.0**attempt, 30.0)))
            attempt += 1

    async def _show_saved(self, _rest: str) -> None:
        rows = (await self._service.show()).get("saved", [])
        for row in rows:
            self._show(f"  {row['label']}: {row['value']}")
        if not rows:
            self._show(NOTHING_SAVED)

    async def _change(self, label: str) -> None:
        shown = await self._service.show()
        wanted = label.casefold()
        rows = [row for row in shown.get("saved", []) if row["label"].casefold() == wanted]
        if not rows:
            self._show("There is no such answer. /saved shows what there is.")
            return
        await self._say(shown["to_change"] + rows[0]["label"])

    async def _go_back(self, _rest: str) -> None:
        shown = await self._service.show()
        rows = [row for row in shown.get("saved", []) if not row.get("fixed")]
        if not rows:
            self._show(NOTHING_SAVED)
            return
        await self._say(shown["to_change"] + rows[-1]["label"])

    async def _send_photo(self, path: str) -> None:
        message_id, attempt = secrets.token_hex(16), 0
        while True:
            try:
                await self._service.send_photo(_to_path(path), message_id)
                break
            except OSError:
                self._show("I cannot read this file.")
                return
            except Unreachable:
                self._show("Your photo could not be sent yet. I keep trying.")
                await self._sleep(min(2.0**attempt, 30.0))
                attempt += 1
        await self._wait_checked()

    async def _wait_checked(self) -> None:
        """Show how far the check of the photo is, for ten minutes at most."""
        shown = ""
        for _ in range(_POLLS):
            try:
                state = await self._service.read_photo_state()
            except Unreachable:
                state = {}
            if state.get("complete"):
                self._show(str(state.get("response") or state.get("message")))
                await self._show_progress()
                return
            words = _PROGRESS.get(str(state.get("progress")), "")
            if words not in {"", shown}:
                shown = words
                self._show(f"({words})")
            await self._sleep(_POLL_SECONDS)
        self._show("Checking your photo takes longer than usual. Nothing is lost.")

    async def _forget(self, _rest: str) -> None:
        await self._service.clear()
        self._pending = None
        self._show(FORGOTTEN)


def _to_path(text: str) -> Path:
    """Return the path that a person typed; a terminal puts a dropped file's path into quotes."""
    return Path(text.strip("'\"")).expanduser()


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
