"""`adh` without a command: the full-screen chat.

It must import the workspace only when the prompt is painted, and must never open the screen in a pipe, where it
would write escape sequences into a file.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from adh.commands.chat_start import ChatStart, read_chat_start
from adh.commands.debug_log import set_up_log
from adh.commands.exit_statuses import CommandError, ExitStatus
from adh.screen.chat_app import ChatApp
from adh.screen.conversation_port import OpenChat
from adh.storage.places import find_places
from adh.storage.settings import load_settings


def main(args: argparse.Namespace) -> int:
    """Open the screen in the current folder; return the exit status when the person leaves it.

    Args:
        args: the words of the program.

    Raises:
        CommandError: there is no terminal that can show a screen, or no such conversation.
        Exception: the workspace cannot be opened.
    """
    return open_screen(read_chat_start(args, os.environ, Path.cwd()))


def open_screen(start: ChatStart, message: str = "", *, shows_resume: bool = True) -> int:
    """Open the screen; return the exit status when the person leaves it.

    Args:
        start: how the conversation is opened.
        message: the text of the input at the start.
        shows_resume: whether to print afterwards how the conversation continues.

    Raises:
        CommandError: as for `main`.
        Exception: as for `main`.
    """
    problem = find_screen_problem(start.environ, sys.stdin, sys.stdout)
    if problem:
        raise CommandError(problem, fix=ADVICE)
    set_up_log(start)
    theme = load_settings(find_places(start.environ, start.project)).theme
    left: list[str] = []
    app = ChatApp(lambda: _open_chat(start, left), theme=theme, message=message)
    app.run()
    if app.failure is not None:
        raise app.failure
    for session in left if shows_resume else ():
        print(f"This conversation continues with: adh --resume {session}")
    return ExitStatus.DONE if app.ended_by is None else 128 + app.ended_by


@asynccontextmanager
async def _open_chat(start: ChatStart, left: list[str]) -> AsyncIterator[OpenChat]:
    module = await asyncio.to_thread(importlib.import_module, "adh.commands.chat_opening")
    async with module.open_chat(start) as chat:
        yield chat
        if chat.conversation.transcript.turn and chat.workspace.settings.session.capture:
            left.append(chat.conversation.session)


_DUMB = ("", "dumb", "unknown")
ADVICE = 'Without a screen: adh run "what to do"'


class Stream(Protocol):
    """The part of a standard stream that is looked at."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        ...


def find_screen_problem(environ: Mapping[str, str], stdin: Stream, stdout: Stream) -> str:
    """Return why the screen cannot be shown, as a sentence; empty if it can.

    Args:
        environ: the environment; TERM names the kind of the terminal.
        stdin: the standard input.
        stdout: the standard output.

    >>> import io
    >>> find_screen_problem({"TERM": "xterm"}, io.StringIO(), io.StringIO())
    'the screen needs a terminal, and standard input is none'
    """
    for name, stream in (("input", stdin), ("output", stdout)):
        if not stream.isatty():
            return f"the screen needs a terminal, and standard {name} is none"
    kind = environ.get("TERM", "")
    if kind in _DUMB:
        return f"this terminal cannot show a screen: TERM is {kind or 'not set'}"
    return ""
